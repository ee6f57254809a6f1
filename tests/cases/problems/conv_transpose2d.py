import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, padding, output_padding, groups):
        super().__init__()
        self.conv = nn.ConvTranspose2d(cin, cout, kernel, stride, padding, output_padding, groups=groups, bias=True)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 6, 9, 8)]


def get_init_inputs():
    return [6, 8, (3, 4), 2, 1, 1, 2]
