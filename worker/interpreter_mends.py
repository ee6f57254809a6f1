"""Mends Triton 3.6's interpreter where a GPU and it part, for a process that only ever interprets.

Mended: bool arguments; bfloat16 arithmetic (in float32, then rounded) and casts (to nearest even); libdevice through
torch; `constexpr` however it is spelled; closures; several autotune configurations; chained assignment; integer
wrap-around; and loads' masked lanes without `other`, which hold garbage on a GPU and get poison here. What stays beyond
it raises `InterpreterGap`, which is inconclusive and not the answer's fault.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as ti
from triton.runtime.autotuner import Autotuner

BUILDER: Any = ti.InterpreterBuilder
HANDLE: Any = ti.TensorHandle

FLOAT_POISON = {np.dtype(np.float16): 6.0e4, np.dtype(np.float32): 1.5e38, np.dtype(np.float64): 1.5e300}
BF16_POISON = 0x7EE1  # 1.5e38
MAX_AUTOTUNE_CONFIGS = 8


class InterpreterGap(Exception):
    """The kernel uses something that the interpreter cannot run."""


# ----------------------------------------------------------------------------------------------------------------------
# bfloat16: the interpreter keeps it as raw 16-bit patterns.


def bf16_to_float(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (data.astype(np.uint32) << 16).view(np.float32)


def float_to_bf16(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rounds to nearest even, as the hardware does; NaN stays NaN."""
    bits = np.ascontiguousarray(data, dtype=np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(np.asarray(data, dtype=np.float32)), np.uint16(0x7FC0), rounded).astype(np.uint16)


def is_bf16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def _mend_bfloat16() -> None:
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

    reductions: Any = ti.ReduceOps
    scans: Any = ti.ScanOps
    for owner in (reductions, scans):
        original = owner.apply_impl

        def apply_impl(self: Any, input: Any, original: Any = original, generic: str = "generic_" + ("reduce" if owner is reductions else "scan")) -> Any:
            if not any(is_bf16(item.handle) for item in input):
                return original(self, input)
            wide = tuple(
                self.to_tensor(bf16_to_float(item.handle.data), tl.float32) if is_bf16(item.handle) else item for item in input
            )
            outputs = original(self, wide)
            many = outputs if isinstance(outputs, (list, tuple)) else (outputs,)
            narrow = [
                self.to_tensor(float_to_bf16(out.handle.data), tl.bfloat16) if out.dtype == tl.float32 and is_bf16(item.handle) else out
                for out, item in zip(many, list(input) + [input[-1]] * len(many))
            ]
            return narrow if isinstance(outputs, (list, tuple)) else narrow[0]

        owner.apply_impl = apply_impl


# ----------------------------------------------------------------------------------------------------------------------
# libdevice: plain stubs in the interpreter, which return None.

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
    return torch.sign(x) * torch.floor(x.abs() + 0.5)


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
    "ilogb": lambda x: torch.floor(torch.log2(x.abs())),
    "llrint": torch.round,
    "float2int_rn": torch.round,
}


def _mend_libdevice() -> None:
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
            result = function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in np.broadcast_arrays(*arrays))).numpy()
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


# ----------------------------------------------------------------------------------------------------------------------
# Loads, arguments, sources


def _poison(dtype_tt: Any, dtype_np: Any, like: np.ndarray[Any, Any]) -> Any:
    if dtype_tt == tl.bfloat16:
        return np.full(like.shape, BF16_POISON, dtype=np.uint16)
    if dtype_np in FLOAT_POISON:
        values = np.full(like.shape, FLOAT_POISON[dtype_np], dtype=dtype_np)
        values.flat[1::2] *= -0.5  # Neither a maximum nor a minimum nor a sum hides it.
        return values
    return np.zeros(like.shape, dtype=dtype_np)


class Reads:
    """Which elements of the watched storages one launch has read."""

    current: Reads | None = None

    def __init__(self, spans: list[tuple[int, int, int]]) -> None:
        """`spans`: (address, bytes, bytes an element) of each storage to watch."""
        self._spans = [(start, size, np.zeros(max(size // width, 1), dtype=bool), width) for start, size, width in spans if size]

    def mark(self, pointers: np.ndarray[Any, Any]) -> None:
        if not pointers.size:
            return
        first = int(pointers.flat[0])
        for start, size, seen, width in self._spans:
            if start <= first < start + size:
                index = (pointers.ravel() - np.uint64(start)) // np.uint64(width)
                seen[index[index < seen.size].astype(np.int64)] = True
                return

    def count(self) -> int:
        return sum(int(np.count_nonzero(seen)) for _, _, seen, _ in self._spans)


def _mend_loads() -> None:
    def create_masked_load(self: Any, ptrs: Any, mask: Any, other: Any, cache: Any, eviction: Any, is_volatile: Any) -> Any:
        dtype_tt = ptrs.get_element_ty()
        dtype_np = ti._get_np_dtype(dtype_tt)
        lanes = mask if isinstance(mask, np.ndarray) else mask.data  # Block pointers and descriptors bring bare arrays.
        if other is None:
            fill = np.zeros(ptrs.data.shape, dtype=dtype_np) if lanes.all() else _poison(dtype_tt, dtype_np, ptrs.data)
            other = HANDLE(fill, dtype_tt)
        if Reads.current is not None:
            Reads.current.mark(ptrs.data[lanes] if lanes.shape == ptrs.data.shape else ptrs.data)
        return HANDLE(ti._interpreter.load(ptrs.data, lanes, other.data, dtype_np), dtype_tt)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, cache: Any, eviction: Any) -> Any:
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        return ti._interpreter.store(ptrs.data, value.data, lanes)

    BUILDER.create_masked_load, BUILDER.create_masked_store = create_masked_load, create_masked_store


def _mend_arguments() -> None:
    implicit = ti._implicit_cvt

    def convert(argument: Any) -> Any:
        if isinstance(argument, bool):
            return tl.tensor(HANDLE(np.array([argument], dtype=np.bool_), tl.int1), tl.int1)
        if isinstance(argument, (list, tl.tuple)):
            argument = tuple(argument)
        return implicit(argument)

    ti._implicit_cvt = convert


class _Assignments(ast.NodeTransformer):
    """As the interpreter's own transformer (assigned values become tensors), chained assignments included."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = ast.Call(
            func=ast.Attribute(value=ast.Name(id="interpreter_semantic", ctx=ast.Load()), attr="to_tensor", ctx=ast.Load()),
            args=[node.value, ast.Constant(value=False)],
            keywords=[],
        )
        return node


def _mend_sources() -> None:
    rewriter: Any = ti.FunctionRewriter
    rewriter.ast_transformer = _Assignments()

    def compile_and_exec(self: Any, tree: ast.Module) -> Any:
        code = compile(tree, filename=self.filename, mode="exec", dont_inherit=True)
        function = self.fn
        names: dict[str, Any] = function.__globals__
        if function.__closure__:  # A kernel made by a factory: its free variables become globals of a copy.
            names = {**names, **inspect.getclosurevars(function).nonlocals}
        names.setdefault("interpreter_semantic", ti.interpreter_semantic)
        if tl not in names.values() and tl.core not in names.values():
            names = {**names, "__triton_language": tl}
        local: dict[str, Any] = {**self.kwargs}
        exec(code, names, local)
        return local[function.__name__]

    rewriter._compile_and_exec = compile_and_exec


def constexpr_names(function: Callable[..., Any]) -> list[str]:
    """Parameters annotated as constexpr, as a class or as text, however the name is qualified."""
    names = []
    for name, annotation in getattr(function, "__annotations__", {}).items():
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if annotation is tl.constexpr or text.split(".")[-1].strip() == "constexpr":
            names.append(name)
    return names


class GridRun(ti.GridExecutor):
    """Runs one launch, telling `on_program` how far it is."""

    on_program: Callable[[int, int], None] | None = None

    def __init__(self, fn: Any, original: Any, arg_names: list[str], grid: Any, pre_run_hooks: list[Any]) -> None:
        self.fn = fn
        self.arg_names = arg_names
        self.grid = grid
        self.pre_run_hooks = pre_run_hooks
        self.constexprs = constexpr_names(original)

    def prepare(self, *args_dev: Any, **kwargs: Any) -> Callable[[], tuple[int, ...]]:
        """Everything of a launch that is host code (hooks, the grid function, arguments' own methods), so that whoever
        watches the host sees it; returns the run of the programs itself."""
        kwargs = {k: v for k, v in kwargs.items() if k in self.arg_names}
        for hook in self.pre_run_hooks:
            hook(*args_dev, **kwargs)
        bound = inspect.getcallargs(self.fn, *args_dev, **kwargs)
        grid = self.grid({**bound}) if callable(self.grid) else self.grid
        grid = (grid,) if isinstance(grid, int) else tuple(int(size) for size in grid)
        if len(grid) > 3:
            raise ValueError("a grid has at most 3 dimensions")
        full = grid + (1,) * (3 - len(grid))
        args = {
            name: (value if not isinstance(value, tl.constexpr) else value.value) if name in self.constexprs else ti._implicit_cvt(value)
            for name, value in bound.items()
        }
        return lambda: self._execute(full, args)

    def _execute(self, full: tuple[int, ...], args: dict[str, Any]) -> tuple[int, ...]:
        ti.interpreter_builder.set_grid_dim(*full)
        total, done = full[0] * full[1] * full[2], 0
        report = GridRun.on_program
        try:
            for x in range(full[0]):
                for y in range(full[1]):
                    for z in range(full[2]):
                        ti.interpreter_builder.set_grid_idx(x, y, z)
                        self.fn(**args)
                        done += 1
                        if report is not None:
                            report(done, total)
        except InterpreterGap:
            raise
        except NotImplementedError as error:
            raise InterpreterGap(str(error)) from error
        return full


# ----------------------------------------------------------------------------------------------------------------------
# Autotune: each configuration is a case of its own; a trial runs one of them.


class AutotuneChoice:
    """Which configuration this trial runs, and how many the answer's kernels have."""

    index = 0
    most_configs = 1
    used: list[str] = []


def _mend_autotune() -> None:
    tuner: Any = Autotuner

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args))
        configs = list(self.prune_configs(kwargs)) if len(self.configs) > 1 else list(self.configs)
        AutotuneChoice.most_configs = max(AutotuneChoice.most_configs, min(len(configs), MAX_AUTOTUNE_CONFIGS))
        config = configs[AutotuneChoice.index % len(configs)]
        self.best_config = config
        clash = kwargs.keys() & config.kwargs.keys()
        if clash:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(clash))}.")
        AutotuneChoice.used.append(str(config))
        full = {**self.nargs, **kwargs, **config.all_kwargs()}
        if len(self.configs) > 1:
            self.pre_hook(full, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(full)
        result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        self.nargs = None
        return result

    tuner.run = run


def install() -> None:
    """Patches this process for good. `TRITON_INTERPRET` must have been set before triton was imported."""
    if not triton.knobs.runtime.interpret:
        raise RuntimeError("TRITON_INTERPRET was not set before triton was imported")
    np.seterr(all="ignore")
    ti.interpreter_builder.options = ti.InterpreterOptions(sanitize_overflow=False)
    _mend_bfloat16()
    _mend_libdevice()
    _mend_loads()
    _mend_arguments()
    _mend_sources()
    _mend_autotune()

    # Patched once and for good, instead of at every launch and every call of a device function.
    def kernel() -> None: ...

    scope_globals = {"tl": tl, "core": tl.core}
    ti._patch_lang(types.FunctionType(kernel.__code__, scope_globals))
    ti._patch_lang = lambda fn: ti._LangPatchScope()

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.rewrite()(*args, **kwargs)

    interpreted: Any = ti.InterpretedFunction
    interpreted.__call__ = call
