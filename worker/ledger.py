"""The storage ledger: which buffers an answer has touched, where each came from, and what it held when last seen."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import torch


@dataclasses.dataclass
class Buffer:
    """One storage: kept alive so that its address is not used again, with the digest of its last known contents."""

    storage: torch.UntypedStorage
    origin: str
    digest: bytes | None = None
    reduced_from: int = 0  # For a kernel's output: elements of inputs, weights and kernels' outputs that the launch read.
    programs: int = 0      # For a kernel's output: programs of the launch,
    dots: bool = False     # and whether they multiplied matrices.
    moved: str | None = None  # How its values came from inputs and weights: see copies.py.
    widths: frozenset[int] = frozenset()  # Bytes an element, as it was made or stored to.


@dataclasses.dataclass
class Launch:
    kernel: str
    count: int
    grid: tuple[int, ...]


def tensors_of(values: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)) and depth < 8:
        for item in values:
            yield from tensors_of(item, depth + 1)
    elif isinstance(values, dict) and depth < 8:
        for item in values.values():
            yield from tensors_of(item, depth + 1)
    elif hasattr(values, "base") and isinstance(getattr(values, "base", None), torch.Tensor):
        yield values.base  # triton.TensorDescriptor, TensorWrapper


class Ledger:
    """Origins and digests of the storages that the answer has touched."""

    def __init__(self) -> None:
        self.buffers: dict[int, Buffer] = {}

    @staticmethod
    def key(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage().data_ptr()

    @staticmethod
    def elements(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)

    @staticmethod
    def digest(storage: torch.UntypedStorage) -> bytes:
        size = storage.nbytes()
        data = (ctypes.c_char * size).from_address(storage.data_ptr()) if size else b""
        return hashlib.blake2b(data, digest_size=16).digest()

    def know(
        self, tensor: torch.Tensor, origin: str, reduced_from: int = 0, digest: bool = True, programs: int = 0, dots: bool = False,
        moved: str | None = None, widths: frozenset[int] = frozenset(),
    ) -> None:
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return
        self.buffers[storage.data_ptr()] = Buffer(
            storage, origin, self.digest(storage) if digest else None, reduced_from, programs, dots,
            moved, widths | {tensor.element_size()},
        )

    def find(self, tensor: torch.Tensor) -> Buffer | None:
        return self.buffers.get(self.key(tensor))

    def problem(self, tensor: torch.Tensor) -> str:
        """Empty, `storage-origin` or `storage-changed`."""
        if tensor.layout is not torch.strided or tensor.untyped_storage().nbytes() == 0:
            return ""
        buffer = self.find(tensor)
        if buffer is None:
            return "storage-origin"
        if buffer.digest is not None and buffer.digest != self.digest(buffer.storage):
            return "storage-changed"
        return ""


def state_tensors(roots: list[Any]) -> list[torch.Tensor]:
    """Tensors that stand in modules, objects and containers below `roots`: state made before the entry point ran."""
    found: list[torch.Tensor] = []
    seen: set[int] = set()
    todo: list[tuple[Any, int]] = [(root, 0) for root in roots]
    while todo and len(seen) < 20000:
        value, depth = todo.pop()
        if id(value) in seen or depth > 6:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, dict):
            todo += [(item, depth + 1) for item in list(value.values())]
        elif isinstance(value, (list, tuple, set, frozenset)):
            todo += [(item, depth + 1) for item in value]
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            closure = getattr(value, "__closure__", None) or ()
            todo += [(cell.cell_contents, depth + 1) for cell in closure if _filled(cell)]
        elif isinstance(value, torch.nn.Module) or (hasattr(value, "__dict__") and type(value).__module__ == "answer"):
            todo.append((value.__dict__, depth + 1))
    return found


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
