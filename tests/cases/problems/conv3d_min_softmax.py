import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, dim):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, kernel)
        self.dim = dim

    def forward(self, x):
        x = torch.min(self.conv(x), dim=self.dim)[0]
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(2, 2, 6, 7, 7)]


def get_init_inputs():
    return [2, 6, 3, 2]
