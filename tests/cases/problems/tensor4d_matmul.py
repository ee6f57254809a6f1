import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.einsum("bijl,lk->bijk", a, b)


def get_inputs():
    return [torch.randn(2, 5, 7, 40), torch.randn(40, 30)]


def get_init_inputs():
    return []
