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
from interpreter_bfloat16 import mend_bfloat16
from interpreter_libdevice import InterpreterGap, mend_libdevice
from triton.runtime import interpreter as ti
from triton.runtime.autotuner import Autotuner

BUILDER: Any = ti.InterpreterBuilder
HANDLE: Any = ti.TensorHandle

FLOAT_POISON = {np.dtype(np.float16): 6.0e4, np.dtype(np.float32): 1.5e38, np.dtype(np.float64): 1.5e300}
BF16_POISON, BF16_POISON_BELOW = 0x7EE1, 0xFE61  # 1.5e38, -7.5e37
MAX_AUTOTUNE_CONFIGS = 32


# ----------------------------------------------------------------------------------------------------------------------
# Loads, arguments, sources


def _poison(dtype_tt: Any, dtype_np: Any, like: np.ndarray[Any, Any]) -> Any:
    odd = 1 - AutotuneChoice.index % 2  # Which lanes are below zero changes from trial to trial.
    if dtype_tt == tl.bfloat16:
        values = np.full(like.shape, BF16_POISON, dtype=np.uint16)
        values.flat[odd::2] = BF16_POISON_BELOW
        return values
    if dtype_np in FLOAT_POISON:
        values = np.full(like.shape, FLOAT_POISON[dtype_np], dtype=dtype_np)
        values.flat[odd::2] *= -0.5  # Neither a maximum nor a minimum nor a sum hides it.
        return values
    if dtype_np.kind in "iu":
        return np.full(like.shape, int.from_bytes(b"\x55" * dtype_np.itemsize, "little"), dtype=dtype_np)
    return np.zeros(like.shape, dtype=dtype_np)


class OutOfBounds(IndexError):
    """A kernel reached memory that belongs to no tensor."""


def active_pointers(pointers: np.ndarray[Any, Any], lanes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    chosen: np.ndarray[Any, Any] = pointers[lanes if lanes.shape == pointers.shape else np.broadcast_to(lanes, pointers.shape)]
    return chosen


class Bounds:
    """The memory that kernels may reach: the storages of all tensors that the process knows of."""

    spans: list[tuple[int, int]] = []  # (first byte, byte after the last)

    @classmethod
    def check(cls, pointers: np.ndarray[Any, Any], width: int, what: str) -> None:
        if not pointers.size or not cls.spans:
            return
        low, high = int(pointers.min()), int(pointers.max()) + width
        for start, end in cls.spans:
            if start <= low and high <= end:
                return
        # A block may reach several tensors, through pointers that were loaded: each lane by itself then.
        flat = pointers.ravel().astype(np.uint64)
        inside = np.zeros(flat.shape, dtype=bool)
        for start, end in cls.spans:
            inside |= (flat >= np.uint64(start)) & (flat + np.uint64(width) <= np.uint64(end))
        if not inside.all():
            program = ti.interpreter_builder.grid_idx
            raise OutOfBounds(f"a {what} reaches {int((~inside).sum())} of {flat.size} elements outside of every tensor, in program {program}")


class Reads:
    """Which elements of the watched storages one launch has read."""

    current: Reads | None = None

    def __init__(self, spans: list[tuple[int, int, int]]) -> None:
        """`spans`: (address, bytes, bytes an element) of each storage to watch."""
        self.dots = 0
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
    def create_masked_load(
        self: Any, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        dtype_tt = ptrs.get_element_ty()
        dtype_np = ti._get_np_dtype(dtype_tt)
        lanes = mask if isinstance(mask, np.ndarray) else mask.data  # Block pointers and descriptors bring bare arrays.
        if other is None:
            fill = np.zeros(ptrs.data.shape, dtype=dtype_np) if lanes.all() else _poison(dtype_tt, dtype_np, ptrs.data)
            other = HANDLE(fill, dtype_tt)
        active = active_pointers(ptrs.data, lanes)
        Bounds.check(active, dtype_np.itemsize, "load")
        if Reads.current is not None:
            Reads.current.mark(active)
        return HANDLE(ti._interpreter.load(ptrs.data, lanes, other.data, dtype_np), dtype_tt)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, cache_modifier: Any, eviction_policy: Any) -> Any:
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        Bounds.check(active_pointers(ptrs.data, lanes), value.data.itemsize, "store")
        return ti._interpreter.store(ptrs.data, value.data, lanes)

    rmw, cas = BUILDER.create_atomic_rmw, BUILDER.create_atomic_cas

    def create_atomic_rmw(self: Any, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        Bounds.check(active_pointers(ptr.data, mask.data), val.data.itemsize, "atomic")
        return rmw(self, rmwOp, ptr, val, mask, sem, scope)

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        Bounds.check(ptr.data, val.data.itemsize, "atomic")
        return cas(self, ptr, cmp, val, sem, scope)

    dot = BUILDER.create_dot

    def create_dot(self: Any, *arguments: Any) -> Any:
        if Reads.current is not None:
            Reads.current.dots += 1
        return dot(self, *arguments)

    BUILDER.create_masked_load, BUILDER.create_masked_store = create_masked_load, create_masked_store
    BUILDER.create_atomic_rmw, BUILDER.create_atomic_cas = create_atomic_rmw, create_atomic_cas
    BUILDER.create_dot = create_dot


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


def is_constant_value(value: Any, depth: int = 0) -> bool:
    """Whether a constexpr may hold it: numbers, text, dtypes, jit functions and tuples of them."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, (tuple, list)) and depth < 4:
        return all(is_constant_value(item, depth + 1) for item in value)
    if value is None or isinstance(value, (bool, int, float, str, tl.dtype, torch.dtype, ti.InterpretedFunction, np.generic)):
        return True
    return callable(value) and str(getattr(value, "__module__", "")).startswith("triton.")


class GridRun(ti.GridExecutor):  # type: ignore[misc]
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
        for name in self.constexprs:
            if not is_constant_value(bound.get(name)):
                raise TypeError(f"constexpr argument `{name}` is a {type(bound[name]).__name__}, not a constant")
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
    mend_bfloat16()
    mend_libdevice()
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
