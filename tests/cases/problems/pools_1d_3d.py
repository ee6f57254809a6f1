import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, kernel, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel, stride, padding, dilation)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(3, 5, 61)]


def get_init_inputs():
    return [4, 2, 2, 3]
