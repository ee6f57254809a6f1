import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Eight activations, one after the other's input: each output is returned."""

    def forward(self, x):
        return (
            torch.sigmoid(x), F.selu(x), F.hardsigmoid(x), F.softsign(x),
            F.elu(x, alpha=1.3), F.hardtanh(x), F.hardswish(x), F.mish(x),
        )


def get_inputs():
    return [torch.randn(19, 150) * 3.0]


def get_init_inputs():
    return []
