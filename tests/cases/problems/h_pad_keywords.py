import torch
import torch.nn as nn
import torch.nn.functional as F



class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, stride=1)


def get_inputs():
    return [torch.randn(2, 4, 14, 13)]


def get_init_inputs():
    return []
