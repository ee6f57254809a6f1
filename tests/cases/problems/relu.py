"""Rectifier, element by element."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


batch_size = 16
dim = 1003


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
