"""One-dimensional convolution with a stride and without bias."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.conv1d = nn.Conv1d(in_channels, out_channels, kernel_size, stride=stride, bias=False)

    def forward(self, x):
        return self.conv1d(x)


def get_inputs():
    return [torch.randn(3, 4, 150)]


def get_init_inputs():
    return [4, 6, 5, 2]
