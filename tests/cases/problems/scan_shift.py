import torch
import torch.nn as nn


class Model(nn.Module):
    """Each element and its right neighbour; the last has none."""

    def forward(self, x):
        return x + torch.cat((x[1:], torch.zeros_like(x[:1])))


def get_inputs():
    return [torch.randn(1500)]


def get_init_inputs():
    return []
