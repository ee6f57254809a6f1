import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


def get_inputs():
    return [torch.randn(2, 3, 16, 15)]


def get_init_inputs():
    return [3, 7, 3, (7, 1, 1)]
