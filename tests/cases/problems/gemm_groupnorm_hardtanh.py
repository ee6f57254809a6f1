import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, fin, fout, groups):
        super().__init__()
        self.gemm = nn.Linear(fin, fout)
        self.group_norm = nn.GroupNorm(groups, fout)

    def forward(self, x):
        return F.hardtanh(self.group_norm(self.gemm(x)), -1.0, 1.5)


def get_inputs():
    return [torch.randn(24, 30)]


def get_init_inputs():
    return [30, 48, 3]
