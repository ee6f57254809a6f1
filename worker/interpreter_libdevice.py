"""libdevice through torch, for Triton's interpreter, in which its functions are stubs that return None."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from interpreter_bfloat16 import bf16_to_float, float_to_bf16, is_bf16
from triton.runtime import interpreter as ti

HANDLE: Any = ti.TensorHandle


class Calling:
    """Whether torch is being called for a libdevice function just now."""

    depth = 0


class InterpreterGap(Exception):
    """The kernel uses something that the interpreter cannot run."""


_TORCH_NAMES = {
    "tanh": torch.tanh, "sinh": torch.sinh, "cosh": torch.cosh, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10,
    "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "pow": torch.pow, "fabs": torch.abs, "abs": torch.abs,
    "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "rint": torch.round, "nearbyint": torch.round,
    "erf": torch.erf, "erfc": torch.erfc, "erfinv": torch.erfinv, "lgamma": torch.lgamma, "fmod": torch.fmod,
    "atan2": torch.atan2, "hypot": torch.hypot, "copysign": torch.copysign, "fmin": torch.fmin, "fmax": torch.fmax,
    "isnan": torch.isnan, "isinf": torch.isinf, "finitef": torch.isfinite, "isfinited": torch.isfinite, "signbit": torch.signbit,
    "fast_expf": torch.exp, "fast_logf": torch.log, "fast_tanhf": torch.tanh, "fast_sinf": torch.sin, "fast_cosf": torch.cos,
    "fast_powf": torch.pow, "j0": torch.special.bessel_j0, "j1": torch.special.bessel_j1, "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1, "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri,
    "nextafter": torch.nextafter, "ldexp": torch.ldexp,
}  # fmt: skip


def _round_half_away(x: torch.Tensor) -> torch.Tensor:
    whole = torch.trunc(x)
    return whole + torch.where((x - whole).abs() >= 0.5, torch.sign(x), torch.zeros_like(x))


_SPELLED: dict[str, Callable[..., torch.Tensor]] = {
    **_TORCH_NAMES,
    "round": _round_half_away,
    "fma": lambda x, y, z: x * y + z,
    "cbrt": lambda x: torch.sign(x) * x.abs().pow(1.0 / 3.0),
    "exp10": lambda x: torch.pow(torch.full_like(x, 10.0), x),
    "rcbrt": lambda x: torch.sign(x) * x.abs().pow(-1.0 / 3.0),
    "tgamma": lambda x: torch.exp(torch.lgamma(x)) * torch.where((x < 0) & (torch.floor(x) % 2 != 0), -1.0, 1.0),
    "sinpi": lambda x: torch.sin(x * torch.pi),
    "cospi": lambda x: torch.cos(x * torch.pi),
    "fdim": lambda x, y: torch.clamp(x - y, min=0),
    "div_rn": torch.divide,
    "fast_dividef": torch.divide,
    "mul_rn": torch.multiply,
    "add_rn": torch.add,
    "sqrt_rn": torch.sqrt,
    "rsqrt_rn": torch.rsqrt,
    "fast_log2f": torch.log2,
    "fast_exp10f": lambda x: torch.pow(torch.full_like(x, 10.0), x),
    "remainder": lambda x, y: x - torch.round(x / y) * y,
    "ilogb": lambda x: torch.frexp(x).exponent - 1,
    "llrint": torch.round,
    "float2int_rn": torch.round,
}


def mend_libdevice() -> None:
    from triton.language.extra import libdevice as stubs

    def calling(name: str, function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
        def call(*arguments: Any, **ignored: Any) -> Any:
            tensors = [ti.interpreter_semantic.to_tensor(a) for a in arguments]
            lead = next((t for t in tensors if t.type.is_block()), tensors[0])
            kind = lead.dtype
            arrays = [bf16_to_float(t.handle.data) if is_bf16(t.handle) else t.handle.data for t in tensors]
            if not np.issubdtype(arrays[0].dtype, np.floating):
                arrays[0] = arrays[0].astype(np.float32)
            arrays = [a if np.issubdtype(a.dtype, np.integer) else a.astype(arrays[0].dtype) for a in arrays]
            Calling.depth += 1
            try:
                result = function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in np.broadcast_arrays(*arrays))).numpy()
            finally:
                Calling.depth -= 1
            if result.dtype == np.bool_:
                kind, result = tl.int32, result.astype(np.int32)
            elif name in ("ilogb", "llrint", "float2int_rn"):
                kind = tl.int64 if name == "llrint" else tl.int32
                result = result.astype(np.int64 if name == "llrint" else np.int32)
            elif kind == tl.bfloat16:
                result = float_to_bf16(result)
            elif not kind.is_floating():
                kind = tl.float32
            shape = list(result.shape)
            block = any(t.type.is_block() for t in tensors)
            return tl.tensor(HANDLE(result, kind), tl.block_type(kind, shape) if block else kind)

        return call

    def missing(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **ignored: Any) -> Any:
            raise InterpreterGap(f"libdevice.{name}")

        return call

    for module in _libdevice_modules(stubs):
        for name, value in list(vars(module).items()):
            if name.startswith("_") or not callable(value) or isinstance(value, type) or getattr(value, "__module__", "") != module.__name__:
                continue
            function = _SPELLED.get(name)
            setattr(module, name, calling(name, function) if function is not None else missing(name))


def _libdevice_modules(stubs: types.ModuleType) -> list[types.ModuleType]:
    from triton.language.extra.cuda import libdevice as cuda_libdevice

    return [stubs, cuda_libdevice]
