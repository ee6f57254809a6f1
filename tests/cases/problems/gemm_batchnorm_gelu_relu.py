import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.gemm = nn.Linear(fin, fout)
        self.batch_norm = nn.BatchNorm1d(fout)

    def forward(self, x):
        return torch.relu(F.gelu(self.batch_norm(self.gemm(x))))


def get_inputs():
    return [torch.randn(40, 50)]


def get_init_inputs():
    return [50, 36]
