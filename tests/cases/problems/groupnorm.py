"""Group normalisation of an image batch."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, num_groups, num_channels):
        super().__init__()
        self.gn = nn.GroupNorm(num_groups, num_channels)

    def forward(self, x):
        return self.gn(x)


num_groups = 3
num_channels = 12


def get_inputs():
    return [torch.randn(4, num_channels, 10, 14)]


def get_init_inputs():
    return [num_groups, num_channels]
