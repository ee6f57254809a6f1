"""Gray code of integers: n xor (n >> 1)."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, numbers):
        return numbers ^ (numbers >> 1)


def get_inputs():
    return [torch.randint(0, 1 << 20, (35, 90), dtype=torch.int32)]


def get_init_inputs():
    return []
