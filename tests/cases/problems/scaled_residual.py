"""Three tensors and a plain number: x + factor * (a - b)."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, a, b, factor):
        return x + factor * (a - b)


def get_inputs():
    return [torch.randn(28, 111), torch.randn(28, 111), torch.randn(28, 111), 0.75]


def get_init_inputs():
    return []
