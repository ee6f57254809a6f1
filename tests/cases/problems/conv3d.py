import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, kernel, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 3, 7, 8, 9)]


def get_init_inputs():
    return [3, 5, 3]
