"""Mean squared error, a scalar."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean((predictions - targets) ** 2)


def get_inputs():
    return [torch.randn(64, 130), torch.randn(64, 130)]


def get_init_inputs():
    return []
