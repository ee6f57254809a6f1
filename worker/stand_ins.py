"""One trial, and what a lazy answer would return for it: a task that such an answer passes can judge nobody."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import compare
import torch
from protocol import ProtocolError
from reference_task import ReferenceTask, map_tensors, tensors_in
from weights import state_of

Guard = Callable[[Callable[[], Any], str], Any]  # Runs the reference's code; its failure makes the task unusable.


@dataclasses.dataclass
class Trial:
    """One set of secret inputs and what the reference makes of it."""

    variant: str
    inputs: list[Any]
    inputs_after: list[Any]
    native: Any
    exact: Any
    rounded: Any
    jitter: Any
    seed: int      # Of the inputs.
    run_seed: int  # Of random numbers that the reference and the answer draw.
    aliases: list[int]  # Inputs whose memory an output of the reference shares.

    def leaves(self) -> list[compare.Leaf]:
        return list(compare.leaves(self.native, self.exact, self.rounded, self.jitter))


def constants(trial: Trial, task: ReferenceTask, guarded: Guard) -> Any:
    """One number a leaf: its mean over another draw of the inputs, so that a scalar output is no constant by itself."""
    others = guarded(lambda: task.inputs(trial.variant, trial.seed ^ 0x5DEECE66D), "get_inputs")
    outputs = guarded(lambda: task.run(trial.variant, others, None, trial.run_seed), "the reference")[0]
    if compare.same_structure(trial.native, outputs):
        return None
    means = iter([t.double().mean().item() if t.numel() and not t.is_complex() else 0.0 for t in tensors_in(outputs)])
    return map_tensors(trial.native, lambda t: torch.full_like(t, _as_dtype(next(means), t.dtype)))

def stand_in(subject: str, trial: Trial, task: ReferenceTask, guarded: Guard) -> Any:
    """What a lazy answer would return; None where it does not apply."""
    native = trial.native
    if subject == "zeros":
        return map_tensors(native, torch.zeros_like)
    if subject == "mean":
        return constants(trial, task, guarded)
    if subject == "input":
        first = next((t for t in tensors_in(trial.inputs)), None)
        if first is None or not isinstance(native, torch.Tensor) or first.shape != native.shape or first.dtype != native.dtype:
            return None
        return first
    if subject == "other-inputs":
        others = guarded(lambda: task.inputs(trial.variant, trial.seed ^ 0x5DEECE66D), "get_inputs")
        if not any(True for _ in tensors_in(others)):
            return None
        return guarded(lambda: task.run(trial.variant, others, None, trial.run_seed), "the reference")[0]
    if subject == "other-weights":
        model = task.model(trial.variant)
        if model is None or not any(t.is_floating_point() for _, t in state_of(model)):
            return None
        kept = [(t, t.clone()) for _, t in state_of(model)]
        generator = torch.Generator().manual_seed(trial.seed ^ 0x2545F491)
        with torch.no_grad():
            for tensor, _ in kept:
                if tensor.is_floating_point():
                    noise = torch.rand(tensor.shape, generator=generator).to(tensor.dtype)
                    tensor.mul_(0.5 + noise)
        try:
            return guarded(lambda: task.run(trial.variant, trial.inputs, None, trial.run_seed), "the reference")[0]
        finally:
            with torch.no_grad():
                for tensor, value in kept:
                    tensor.copy_(value)
    raise ProtocolError(f"unknown stand-in {subject!r}")


def _as_dtype(value: float, dtype: torch.dtype) -> float | int | bool:
    if dtype == torch.bool:
        return value >= 0.5
    return value if dtype.is_floating_point or dtype.is_complex else int(round(value))


def aliases(outputs: Any, inputs: Any) -> list[int]:
    owners = {t.untyped_storage().data_ptr(): index for index, t in enumerate(tensors_in(inputs)) if t.numel()}
    keys = {t.untyped_storage().data_ptr() for t in tensors_in(outputs) if t.numel()}
    return sorted(index for key, index in owners.items() if key in keys)


def same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype:
        return False
    if a.is_floating_point():
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    return bool(torch.equal(a, b))


def equal(left: Any, right: Any) -> bool:
    if compare.same_structure(left, right):
        return False
    pairs = list(zip(tensors_in(left), tensors_in(right)))
    return all(a.shape == b.shape and same_tensor(a, b) for a, b in pairs)
