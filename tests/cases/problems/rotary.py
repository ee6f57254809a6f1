import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cos, sin):
        half = x.shape[-1] // 2
        x1, x2 = x[..., :half], x[..., half:]
        c, s = cos[:, None, :], sin[:, None, :]
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1)


def get_inputs():
    angle = torch.rand(20, 12) * 6.28
    return [torch.randn(2, 20, 3, 24), torch.cos(angle), torch.sin(angle)]


def get_init_inputs():
    return []
