"""Weights on both sides: the oracle redraws constant ones, an answer's module receives the reference's.

Constant ones and zeros would hide a dropped bias or affine, so both sides draw them at random.
"""

from __future__ import annotations

from typing import Any

import torch
from protocol import Record


def randomise_initialisers() -> None:
    """Makes `torch.nn.init.ones_`, `zeros_` and `constant_`, and the running statistics of norms, random.

    The oracle and the candidate's process both do this, and both construct under the same seed: parameters that are made
    in the same order are then equal, also where the answer has packed them into a shape of its own."""
    init: Any = torch.nn.init

    def ones(tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return tensor.copy_(1.0 + 0.3 * torch.randn(tensor.shape))

    def zeros(tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return tensor.copy_(0.3 * torch.randn(tensor.shape))

    def constant(tensor: torch.Tensor, val: float) -> torch.Tensor:
        with torch.no_grad():
            return tensor.copy_(val + 0.3 * max(1.0, abs(val)) * torch.randn(tensor.shape))

    init.ones_, init.zeros_, init.constant_ = ones, zeros, constant
    norm: Any = torch.nn.modules.batchnorm._NormBase
    reset = norm.reset_running_stats

    def reset_running_stats(self: Any) -> None:
        reset(self)
        if self.track_running_stats and isinstance(self.running_mean, torch.Tensor) and not self.running_mean.is_meta:
            with torch.no_grad():
                self.running_mean.copy_(0.3 * torch.randn(self.running_mean.shape))
                self.running_var.copy_(0.5 + torch.rand(self.running_var.shape))

    norm.reset_running_stats = reset_running_stats


def is_constant(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and tensor.is_floating_point() and bool((tensor == tensor.flatten()[0]).all())


def randomise_constants(model: torch.nn.Module, generator: torch.Generator) -> list[str]:
    """Redraws every constant floating parameter and buffer round its value; returns their names."""
    names: list[str] = []
    with torch.no_grad():
        for name, tensor in state_of(model):
            if not is_constant(tensor):
                continue
            names.append(name)
            value = float(tensor.flatten()[0])
            noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float32) - 0.5
            drawn = value * (1.0 + 0.6 * noise) if value != 0.0 else 0.6 * noise
            tensor.copy_(drawn.to(tensor.dtype))
    return names


def state_of(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters, then buffers, each once, in order of creation."""
    return [(n, p.data) for n, p in model.named_parameters()] + list(model.named_buffers())


def load_weights(model: torch.nn.Module, weights: list[tuple[str, torch.Tensor, bool]]) -> Record:
    """Copies the reference's weights in: by name, else by unique shape and order. What is left relies on equal seeds.

    `weights` holds (name, value, was constant before it was redrawn). Returns how it went, with the reference's names that
    found no counterpart."""
    own = dict(state_of(model))
    left: list[tuple[str, torch.Tensor, bool]] = []
    used: set[str] = set()
    by_name = by_shape = 0
    with torch.no_grad():
        for name, value, constant in weights:
            target = own.get(name)
            if target is not None and target.shape == value.shape:
                target.copy_(value)
                used.add(name)
                by_name += 1
            else:
                left.append((name, value, constant))
        remaining = [(name, tensor) for name, tensor in own.items() if name not in used]
        unmatched: list[Record] = []
        for shape in dict.fromkeys(tuple(value.shape) for _, value, _ in left):
            mine = [tensor for _, tensor in remaining if tuple(tensor.shape) == shape]
            theirs = [item for item in left if tuple(item[1].shape) == shape]
            if len(mine) == len(theirs):
                for tensor, (_, value, _) in zip(mine, theirs):
                    tensor.copy_(value)
                by_shape += len(theirs)
            else:
                unmatched += [{"name": name, "constant": constant} for name, _, constant in theirs]
    return {"type": "constructed", "by_name": by_name, "by_shape": by_shape, "unmatched": unmatched, "own": len(own)}
