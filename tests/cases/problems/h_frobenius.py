import torch
import torch.nn as nn
import torch.nn.functional as F



class Model(nn.Module):
    def forward(self, x):
        return x / torch.norm(x, p="fro")


def get_inputs():
    return [torch.randn(6, 8, 31, 33)]


def get_init_inputs():
    return []
