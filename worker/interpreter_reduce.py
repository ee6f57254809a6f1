"""Reductions and scans with a function of one's own, whole slices at a time: the interpreter takes one element after the other."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as ti

HANDLE: Any = ti.TensorHandle
Array = np.ndarray[Any, Any]


class Elements:
    """Whether reductions take their elements in a shuffled order: a GPU's threads exchange them as is best for it, so that a
    combining function must not care."""

    shuffler: np.random.Generator | None = None


def _shuffled(items: Any, axis: int | None) -> Any:
    """The operands of a reduction, the elements along `axis` (None: all) of each in the same shuffled order."""
    if Elements.shuffler is None:
        return items
    shape = items[0].handle.data.shape
    order = Elements.shuffler.permutation(items[0].handle.data.size if axis is None else shape[axis])
    made = []
    for item in items:
        data = item.handle.data
        data = data.reshape(-1)[order].reshape(shape) if axis is None else np.take(data, order, axis=axis)
        made.append(tl.tensor(HANDLE(np.ascontiguousarray(data), item.dtype.scalar), item.type))
    return tuple(made)


def _branches(function: Callable[..., Any], depth: int = 0) -> bool:
    """Whether a combining function takes a branch: it then means one element, not a block of them."""
    if function.__module__ == "triton.language.standard":
        return False  # Its branches are on constants.
    if any("JUMP" in step.opname for step in dis.get_instructions(function)):
        return True
    called = (function.__globals__.get(name) for name in function.__code__.co_names)
    inner = [value.fn for value in called if isinstance(value, ti.InterpretedFunction)]
    return depth < 3 and any(_branches(value, depth + 1) for value in inner)


def _tensor(data: Array, dtype: Any) -> Any:
    data = np.ascontiguousarray(data) if data.shape else data.reshape(1)
    return tl.tensor(HANDLE(data, dtype.scalar), tl.block_type(dtype, list(data.shape)))


def _combine(function: Callable[..., Any], left: list[Array], right: list[Array], dtypes: list[Any]) -> list[Array]:
    given = [_tensor(data, dtype) for data, dtype in zip(left + right, dtypes + dtypes)]
    made = function(*given)
    made = made if isinstance(made, (tuple, tl.tuple)) else (made,)
    shape = left[0].shape
    results = []
    for item, dtype in zip(made, dtypes):
        data = item.handle.data if isinstance(item, tl.tensor) else np.asarray(item)
        data = data.astype(ti._get_np_dtype(dtype), copy=False)
        results.append(data.reshape(shape) if data.size == left[0].size else np.broadcast_to(data, shape))
    return results


def mend_reductions() -> None:
    reductions: Any = ti.ReduceOps
    scans: Any = ti.ScanOps
    slow_reduce, slow_scan = reductions.generic_reduce, scans.generic_scan

    def generic_reduce(self: Any, input: Any) -> Any:
        input = _shuffled(input, self.axis)
        if _branches(self.combine_fn.fn):
            return slow_reduce(self, input)
        whole = self.axis is None
        dtypes = [item.dtype for item in input]
        axis = 0 if whole else self.axis
        rank = len(input[0].shape)
        # Neighbours are combined, as in a tree.
        parts = [np.moveaxis(item.handle.data.reshape(-1) if whole else item.handle.data, axis, 0) for item in input]
        while parts[0].shape[0] > 1:
            parts = _combine(self.combine_fn.fn, [part[0::2] for part in parts], [part[1::2] for part in parts], dtypes)
        results = []
        for part, dtype in zip(parts, dtypes):
            data = part[0]
            if self.keep_dims:
                data = data.reshape((1,) * rank) if whole else np.expand_dims(data, axis)
            results.append(self.to_tensor(data if data.shape else data.item(), dtype))
        return results

    def generic_scan(self: Any, input: Any) -> Any:
        if _branches(self.combine_fn.fn):
            return slow_scan(self, input)
        dtypes = [item.dtype for item in input]
        parts = [np.moveaxis(item.handle.data, self.axis, 0).copy() for item in input]
        step = 1
        while step < parts[0].shape[0]:
            # A block's sizes are powers of two: the first `step` are combined with themselves, and then left as they were.
            earlier = [np.concatenate([part[:step], part[:-step]]) for part in parts]
            for part, data in zip(parts, _combine(self.combine_fn.fn, earlier, parts, dtypes)):
                part[step:] = data[step:]
            step *= 2
        return [self.to_tensor(np.moveaxis(part, 0, self.axis), dtype) for part, dtype in zip(parts, dtypes)]

    reductions.generic_reduce, scans.generic_scan = generic_reduce, generic_scan
