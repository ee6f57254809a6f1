import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.half().float()


def get_inputs():
    return [torch.randn(30, 50)]


def get_init_inputs():
    return []
