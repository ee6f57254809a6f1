"""Doubles its input in place and returns it: the change of the input is part of the task."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.mul_(2.0)


def get_inputs():
    return [torch.randn(30, 101)]


def get_init_inputs():
    return []
