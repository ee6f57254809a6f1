"""bfloat16 in Triton's interpreter, which keeps it as raw 16-bit patterns and computes on those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as ti

BUILDER: Any = ti.InterpreterBuilder
HANDLE: Any = ti.TensorHandle


def bf16_to_float(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (data.astype(np.uint32) << 16).view(np.float32)


def float_to_bf16(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rounds to nearest even, as the hardware does; NaN stays NaN."""
    bits = np.ascontiguousarray(data, dtype=np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(np.asarray(data, dtype=np.float32)), np.uint16(0x7FC0), rounded).astype(np.uint16)


def is_bf16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def mend_bfloat16() -> None:
    binary, unary, ternary, cast, dot = (
        BUILDER.binary_op,
        BUILDER.unary_op,
        BUILDER.ternary_op,
        BUILDER.cast_impl,
        BUILDER.create_dot,
    )

    def as_float(handle: Any) -> Any:
        return bf16_to_float(handle.data) if is_bf16(handle) else handle.data

    def wrap(value: np.ndarray[Any, Any], dtype: Any) -> Any:
        if value.dtype == np.bool_:
            return HANDLE(value, dtype)
        return HANDLE(float_to_bf16(value), dtype)

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Callable[..., Any]) -> Any:
        if is_bf16(lhs) or is_bf16(rhs):
            return wrap(op(as_float(lhs), as_float(rhs)), lhs.dtype.scalar)
        return binary(self, lhs, rhs, op)

    def unary_op(self: Any, arg: Any, op: Callable[..., Any]) -> Any:
        return wrap(op(as_float(arg)), arg.dtype.scalar) if is_bf16(arg) else unary(self, arg, op)

    def ternary_op(self: Any, lhs: Any, rhs: Any, other: Any, op: Callable[..., Any]) -> Any:
        if op is not np.where and is_bf16(other):
            return wrap(op(as_float(lhs), as_float(rhs), as_float(other)), other.dtype.scalar)
        return ternary(self, lhs, rhs, other, op)

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if source == tl.bfloat16 and target != tl.bfloat16:
            return cast(self, HANDLE(bf16_to_float(src.data), tl.float32), dst_type) if target != tl.float32 else HANDLE(
                bf16_to_float(src.data), tl.float32
            )
        if target == tl.bfloat16 and source != tl.bfloat16:
            return HANDLE(float_to_bf16(src.data.astype(np.float32)), tl.bfloat16)
        return cast(self, src, dst_type)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        scalars = {src.dtype.scalar, dst_type.scalar}
        if tl.bfloat16 in scalars and scalars <= {tl.bfloat16, tl.float16, tl.float32, tl.float64}:
            return cast_impl(self, src, dst_type)
        return fp_to_fp(self, src, dst_type, rounding_mode)

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        a = HANDLE(bf16_to_float(a.data), tl.float32) if is_bf16(a) else a
        b = HANDLE(bf16_to_float(b.data), tl.float32) if is_bf16(b) else b
        if is_bf16(d):
            wide = HANDLE(bf16_to_float(d.data), tl.float32)
            return HANDLE(float_to_bf16(dot(self, a, b, wide, input_precision, max_num_imprecise_acc).data), tl.bfloat16)
        return dot(self, a, b, d, input_precision, max_num_imprecise_acc)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if is_bf16(z):
            return wrap(as_float(x) * as_float(y) + as_float(z), z.dtype.scalar)
        return HANDLE(x.data * y.data + z.data, z.dtype.scalar)

    def create_rsqrt(self: Any, arg: Any) -> Any:
        return unary_op(self, arg, lambda x: 1 / np.sqrt(x))

    def get_bf16(self: Any, value: float) -> Any:
        return HANDLE(float_to_bf16(np.array([value], dtype=np.float32)), tl.bfloat16)

    BUILDER.get_bf16 = get_bf16
    fp_to_fp = BUILDER.create_fp_to_fp
    BUILDER.binary_op, BUILDER.unary_op, BUILDER.ternary_op = binary_op, unary_op, ternary_op
    BUILDER.cast_impl, BUILDER.create_fp_to_fp, BUILDER.create_dot = cast_impl, create_fp_to_fp, create_dot
    BUILDER.create_fma, BUILDER.create_rsqrt = create_fma, create_rsqrt

    def widened(tensor: Any) -> Any:
        return tl.tensor(HANDLE(bf16_to_float(tensor.handle.data), tl.float32), retyped(tensor, tl.float32))

    def narrowed(tensor: Any) -> Any:
        return tl.tensor(HANDLE(float_to_bf16(tensor.handle.data), tl.bfloat16), retyped(tensor, tl.bfloat16))

    def retyped(tensor: Any, element: Any) -> Any:
        return tl.block_type(element, list(tensor.shape)) if tensor.type.is_block() else element

    reductions: Any = ti.ReduceOps
    scans: Any = ti.ScanOps
    for owner in (reductions, scans):
        original = owner.apply_impl

        def apply_impl(self: Any, input: Any, original: Any = original) -> Any:
            if not any(is_bf16(item.handle) for item in input):
                return original(self, input)
            outputs = original(self, tuple(widened(item) if is_bf16(item.handle) else item for item in input))
            many = outputs if isinstance(outputs, (list, tuple)) else (outputs,)
            given = list(input) + [input[-1]] * len(many)
            narrow = [
                narrowed(out) if out.dtype == tl.float32 and is_bf16(item.handle) else out for out, item in zip(many, given)
            ]
            return narrow if isinstance(outputs, (list, tuple)) else narrow[0]

        owner.apply_impl = apply_impl
