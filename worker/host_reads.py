"""Values that leave torch for Python: how many may, and those that leave without an operator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from copies import FRESH
from ledger import Ledger
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from observers import Observer

MAX_SCALAR_READS = 64        # Values that `item` and `tolist` read into Python, all in all.
MIN_INPUT_READS = 4          # Values of inputs that may be read into Python whatever their size,
INPUT_READS_SHARE = 4        # and the part of them, as a divisor, that may be read of larger ones.


class ReadCounts:
    """Counts what one call of the entry point reads: all values, and of inputs, weights and their copies by themselves. A
    length or a factor may be read; whoever reads more than a quarter of a tensor of numbers, or of all inputs, works with
    them in Python."""

    def __init__(self, ledger: Ledger, inputs: list[torch.Tensor], violate: Callable[[str, str], None]) -> None:
        self._ledger = ledger
        self._violate = violate
        self._all = 0
        self._of_input: dict[int, int] = {}  # By storage.
        self._elements = sum(tensor.numel() for tensor in inputs)

    def read(self, count: int, tensor: torch.Tensor | None) -> None:
        before, self._all = self._all, self._all + count
        if before <= MAX_SCALAR_READS < self._all:
            self._violate("torch-knockout", f"more than {MAX_SCALAR_READS} values were read into Python: computing there is not Triton")
        buffer = self._ledger.find(tensor) if tensor is not None else None
        if tensor is None or buffer is None or buffer.moved in (None, FRESH):
            return
        key = Ledger.key(tensor)
        self._of_input[key] = self._of_input.get(key, 0) + count
        for read, elements, what in (
            (self._of_input[key], Ledger.elements(tensor) if tensor.is_floating_point() else 0, "one tensor"),
            (sum(self._of_input.values()), self._elements, "the inputs"),
        ):
            allowed = max(MIN_INPUT_READS, elements // INPUT_READS_SHARE)
            if elements and read - count <= allowed < read:
                self._violate("torch-knockout", f"more than {allowed} of {elements} values of {what} were read into Python: computing there is not Triton")


class HostReads(TorchFunctionMode):
    """Sees what leaves torch without an operator: numpy views, DLPack, lists."""

    _VIEWS = frozenset(("numpy", "untyped_storage", "storage", "_typed_storage", "__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__"))

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.observer = observer

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        ours = id(sys._getframe(1).f_globals) in self.observer.own_globals
        if self.observer.judging and not self.observer.quiet and not ours:
            name = getattr(func, "__name__", "")
            if name in self._VIEWS:
                self.observer.violate("torch-knockout", f"`{name}` hands a tensor's memory to host code inside the entry point")
            elif name in ("tolist", "__repr__", "__str__", "__format__") and args and isinstance(args[0], torch.Tensor):
                self.observer.read_values(args[0].numel(), args[0])
        return func(*args, **(kwargs or {}))
