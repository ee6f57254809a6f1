"""Two-dimensional max pooling."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.maxpool = nn.MaxPool2d(kernel_size=kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.maxpool(x)


def get_inputs():
    return [torch.randn(2, 5, 23, 19)]


def get_init_inputs():
    return [3, 2, 1]
