"""Two-dimensional convolution with bias."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=1, padding=1)

    def forward(self, x):
        return self.conv(x)


in_channels = 3
out_channels = 10
kernel_size = 3


def get_inputs():
    return [torch.randn(2, in_channels, 18, 21)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
