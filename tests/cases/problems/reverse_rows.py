import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.flip(x, dims=[1])


def get_inputs():
    return [torch.randn(25, 60)]


def get_init_inputs():
    return []
