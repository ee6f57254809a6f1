import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b, a_scale, b_scale):
        exact = torch.matmul(a.to(torch.int32), b.to(torch.int32))
        return exact.to(torch.float32) * a_scale[:, None] * b_scale[None, :]


def get_inputs():
    return [
        torch.randint(-128, 128, (40, 70), dtype=torch.int8),
        torch.randint(-128, 128, (70, 36), dtype=torch.int8),
        torch.rand(40) * 0.1,
        torch.rand(36) * 0.1,
    ]


def get_init_inputs():
    return []
