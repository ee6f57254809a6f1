"""A plain function, no module: gate * sigmoid(gate) * value."""
import torch


def swish_gate(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return gate * torch.sigmoid(gate) * value


def get_inputs():
    return [torch.randn(33, 250), torch.randn(33, 250)]
