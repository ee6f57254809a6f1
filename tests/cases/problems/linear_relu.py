"""A linear layer followed by a rectifier."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)

    def forward(self, x):
        return torch.relu(self.fc(x))


in_features = 90
out_features = 70


def get_inputs():
    return [torch.randn(50, in_features)]


def get_init_inputs():
    return [in_features, out_features]
