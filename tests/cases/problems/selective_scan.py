import torch
import torch.nn as nn


class Model(nn.Module):
    """State space recurrence: h = a h + b x, y = sum of c h over the state."""

    def forward(self, x, a, b, c):
        h = torch.zeros(x.shape[0], x.shape[2], b.shape[2], device=x.device, dtype=x.dtype)
        out = []
        for t in range(x.shape[1]):
            h = h * a[:, t, :, None] + x[:, t, :, None] * b[:, t, None, :]
            out.append((h * c[:, t, None, :]).sum(-1))
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(2, 14, 20), torch.rand(2, 14, 20), torch.randn(2, 14, 8), torch.randn(2, 14, 8)]


def get_init_inputs():
    return []
