import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.flat = nn.AvgPool2d(kernel)
        self.deep = nn.AvgPool3d(kernel, stride=1, padding=1)

    def forward(self, image, volume):
        return {"flat": self.flat(image), "deep": self.deep(volume)}


def get_inputs():
    return [torch.randn(2, 4, 13, 17), torch.randn(2, 2, 6, 7, 8)]


def get_init_inputs():
    return [3]
