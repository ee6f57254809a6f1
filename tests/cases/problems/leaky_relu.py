"""Leaky rectifier; the slope is an argument of the constructor."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, negative_slope: float):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x):
        return torch.nn.functional.leaky_relu(x, negative_slope=self.negative_slope)


def get_inputs():
    return [torch.randn(8, 25, 25)]


def get_init_inputs():
    return [0.2]
