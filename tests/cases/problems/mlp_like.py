import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b, c):
        return torch.matmul(torch.matmul(a, b), c)


def get_inputs():
    return [torch.randn(40, 50), torch.randn(50, 60), torch.randn(60, 36)]


def get_init_inputs():
    return []
