import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, matrix, vector):
        return torch.matmul(matrix, vector)


def get_inputs():
    return [torch.randn(45, 700), torch.randn(700, 1)]


def get_init_inputs():
    return []
