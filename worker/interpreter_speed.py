"""The same interpreter, faster: what Triton works out anew for each operation of each program is worked out once.

A program of twenty operations on small blocks spends most of its time on the types of its values: shapes made into tuples
of constants, checked, written out as names. Shapes are few, so each is done once and shared; nobody changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._utils import validate_block_shape
from triton.runtime import interpreter as ti

HANDLE: Any = ti.TensorHandle


class Shape:
    """A block's shape in the forms that Triton's classes hold."""

    known: dict[tuple[int, ...], Shape] = {}

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.of_type = tl.tuple(list(sizes))
        self.elements = validate_block_shape(self.of_type)
        self.text = str(self.of_type)
        self.of_tensor = tl.tuple([tl.constexpr(size) for size in sizes])
        self.numel = tl.constexpr(self.elements)

    @classmethod
    def of(cls, shape: Any) -> Shape | None:
        """None where Triton itself must look: it says what is wrong."""
        if isinstance(shape, tl.constexpr):
            shape = shape.value
        sizes = tuple([size.value if isinstance(size, tl.constexpr) else size for size in shape])
        found = cls.known.get(sizes)
        if found is None:
            if not sizes or not all(type(size) is int for size in sizes):
                return None
            found = cls.known[sizes] = cls(sizes)
        return found


_NO_SHAPE, _ONE = tl.tuple([]), tl.constexpr(1)


def _speed_types() -> None:
    block_type: Any = tl.block_type
    tensor: Any = tl.tensor
    make_type = block_type.__init__

    def init_type(self: Any, element_ty: Any, shape: Any) -> None:
        found = Shape.of(shape) if isinstance(shape, (list, tuple, tl.tuple)) else None
        if found is None:
            make_type(self, element_ty, shape)
            return
        self.element_ty, self.shape, self.numel = element_ty, found.of_type, found.elements
        self.name = f"<{found.text}, {element_ty}>"
        self.found = found

    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        if type.is_block():
            found = type.found
            self.shape, self.numel = found.of_tensor, found.numel
        else:
            self.shape, self.numel = _NO_SHAPE, _ONE

    block_type.__init__, tensor.__init__ = init_type, init_tensor


def _speed_dtypes() -> None:
    known: dict[str, Any] = {}
    slow = ti._get_np_dtype

    def np_dtype(kind: Any) -> Any:
        if isinstance(kind, tl.block_type):
            kind = kind.element_ty
        if isinstance(kind, tl.pointer_type):
            return POINTER
        found = known.get(kind.name)
        if found is None:
            found = known[kind.name] = slow(kind)
        return found

    POINTER = np.dtype(np.uint64)
    ti._get_np_dtype = np_dtype


def _speed_broadcasts() -> None:
    semantic: Any = type(ti.interpreter_semantic)
    slow = semantic.broadcast_impl_value

    def broadcast_impl_value(self: Any, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if left.is_block():
            if right.is_block():
                if left.shape is right.shape:
                    return lhs, rhs
            elif type(rhs.handle) is HANDLE and rhs.handle.data.size == 1:
                return lhs, _spread(rhs, left.found)
            if type(lhs.handle) is type(rhs.handle) is HANDLE and len(left.found.sizes) == len(right.found.sizes):
                sizes = tuple([b if a == 1 else a for a, b in zip(left.found.sizes, right.found.sizes)])
                if all(a in (1, size) and b in (1, size) for a, b, size in zip(left.found.sizes, right.found.sizes, sizes)):
                    return _stretched(lhs, sizes), _stretched(rhs, sizes)
        elif not right.is_block():
            return lhs, rhs
        elif type(lhs.handle) is HANDLE and lhs.handle.data.size == 1:
            return _spread(lhs, right.found), rhs
        return slow(self, lhs, rhs)

    def _spread(value: Any, found: Shape) -> Any:
        """A scalar as a block."""
        kind = value.type.scalar
        data = np.full(found.sizes, value.handle.data.reshape(()), dtype=ti._get_np_dtype(kind))
        return tl.tensor(HANDLE(data, kind), tl.block_type(kind, found.of_type))

    def _stretched(value: Any, sizes: tuple[int, ...]) -> Any:
        if value.type.found.sizes == sizes:
            return value
        kind = value.type.scalar
        data = np.broadcast_to(value.handle.data, sizes)
        wanted = ti._get_np_dtype(kind)
        if data.dtype != wanted:  # A comparison's handle keeps the type of what was compared.
            data = data.astype(wanted)
        return tl.tensor(HANDLE(data, kind), tl.block_type(kind, sizes))

    semantic.broadcast_impl_value = broadcast_impl_value


def _speed_constants() -> None:
    core: Any = tl.core
    slow = core._unwrap_if_constexpr
    constant, plain = tl.constexpr, frozenset((int, bool, float, str, type(None), tl.tensor))

    def unwrap(value: Any) -> Any:
        kind = type(value)
        if kind is constant:
            return value.value
        return value if kind in plain else slow(value)

    core._unwrap_if_constexpr = unwrap

    def create_expand_dims(self: Any, arg: Any, axis: int) -> Any:
        data = arg.data
        return HANDLE(data[(slice(None),) * axis + (None,)] if axis >= 0 else np.expand_dims(data, axis), arg.dtype.scalar)

    builder: Any = ti.InterpreterBuilder
    builder.create_expand_dims = create_expand_dims


def _speed_calls() -> None:
    """Calls the functions themselves, past the wrapper that only looks whether `_semantic` came along."""
    wrapper = tl.core.builtin(lambda: None).__code__

    def patch_attr(obj: Any, name: str, member: Callable[..., Any], builder: Any, scope: Any) -> None:
        semantic = type(ti.interpreter_semantic)(builder)
        inner: Callable[..., Any] = member
        if getattr(member, "__code__", None) is wrapper:
            inner = member.__wrapped__  # type: ignore[attr-defined]

        def call(*arguments: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return inner(*arguments, **kwargs)

        scope.set_attr(obj, name, call)

    ti._patch_attr = patch_attr


def speed_up() -> None:
    """Before the language is patched, and for good."""
    _speed_types()
    _speed_dtypes()
    _speed_broadcasts()
    _speed_constants()
    _speed_calls()
