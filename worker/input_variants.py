"""Input values that a kernel cannot expect: scaled, shifted, heavy-tailed, with many zeros, far from zero, tiny.

Every variant maps equal values to equal values, so that structure survives: symmetric, triangular and repeated inputs
stay what they are. Inputs whose values mean something (probabilities, masks, labels, one-hot rows) are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def _scaled(x: torch.Tensor) -> torch.Tensor:
    """Four times; what has both signs is then all below zero, so that a maximum that starts at zero, or compares bits, shows."""
    return x * 4.0 if float(x.min()) >= 0.0 or float(x.max()) <= 0.0 else x.abs() * -4.0


def _shifted(x: torch.Tensor) -> torch.Tensor:
    """Signed where the input was not, off-centre where it was; exact zeros (padding, triangles) stay zero."""
    shift = -float(x.mean()) if float(x.min()) >= 0.0 else 0.75 * float(x.std()) if x.numel() > 1 else 0.5
    return torch.where(x == 0, x, x + shift)


def _heavy(x: torch.Tensor) -> torch.Tensor:
    """Cubes the values at unit scale: a few are then tens of times the typical one."""
    scale = float(x.square().mean().sqrt())
    if scale == 0.0:
        return x
    return (x / scale).pow(3) * scale


def _zeros(x: torch.Tensor) -> torch.Tensor:
    """Zeroes the smaller half by magnitude, which also makes ties."""
    return torch.where(x.abs() <= x.abs().median(), torch.zeros_like(x), x)


def _far(x: torch.Tensor) -> torch.Tensor:
    """Up to some hundreds: an exponential without its maximum taken off overflows."""
    scale = float(x.square().mean().sqrt())
    return x * (40.0 / scale) if scale > 0.0 else x


def _tiny(x: torch.Tensor) -> torch.Tensor:
    """A thousandth: an epsilon that was left out shows."""
    return x * 1e-3


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scaled": _scaled,
    "shifted": _shifted,
    "heavy-tailed": _heavy,
    "half-zero": _zeros,
    "far": _far,
    "tiny": _tiny,
}


def has_meaning(x: torch.Tensor) -> bool:
    """Whether the values look chosen: few distinct ones, not finite, or rows that sum to one."""
    if x.numel() == 0 or not bool(torch.isfinite(x).all()):
        return True
    sample = x.flatten()[:4096].double()
    if x.numel() > 8 and torch.unique(sample).numel() <= 3:
        return True
    if float(x.min()) >= 0.0:
        for dim in range(x.dim()):
            if x.shape[dim] > 1 and bool(((x.double().sum(dim) - 1.0).abs() < 1e-2).all()):
                return True
    return False


def apply(name: str, value: Any) -> Any:
    """`value` with the variant `name` applied to each floating tensor in it."""
    if name == "plain":
        return value
    if isinstance(value, torch.Tensor):
        if value.dtype not in _FLOATS or has_meaning(value):
            return value
        if any(step == 0 and size > 1 for step, size in zip(value.stride(), value.shape)):
            # Expanded: several indices are one value, and stay one.
            base = value[tuple(slice(0, 1) if step == 0 else slice(None) for step in value.stride())]
            return apply(name, base).expand(value.shape)
        changed = VARIANTS[name](value.float() if value.dtype != torch.float64 else value).to(value.dtype)
        if changed.stride() == value.stride():
            return changed
        return torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype).copy_(changed)
    if isinstance(value, (list, tuple)):
        items = [apply(name, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: apply(name, item) for key, item in value.items()}
    return value
