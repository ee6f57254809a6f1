import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, padding, dilation):
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(cin, cout, kernel, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        return self.conv1d_transpose(x)


def get_inputs():
    return [torch.randn(2, 4, 30)]


def get_init_inputs():
    return [4, 6, 3, 2, 1, 2]
