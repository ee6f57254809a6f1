import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv2d = nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(2, 3), groups=2)

    def forward(self, x):
        return self.conv2d(x)


def get_inputs():
    return [torch.randn(2, 4, 16, 20)]


def get_init_inputs():
    return []
