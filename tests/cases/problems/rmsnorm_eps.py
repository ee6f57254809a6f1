import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(dim=1, keepdim=True) + self.eps)


def get_inputs():
    return [torch.randn(30, 190)]


def get_init_inputs():
    return [190]
