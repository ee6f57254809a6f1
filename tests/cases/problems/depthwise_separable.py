import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, dilation):
        super().__init__()
        self.depthwise = nn.Conv2d(cin, cin, kernel, padding=dilation, dilation=dilation, groups=cin, bias=False)
        self.pointwise = nn.Conv2d(cin, cout, 1, bias=True)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


def get_inputs():
    return [torch.randn(2, 6, 14, 15)]


def get_init_inputs():
    return [6, 10, 3, 2]
