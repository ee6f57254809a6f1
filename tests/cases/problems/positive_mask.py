"""Which elements are positive: a tensor of booleans."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x > 0


def get_inputs():
    return [torch.randn(45, 77)]


def get_init_inputs():
    return []
