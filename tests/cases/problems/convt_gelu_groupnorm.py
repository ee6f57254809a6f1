import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, groups):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(cin, cout, kernel, stride=stride)
        self.group_norm = nn.GroupNorm(groups, cout)

    def forward(self, x):
        return self.group_norm(F.gelu(self.conv_transpose(x)))


def get_inputs():
    return [torch.randn(2, 4, 7, 6)]


def get_init_inputs():
    return [4, 8, 3, 2, 2]
