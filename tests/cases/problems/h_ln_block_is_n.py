import torch
import torch.nn as nn
import torch.nn.functional as F



class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.ln = nn.LayerNorm(n)

    def forward(self, x):
        return self.ln(x)


batch_size = 4096
features = 1024


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features]
