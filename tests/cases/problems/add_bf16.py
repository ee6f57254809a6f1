"""Sum of two bfloat16 tensors, scaled by a half; the result stays bfloat16."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a + b) * 0.5


def get_inputs():
    return [torch.randn(64, 75).to(torch.bfloat16), torch.randn(64, 75).to(torch.bfloat16)]


def get_init_inputs():
    return []
