import torch
import torch.nn as nn


class Model(nn.Module):
    """Place of the first negative number of each row, the row's length where there is none."""

    def forward(self, x):
        n = x.shape[1]
        places = torch.arange(n, device=x.device).expand_as(x)
        return torch.where(x < 0, places, torch.full_like(places, n)).min(dim=1).values


def get_inputs():
    return [torch.randn(30, 40)]


def get_init_inputs():
    return []
