import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        near = F.interpolate(x, scale_factor=2, mode="nearest")
        return near, F.pixel_shuffle(x, 2)


def get_inputs():
    return [torch.randn(2, 8, 5, 7)]


def get_init_inputs():
    return []
