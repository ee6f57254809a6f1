import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x >> 8) & 255


def get_inputs():
    return [torch.randint(0, 2**31 - 1, (30, 50), dtype=torch.int32)]


def get_init_inputs():
    return []
