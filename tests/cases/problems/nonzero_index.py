import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nonzero(x > 0).squeeze(1)


def get_inputs():
    return [torch.randn(777)]


def get_init_inputs():
    return []
