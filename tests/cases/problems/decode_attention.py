import torch
import torch.nn as nn
import math


class Model(nn.Module):
    """One query a sequence against a cache of its own length; heads share keys in groups."""

    def forward(self, q, k, v, lengths):
        group = q.shape[1] // k.shape[1]
        k = k.repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        scores = torch.einsum("bhd,bhsd->bhs", q, k) / math.sqrt(q.shape[-1])
        dead = torch.arange(k.shape[2], device=q.device)[None, :] >= lengths[:, None]
        scores = scores.masked_fill(dead[:, None, :], float("-inf"))
        return torch.einsum("bhs,bhsd->bhd", torch.softmax(scores, dim=-1), v)


def get_inputs():
    return [torch.randn(3, 4, 32), torch.randn(3, 2, 90, 32), torch.randn(3, 2, 90, 32), torch.randint(1, 91, (3,))]


def get_init_inputs():
    return []
