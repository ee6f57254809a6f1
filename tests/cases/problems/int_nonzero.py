import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x != 0).to(torch.int32)


def get_inputs():
    return [torch.randint(-2, 3, (30, 50), dtype=torch.int32)]


def get_init_inputs():
    return []
