import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, predictions, targets):
        return F.kl_div(torch.log(predictions), targets, reduction="batchmean")


def get_inputs():
    return [torch.rand(24, 90).softmax(dim=-1), torch.rand(24, 90).softmax(dim=-1)]


def get_init_inputs():
    return []
