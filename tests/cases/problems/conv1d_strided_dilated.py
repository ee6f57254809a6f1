import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, dilation, groups):
        super().__init__()
        self.conv1d = nn.Conv1d(cin, cout, kernel, stride=stride, dilation=dilation, groups=groups)

    def forward(self, x):
        return self.conv1d(x)


def get_inputs():
    return [torch.randn(2, 6, 50)]


def get_init_inputs():
    return [6, 8, 3, 2, 3, 2]
