import torch
import torch.nn as nn
import torch.nn.functional as F



class Model(nn.Module):
    def __init__(self, ci, co, k, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose2d(ci, co, k, stride=stride, padding=padding)

    def forward(self, x):
        return self.conv(x)


batch_size = 16
ci = 32
co = 64
height = 128
width = 128


def get_inputs():
    return [torch.rand(batch_size, ci, height, width)]


def get_init_inputs():
    return [ci, co, 3, 2, 1]
