import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, padding):
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(cin, cout, kernel, stride=stride, padding=padding, bias=False)

    def forward(self, x):
        return self.conv_transpose3d(x)


def get_inputs():
    return [torch.randn(2, 2, 3, 4, 3)]


def get_init_inputs():
    return [2, 3, 3, 2, 1]
