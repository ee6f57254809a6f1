"""Statistics over reference and candidate outputs. Thresholds and the verdict are the front's.

Expected values are the reference's in float64 (`exact`); its own run in the task's dtype (`native`) says how far honest
rounding goes and which elements stand at a cliff, where both values count as right.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import torch

CHUNK = 1 << 22


@dataclasses.dataclass
class Leaf:
    """One tensor or scalar of the reference's outputs."""

    path: str
    native: Any
    exact: Any
    rounded: Any = None  # With inputs and weights rounded to half precision.
    jitter: Any = None   # With inputs and weights off by a unit in the last place.


def leaves(native: Any, exact: Any = None, rounded: Any = None, jitter: Any = None, path: str = "output") -> Iterator[Leaf]:
    if isinstance(native, (list, tuple)):
        for index, item in enumerate(native):
            yield from leaves(item, _child(exact, index), _child(rounded, index), _child(jitter, index), f"{path}[{index}]")
    elif isinstance(native, dict):
        for key, item in native.items():
            yield from leaves(item, _child(exact, key), _child(rounded, key), _child(jitter, key), f"{path}[{key!r}]")
    else:
        yield Leaf(path, native, exact, rounded, jitter)


def _child(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return None


def same_structure(expected: Any, actual: Any, path: str = "output") -> str:
    """Empty where the two have one structure (a list equals a tuple), else a sentence that says where they differ."""
    if isinstance(expected, torch.Tensor) or isinstance(actual, torch.Tensor):
        if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
            return ""
        return f"{path} is {kind_of(actual)}, expected {kind_of(expected)}"
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(expected) != len(actual):
            return f"{path} has {len(actual)} items, expected {len(expected)}"
        for index, (left, right) in enumerate(zip(expected, actual)):
            if difference := same_structure(left, right, f"{path}[{index}]"):
                return difference
        return ""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual) and set(expected) != set(actual):
            return f"{path} has keys {list(actual)}, expected {list(expected)}"
        for key, left in expected.items():
            if difference := same_structure(left, actual[key], f"{path}[{key!r}]"):
                return difference
        return ""
    if kind_of(expected) != kind_of(actual):
        return f"{path} is {kind_of(actual)}, expected {kind_of(expected)}"
    return ""


def in_order_of(expected: Any, actual: Any) -> Any:
    """`actual` with the keys of each dict in the order of `expected`, whose structure it has."""
    if isinstance(expected, dict):
        return {key: in_order_of(item, actual[key]) for key, item in expected.items()}
    if isinstance(expected, (list, tuple)):
        return [in_order_of(left, right) for left, right in zip(expected, actual)]
    return actual


def kind_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if value is None:
        return "None"
    names = {bool: "a bool", int: "an int", float: "a float", str: "a string", list: "a list", tuple: "a tuple", dict: "a dict"}
    return names.get(type(value), f"of class {type(value).__name__}")


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def leaf_statistics(leaf: Leaf) -> dict[str, Any]:
    """What the front needs to set this leaf's tolerance; all in float64 over the finite elements."""
    native = leaf.native
    if not isinstance(native, torch.Tensor):
        return {"path": leaf.path, "kind": kind_of(native)}
    record: dict[str, Any] = {
        "path": leaf.path,
        "kind": "tensor",
        "dtype": str(native.dtype).removeprefix("torch."),
        "shape": list(native.shape),
        "count": native.numel(),
        "floating": native.is_floating_point() or native.is_complex(),
    }
    if not record["floating"]:
        exact = leaf.exact
        jumped = isinstance(exact, torch.Tensor) and exact.shape == native.shape and exact.dtype == native.dtype
        record["jumps"] = int((native != exact).sum()) if jumped else 0
        return record
    have = as_real(native).flatten()
    want = exact_values(leaf)
    squares = noise = rounded_error = largest = 0.0
    finite_count = jumps = 0
    low, moved = _counterpart(leaf.rounded, native), _counterpart(leaf.jitter, native)
    for start in range(0, have.numel(), CHUNK):
        a, d = have[start : start + CHUNK].double(), want[start : start + CHUNK]
        finite = torch.isfinite(a) & torch.isfinite(d)
        a, d_finite = a[finite], d[finite]
        finite_count += a.numel()
        if a.numel():
            squares += float(d_finite.square().sum())
            largest = max(largest, float(d_finite.abs().max()))
            difference = (a - d_finite).abs()
            noise = max(noise, _typical_noise(difference))
            scale = math.sqrt(float(d_finite.square().mean()))
            jumps += int((difference > 64.0 * noise + 1e-3 * (scale + d_finite.abs())).sum())
            if moved is not None:
                error = (moved[start : start + CHUNK].double()[finite] - d_finite).abs()
                error = error[torch.isfinite(error)]
                noise = max(noise, _typical_noise(error) if error.numel() else 0.0)
            if low is not None:
                error = (low[start : start + CHUNK].double()[finite] - d_finite).abs()
                error = error[torch.isfinite(error)]
                rounded_error = max(rounded_error, float(error.max()) if error.numel() else 0.0)
    record |= {
        "finite": finite_count,
        "rms": math.sqrt(squares / finite_count) if finite_count else 0.0,
        "max_abs": largest,
        "noise": noise,
        "half_error": rounded_error,
        "jumps": jumps,
    }
    return record


def _counterpart(value: Any, native: torch.Tensor) -> torch.Tensor | None:
    return as_real(value).flatten() if isinstance(value, torch.Tensor) and value.shape == native.shape else None


def _typical_noise(error: torch.Tensor) -> float:
    """The largest error, cliffs aside: beyond 64 times the 90th percentile an error is a jump, not rounding."""
    largest = float(error.max())
    sample = error if error.numel() <= 65536 else error[torch.randperm(error.numel())[:65536]]
    typical = float(torch.quantile(sample, 0.9))
    if typical == 0.0 or largest <= 64.0 * typical:
        return largest
    return float(error[error <= 64.0 * typical].max())


def exact_values(leaf: Leaf) -> torch.Tensor:
    """The leaf's expected values in float64, flat; the native ones where the float64 run has no counterpart."""
    exact = leaf.exact
    if not isinstance(exact, torch.Tensor) or exact.shape != leaf.native.shape:
        exact = leaf.native
    return as_real(exact).flatten().double()


def compare_leaf(leaf: Leaf, actual: Any, atol: float, rtol: float, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Element-wise statistics of one leaf; `bad` counts elements outside `atol + rtol * |expected|` of both the exact and
    the native value, `nonfinite` those whose NaN or Inf stands elsewhere."""
    native = leaf.native
    record: dict[str, Any] = {"path": leaf.path, "problem": "", "bad": 0, "nonfinite": 0, "count": 0, "max_abs": 0.0, "max_rel": 0.0}
    if not isinstance(native, torch.Tensor):
        equal = scalars_agree(native, actual, atol, rtol)
        record |= {"count": 1, "bad": 0 if equal else 1, "expected": repr(native)[:80], "actual": repr(actual)[:80]}
        return record
    if native.shape != actual.shape:
        record |= {"problem": "shape", "expected": str(list(native.shape)), "actual": str(list(actual.shape))}
        return record
    if native.dtype != actual.dtype:
        record |= {"problem": "dtype", "expected": str(native.dtype), "actual": str(actual.dtype)}
        return record
    record["count"] = native.numel()
    if not (native.is_floating_point() or native.is_complex()):
        wrong = native != actual.to(native.dtype)
        if bool(wrong.any()):
            wrong &= ~excused_ties(native, actual, inputs)
        record["bad"] = int(wrong.sum())
        if record["bad"]:
            index = int(wrong.flatten().nonzero()[0])
            record |= _worst(index, native.flatten()[index].item(), actual.flatten()[index].item(), native.shape)
            record["max_abs"] = float((native.double() - actual.double()).abs().max())
        return record
    have, near, want = as_real(actual).flatten(), as_real(native).flatten(), exact_values(leaf)
    worst_ratio = 0.0
    for start in range(0, have.numel(), CHUNK):
        c = have[start : start + CHUNK].double()
        r = near[start : start + CHUNK].double()
        d = want[start : start + CHUNK]
        d = torch.where(torch.isfinite(r) & ~torch.isfinite(d), r, d)  # The native run alone has a number: it is the expectation.
        agree_nonfinite = same_nonfinite(c, r) | same_nonfinite(c, d)
        finite = torch.isfinite(c) & torch.isfinite(d)
        error = torch.where(finite, (c - d).abs(), torch.zeros_like(c))
        bound = atol + rtol * torch.where(finite, d.abs(), torch.zeros_like(d))
        near_error = torch.where(torch.isfinite(c) & torch.isfinite(r), (c - r).abs(), torch.full_like(c, math.inf))
        outside = finite & (error > bound) & (near_error > bound)
        # A value that overflows in the task's dtype and not in float64 (or the other way) is excused where the native run agrees.
        nonfinite = ~(torch.isfinite(c) & (torch.isfinite(d) | torch.isfinite(r))) & ~agree_nonfinite
        record["bad"] += int(outside.sum())
        record["nonfinite"] += int(nonfinite.sum())
        ratio = torch.minimum(error, near_error.nan_to_num(posinf=math.inf)) / bound if bound.numel() else error
        ratio = torch.where(nonfinite, torch.full_like(ratio, math.inf), torch.where(outside, ratio, torch.zeros_like(ratio)))
        if error.numel():
            record["max_abs"] = max(record["max_abs"], float(error.max()))
            relative = error / d.abs().clamp_min(1e-12)
            relative = relative[finite & (d.abs() > atol)]
            record["max_rel"] = max(record["max_rel"], float(relative.max()) if relative.numel() else 0.0)
            top = float(ratio.max())
            if top > worst_ratio:
                worst_ratio = top
                index = int(ratio.argmax())
                record |= _worst(start + index, float(d[index]), float(c[index]), as_real(native).shape)
    return record


def same_nonfinite(c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(c) & torch.isnan(d)) | (torch.isinf(c) & (c == d))


def _worst(flat_index: int, expected: Any, actual: Any, shape: torch.Size) -> dict[str, Any]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(flat_index % size)
        flat_index //= size
    return {"index": index[::-1], "expected": repr(expected), "actual": repr(actual)}


def scalars_agree(expected: Any, actual: Any, atol: float, rtol: float) -> bool:
    if type(expected) is not type(actual):
        return False
    if type(expected) is float:
        if math.isnan(expected):
            return math.isnan(actual)
        if math.isinf(expected) or math.isinf(actual):
            return bool(expected == actual)
        return bool(expected == actual or abs(expected - actual) <= atol + rtol * abs(expected))
    return bool(expected == actual)


def excused_ties(native: torch.Tensor, actual: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Where an index output (argmax, sort, top-k) names another element of the same value: right as well.

    An input and a dim explain the output if the reference's indices, looked up along it, are valid; an answer's index is
    excused if it is in range, finds the same value, and is not used twice where the reference's are all different."""
    excused = torch.zeros_like(native, dtype=torch.bool)
    if native.dtype not in (torch.int64, torch.int32) or native.numel() == 0:
        return excused
    want, have = native.long(), actual.long()
    for x in inputs:
        for dim in range(x.dim()):
            size = x.shape[dim]
            for keep in (True, False):
                w = want if keep else want.unsqueeze(dim) if want.dim() == x.dim() - 1 else None
                if w is None or w.dim() != x.dim():
                    continue
                if any(w.shape[i] != x.shape[i] for i in range(x.dim()) if i != dim):
                    continue
                if int(w.min()) < 0 or int(w.max()) >= size:
                    continue
                h = have if keep else have.unsqueeze(dim)
                in_range = (h >= 0) & (h < size)
                looked = torch.gather(x, dim, h.clamp(0, size - 1))
                same = (looked == torch.gather(x, dim, w)) & in_range
                if not _selects(x, w, dim):
                    continue
                if w.shape[dim] > 1 and _distinct(w, dim) and not _distinct(h, dim):
                    continue
                excused |= same if keep else same.squeeze(dim)
    return excused


def _selects(x: torch.Tensor, indices: torch.Tensor, dim: int) -> bool:
    """Whether the indices pick extremes or a sorted run along `dim`, as argmax, argmin, sort and top-k do."""
    picked = torch.gather(x, dim, indices)
    if indices.shape[dim] == 1:
        top = x.amax(dim, keepdim=True) if x.dtype != torch.bool else x.any(dim, keepdim=True)
        low = x.amin(dim, keepdim=True) if x.dtype != torch.bool else x.all(dim, keepdim=True)
        return bool((picked == top).all()) or bool((picked == low).all())
    step = picked.narrow(dim, 1, picked.shape[dim] - 1) - picked.narrow(dim, 0, picked.shape[dim] - 1)
    return bool((step >= 0).all()) or bool((step <= 0).all())


def _distinct(indices: torch.Tensor, dim: int) -> bool:
    ordered = indices.sort(dim).values
    return not bool((ordered.narrow(dim, 1, ordered.shape[dim] - 1) == ordered.narrow(dim, 0, ordered.shape[dim] - 1)).any())
