import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x & 255


def get_inputs():
    return [torch.randint(-100000, 100000, (30, 50))]


def get_init_inputs():
    return []
