"""What kernels do to memory: bounds, what they read, races between lanes and programs, and waits that get nowhere."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as ti

BUILDER: Any = ti.InterpreterBuilder
HANDLE: Any = ti.TensorHandle
Array = np.ndarray[Any, Any]

FLOAT_POISON = {np.dtype(np.float16): 6.0e4, np.dtype(np.float32): 1.5e38, np.dtype(np.float64): 1.5e300}
BF16_POISON, BF16_POISON_BELOW = 0x7EE1, 0xFE61  # 1.5e38, -7.5e37


class Poison:
    """What lanes hold that a mask left out and no `other` fills."""

    odd = 1  # Which lanes are below zero changes from trial to trial.

    @classmethod
    def values(cls, dtype_tt: Any, dtype_np: Any, like: Array) -> Array:
        if dtype_tt == tl.bfloat16:
            values = np.full(like.shape, BF16_POISON, dtype=np.uint16)
            values.flat[cls.odd :: 2] = BF16_POISON_BELOW
            return values
        if dtype_np in FLOAT_POISON:
            values = np.full(like.shape, FLOAT_POISON[dtype_np], dtype=dtype_np)
            values.flat[cls.odd :: 2] = -0.5 * FLOAT_POISON[dtype_np]  # Neither a maximum nor a minimum nor a sum hides it.
            return values
        if dtype_np.kind in "iu":
            return np.full(like.shape, int.from_bytes(b"\x55" * dtype_np.itemsize, "little"), dtype=dtype_np)
        return np.zeros(like.shape, dtype=dtype_np)


class OutOfBounds(IndexError):
    """A kernel reached memory that belongs to no tensor."""


class Bounds:
    """The memory that kernels may reach: the storages of all tensors that the process knows of."""

    spans: list[tuple[int, int]] = []  # (first byte, byte after the last)
    lenient = False  # Lanes that stray are left out and counted, instead of ending the kernel: nobody is judged by it.
    strayed: dict[str, int] = {}

    @classmethod
    def admit(cls, pointers: Array, lanes: Array | None, width: int, what: str) -> Array | None:
        """`lanes` (None: all) without those that stray, where straying is left out; else raises OutOfBounds."""
        active = pointers if lanes is None else pointers[lanes]
        if not active.size or not cls.spans:
            return lanes
        low, high = int(active.min()), int(active.max()) + width
        for start, end in cls.spans:
            if start <= low and high <= end:
                return lanes
        # A block may reach several tensors, through pointers that were loaded: each lane by itself then.
        inside = np.zeros(active.shape, dtype=bool)
        for start, end in cls.spans:
            inside |= (active >= np.uint64(start)) & (active <= np.uint64(end - width))  # A sum could wrap round.
        if inside.all():
            return lanes
        message = f"a {what} reaches {int((~inside).sum())} of {active.size} elements outside of every tensor, in program {ti.interpreter_builder.grid_idx}"
        if not cls.lenient:
            raise OutOfBounds(message)
        cls.strayed[what] = cls.strayed.get(what, 0) + int((~inside).sum())
        if lanes is None:
            return inside
        lanes = lanes.copy()
        lanes[lanes] = inside
        return lanes


class Reads:
    """Which elements of the watched storages one launch has read."""

    current: Reads | None = None

    def __init__(self, spans: list[tuple[int, int, int]]) -> None:
        """`spans`: (address, bytes, bytes an element) of each storage to watch."""
        self.dots = 0     # Products of matrices,
        self.mixing = 0   # and those that add up several products for each element: one with a unit matrix does not.
        self._spans = [(start, size, np.zeros(max(size // width, 1), dtype=bool), width) for start, size, width in spans if size]

    def mark(self, pointers: Array) -> None:
        if not pointers.size:
            return
        first = int(pointers.flat[0])
        for start, size, seen, width in self._spans:
            if start <= first < start + size:
                index = (pointers.ravel() - np.uint64(start)) // np.uint64(width)
                seen[index[index < seen.size].astype(np.int64)] = True
                return

    def product(self, left: Any, right: Any) -> None:
        """Counts a product of matrices. Where every row of one side, or every column of the other, has but one element
        that matters, it adds nothing up."""
        a, b = (_magnitudes(side) for side in (left, right))
        if not a.any() or not b.any():
            return  # A block that masks left out.
        self.dots += 1
        self.mixing += not _one_each(a, -1) and not _one_each(b, -2)

    def adds_up(self) -> bool:
        return self.mixing * 2 > self.dots

    def count(self) -> int:
        return sum(int(np.count_nonzero(seen)) for _, _, seen, _ in self._spans)


def _magnitudes(side: Any) -> Array:
    data: Array = side.data
    if side.dtype.scalar == tl.bfloat16:
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).__abs__()
    return np.abs(data.astype(np.float32))


def _one_each(magnitudes: Array, axis: int) -> bool:
    total, largest = magnitudes.sum(axis=axis), magnitudes.max(axis=axis)
    return bool((largest >= 0.999 * total).all())


class Stores:
    """How many elements kernels have stored in this run, each as often as it was."""

    elements = 0


class Races:
    """Conflicts inside one launch: lanes of a store that write different values to one place, and programs that read what
    another program of the same launch has stored. Kernels that use atomics order themselves: their programs may meet."""

    current: Races | None = None

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self.program = 1
        self.atomics = False
        self.lanes = ""     # The first conflict between lanes, as a sentence without the kernel's name,
        self.programs = ""  # and the first between programs.
        self._starts = sorted({start for start, _ in spans})
        self._ends = {start: max(end for begin, end in spans if begin == start) for start in self._starts}
        self._writers: dict[int, Array] = {}  # By storage: the program that stored last to each byte address; 0: none.

    def _place(self, pointers: Array) -> int | None:
        """The storage that holds all of `pointers`, by its first byte."""
        low, high = int(pointers.min()), int(pointers.max())
        at = bisect.bisect_right(self._starts, low) - 1
        return self._starts[at] if at >= 0 and high < self._ends[self._starts[at]] else None

    def store(self, pointers: Array, values: Array) -> None:
        if not pointers.size:
            return
        flat = pointers.ravel()
        if not self.lanes and flat.size > 1 and not bool((flat[1:] > flat[:-1]).all()):
            self._compare_lanes(flat, values.ravel())
        start = self._place(flat)
        if start is None:
            return
        writers = self._writers.get(start)
        if writers is None:
            writers = self._writers[start] = np.zeros(self._ends[start] - start, dtype=np.int32)
        writers[(flat - np.uint64(start)).astype(np.int64)] = self.program

    def _compare_lanes(self, pointers: Array, values: Array) -> None:
        order = np.argsort(pointers, kind="stable")
        pointers, values = pointers[order], values[order]
        same = pointers[1:] == pointers[:-1]
        if not same.any():
            return
        differ = same & (values[1:] != values[:-1])
        if values.dtype.kind == "f":
            differ &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
        if differ.any():
            self.lanes = f"{int(differ.sum())} lanes of one store write different values to places that other lanes of it write"

    def load(self, pointers: Array) -> None:
        if self.programs or not self._writers or not pointers.size:
            return
        start = self._place(pointers)
        writers = self._writers.get(start) if start is not None else None
        if writers is None:
            return
        assert start is not None
        found = writers[(pointers.ravel() - np.uint64(start)).astype(np.int64)]
        others = (found != 0) & (found != self.program)
        if others.any():
            writer = int(found[others][0])
            self.programs = (
                f"program number {self.program - 1} reads {int(others.sum())} elements that programs such as number {writer - 1} "
                "store in the same launch, and no atomic orders them"
            )

    def conflict(self) -> str:
        return self.lanes or ("" if self.atomics else self.programs)


class Spinning(BaseException):
    """A program waits for what another program has yet to do."""


class Waits:
    """Notices a program that reads the same values again and again and changes nothing."""

    LIMIT = 1024
    watching = False
    idle = 0
    seen: dict[int, bytes] = {}

    @classmethod
    def restart(cls) -> None:
        cls.idle, cls.seen = 0, {}

    @classmethod
    def read(cls, pointers: Array, values: Array) -> None:
        if not pointers.size:
            return
        key, value = int(pointers.flat[0]), values.tobytes()[:64]
        if cls.seen.get(key) != value or len(cls.seen) > 8:
            if len(cls.seen) > 8:
                cls.seen = {}
            cls.seen[key], cls.idle = value, 0
            return
        cls.idle += 1
        if cls.idle > cls.LIMIT:
            raise Spinning()


def _lanes(mask: Any) -> Array | None:
    """None where every lane is active."""
    lanes: Array = mask if isinstance(mask, np.ndarray) else mask.data  # Block pointers and descriptors bring bare arrays.
    return None if lanes.all() else lanes


def _fitting(lanes: Array | None, pointers: Array) -> Array | None:
    return lanes if lanes is None or lanes.shape == pointers.shape else np.broadcast_to(lanes, pointers.shape)


def mend_memory() -> None:
    def create_masked_load(
        self: Any, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        dtype_tt = ptrs.get_element_ty()
        dtype_np = ti._get_np_dtype(dtype_tt)
        pointers = ptrs.data
        lanes = _fitting(_lanes(mask), pointers)
        lanes = Bounds.admit(pointers, lanes, dtype_np.itemsize, "load")
        if other is not None:
            fill = other.data
        elif lanes is None:
            fill = np.zeros(pointers.shape, dtype=dtype_np)
        else:
            fill = Poison.values(dtype_tt, dtype_np, pointers)
        active = pointers if lanes is None else pointers[lanes]
        if Reads.current is not None:
            Reads.current.mark(active)
        if Races.current is not None and not is_volatile:
            Races.current.load(active)
        values = ti._interpreter.load(pointers, np.ones(pointers.shape, dtype=bool) if lanes is None else lanes, fill, dtype_np)
        if Waits.watching:
            Waits.read(active, values)
        return HANDLE(values, dtype_tt)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, cache_modifier: Any, eviction_policy: Any) -> Any:
        pointers = ptrs.data
        lanes = _fitting(_lanes(mask), pointers)
        lanes = Bounds.admit(pointers, lanes, value.data.itemsize, "store")
        Stores.elements += pointers.size if lanes is None else int(np.count_nonzero(lanes))
        if Races.current is not None:
            if lanes is None:
                Races.current.store(pointers, np.broadcast_to(value.data, pointers.shape))
            else:
                Races.current.store(pointers[lanes], np.broadcast_to(value.data, pointers.shape)[lanes])
        if Waits.watching:
            Waits.restart()
        return ti._interpreter.store(pointers, value.data, np.ones(pointers.shape, dtype=bool) if lanes is None else lanes)

    rmw, cas = BUILDER.create_atomic_rmw, BUILDER.create_atomic_cas

    def atomic(pointers: Array, before: Array) -> None:
        """After an atomic: one that left its place as it was, as when a flag is polled, is no progress."""
        if Races.current is not None:
            Races.current.atomics = True
        if not Waits.watching:
            return
        if pointers.size != 1:
            Waits.restart()
            return
        now = ti._interpreter.load(pointers, np.ones(pointers.shape, dtype=bool), before, before.dtype)
        if now.tobytes() == before.tobytes():
            Waits.read(pointers, before)
        else:
            Waits.restart()

    def create_atomic_rmw(self: Any, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        lanes = _fitting(_lanes(mask), ptr.data)
        kept = Bounds.admit(ptr.data, lanes, val.data.itemsize, "atomic")
        if kept is not lanes:
            mask = HANDLE(kept, tl.int1)
        Stores.elements += ptr.data.size if kept is None else int(np.count_nonzero(kept))
        result = rmw(self, rmwOp, ptr, val, mask, sem, scope)
        atomic(ptr.data, result.data)
        return result

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        if Bounds.admit(ptr.data, None, val.data.itemsize, "atomic") is not None:
            return cmp
        result = cas(self, ptr, cmp, val, sem, scope)
        atomic(ptr.data, result.data)
        return result

    dot = BUILDER.create_dot

    def create_dot(self: Any, *arguments: Any) -> Any:
        if Reads.current is not None:
            Reads.current.product(arguments[0], arguments[1])
        return dot(self, *arguments)

    BUILDER.create_masked_load, BUILDER.create_masked_store = create_masked_load, create_masked_store
    BUILDER.create_atomic_rmw, BUILDER.create_atomic_cas = create_atomic_rmw, create_atomic_cas
    BUILDER.create_dot = create_dot
