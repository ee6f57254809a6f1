import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(64, 80, dtype=torch.float64), torch.randn(80, 48, dtype=torch.float64)]


def get_init_inputs():
    return []
