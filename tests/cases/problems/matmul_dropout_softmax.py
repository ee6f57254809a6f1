import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, fin, fout, p):
        super().__init__()
        self.matmul = nn.Linear(fin, fout)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        return torch.softmax(self.dropout(self.matmul(x)), dim=1)


def get_inputs():
    return [torch.randn(20, 40)]


def get_init_inputs():
    return [40, 50, 0.0]
