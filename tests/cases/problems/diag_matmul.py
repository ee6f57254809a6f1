import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, diagonal, matrix):
        return torch.diag(diagonal) @ matrix


def get_inputs():
    return [torch.randn(60), torch.randn(60, 90)]


def get_init_inputs():
    return []
