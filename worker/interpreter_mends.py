"""Mends Triton 3.6's interpreter where a GPU and it part, for a process that only ever interprets.

Mended: bool arguments; bfloat16 arithmetic (in float32, then rounded) and casts (to nearest even); libdevice through
torch; `constexpr` however it is spelled; closures; several autotune configurations; chained assignment; integer
wrap-around; and loads' masked lanes without `other`, which hold garbage on a GPU and get poison here. What stays beyond
it raises `InterpreterGap`, which is inconclusive and not the answer's fault.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from interpreter_bfloat16 import mend_bfloat16
from interpreter_libdevice import InterpreterGap, mend_libdevice
from interpreter_memory import Bounds, Poison, Races, Spinning, Waits, mend_memory
from interpreter_reduce import Elements, mend_reductions
from interpreter_speed import speed_up
from triton.runtime import interpreter as ti
from triton.runtime.autotuner import Autotuner

HANDLE: Any = ti.TensorHandle

MAX_AUTOTUNE_CONFIGS = 32


# ----------------------------------------------------------------------------------------------------------------------
# Arguments, sources


def _mend_arguments() -> None:
    implicit = ti._implicit_cvt

    def convert(argument: Any) -> Any:
        if isinstance(argument, bool):
            return tl.tensor(HANDLE(np.array([argument], dtype=np.bool_), tl.int1), tl.int1)
        if isinstance(argument, float):  # A float32 on a GPU, rounded and with methods.
            return tl.tensor(HANDLE(np.array([argument], dtype=np.float32), tl.float32), tl.float32)
        if isinstance(argument, (list, tl.tuple)):
            argument = tuple(argument)
        return implicit(argument)

    ti._implicit_cvt = convert


class Logic:
    """`and`, `or` and `not` as the compiler takes them: element by element on blocks. Python would ask a whole block for its truth."""

    @staticmethod
    def combined(kind: str, *parts: Callable[[], Any]) -> Any:
        result = parts[0]()
        for part in parts[1:]:
            if isinstance(result, tl.tensor) and result.type.is_block():
                combine = getattr(ti.interpreter_semantic, f"logical_{kind}")
                result = combine(result, ti.interpreter_semantic.to_tensor(part()))
            elif bool(result) == (kind == "or"):
                return result
            else:
                result = part()
        return result

    @staticmethod
    def opposite(value: Any) -> Any:
        if isinstance(value, tl.tensor) and value.type.is_block():
            return tl.tensor(HANDLE(np.logical_not(value.handle.data), tl.int1), tl.block_type(tl.int1, value.shape))
        return not value


def _call(owner: str, name: str, arguments: list[ast.expr]) -> ast.Call:
    function = ast.Attribute(value=ast.Name(id=owner, ctx=ast.Load()), attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=arguments, keywords=[])


class _Rewrites(ast.NodeTransformer):
    """As the interpreter's own transformer (assigned values become tensors), chained assignments and logic included."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = _call("interpreter_semantic", "to_tensor", [node.value, ast.Constant(value=False)])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        kind = ast.Constant(value="and" if isinstance(node.op, ast.And) else "or")
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return _call("interpreter_logic", "combined", [kind, *(ast.Lambda(args=nothing, body=value) for value in node.values)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("interpreter_logic", "opposite", [node.operand]) if isinstance(node.op, ast.Not) else node


def _mend_sources() -> None:
    rewriter: Any = ti.FunctionRewriter
    rewriter.ast_transformer = _Rewrites()

    def compile_and_exec(self: Any, tree: ast.Module) -> Any:
        code = compile(tree, filename=self.filename, mode="exec", dont_inherit=True)
        function = self.fn
        names: dict[str, Any] = function.__globals__
        if function.__closure__:  # A kernel made by a factory: its free variables become globals of a copy.
            names = {**names, **inspect.getclosurevars(function).nonlocals}
        names.setdefault("interpreter_semantic", ti.interpreter_semantic)
        names.setdefault("interpreter_logic", Logic)
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
        self.name, self.original = original.__name__, original
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
        """Runs the programs in the order that this run asks for. One that waits for another program is no fault: programs
        start about in order on a GPU, so that launch is taken back and run in order."""
        count = full[0] * full[1] * full[2]
        chosen = Order.of(self.name, count)
        orders: list[Sequence[int]] = [] if chosen is None else [chosen]
        orders.append(range(count))
        if count > 1 and may_wait(self.original):
            orders.append(range(count - 1, -1, -1))  # Where earlier programs wait for later ones.
        for index, order in enumerate(orders):
            last = index == len(orders) - 1
            before = [] if last else [(start, ctypes.string_at(start, end - start)) for start, end in Bounds.spans]
            Waits.watching = not last
            try:
                self._run_programs(full, args, order)
                break
            except Spinning:
                for start, contents in before:
                    ctypes.memmove(start, contents, len(contents))
                Order.waiting.add(self.name)
                if Races.current is not None:
                    Races.current = Races(Bounds.spans)
                    Races.current.atomics = True  # It orders itself.
            finally:
                Waits.watching = False
        return full

    def _run_programs(self, full: tuple[int, ...], args: dict[str, Any], order: Sequence[int]) -> None:
        builder = ti.interpreter_builder
        builder.set_grid_dim(*full)
        report, races, run = GridRun.on_program, Races.current, self.fn
        total, depth = len(order), full[1] * full[2]
        try:
            for done, number in enumerate(order, 1):
                builder.grid_idx = (number // depth, number // full[2] % full[1], number % full[2])
                if races is not None:
                    races.program = number + 1
                if Waits.watching:
                    Waits.restart()
                run(**args)
                if report is not None:
                    report(done, total)
        except InterpreterGap:
            raise
        except NotImplementedError as error:
            raise InterpreterGap(str(error)) from error


@functools.cache
def may_wait(function: Callable[..., Any], depth: int = 0) -> bool:
    """Whether a kernel, or a function that it calls, has an atomic: what waiting takes."""
    names = set(function.__code__.co_names)
    called = (function.__globals__.get(name) for name in names)
    inner = [value.fn for value in called if isinstance(value, ti.InterpretedFunction)]
    return any(name.startswith("atomic_") for name in names) or (depth < 3 and any(may_wait(value, depth + 1) for value in inner))


class Order:
    """The order in which this run takes the programs of a launch: a kernel must not care, since a GPU promises none."""

    MAX_SNAPSHOT = 256 << 20  # Bytes that are put back when a kernel turns out to wait for the order.

    kind = "natural"  # Or `reversed`, `shuffled`.
    seed = 0
    kernel = ""       # The only kernel to reorder; empty for all.
    waiting: set[str] = set()  # Kernels whose programs wait for others: they are run in order.

    @classmethod
    def begin(cls, kind: str, seed: int, kernel: str) -> None:
        cls.kind, cls.seed, cls.kernel = kind, seed, kernel

    @classmethod
    def of(cls, kernel: str, programs: int) -> Sequence[int] | None:
        """None for the natural one."""
        shuffles = cls.kind == "shuffled" and cls.kernel in ("", kernel)
        Elements.shuffler = np.random.default_rng(cls.seed) if shuffles else None
        if cls.kind == "natural" or programs < 2 or cls.kernel not in ("", kernel) or kernel in cls.waiting:
            return None
        if not Bounds.spans or sum(end - start for start, end in Bounds.spans) > cls.MAX_SNAPSHOT:
            return None
        if cls.kind == "reversed":
            return range(programs - 1, -1, -1)
        order: list[int] = np.random.default_rng(cls.seed).permutation(programs).tolist()
        return order


class Hints:
    """`tl.multiple_of` promises the compiler something; on a GPU a promise that is not kept makes wrong accesses."""

    checking = False
    false = ""  # The first broken promise of the launch, as a sentence without the kernel's name.


def _mend_hints() -> None:
    promise = tl.multiple_of

    def multiple_of(input: Any, values: Any, **ignored: Any) -> Any:
        result = promise(input, values)
        if Hints.checking and not Hints.false and isinstance(input, tl.tensor) and not input.dtype.is_ptr():
            first = int(input.handle.data.flat[0])  # Of a block only the start: tails that are masked off may wrap round.
            given = values if isinstance(values, (list, tuple, tl.tuple)) else [values]
            factor = max((int(v.value if isinstance(v, tl.constexpr) else v) for v in given), default=1)
            if factor > 1 and first % factor:
                Hints.false = f"`tl.multiple_of` promises multiples of {factor}, and {first} came"
        return result

    tl.multiple_of = tl.core.multiple_of = multiple_of


# ----------------------------------------------------------------------------------------------------------------------
# Autotune: each configuration is a case of its own; a trial runs one of them.


class AutotuneChoice:
    """Which configuration this trial runs, and how many the answer's kernels have."""

    index = 0
    most_configs = 1
    used: list[str] = []
    trial_runs = False  # Whether a launch that is tuned for the first time runs another configuration before, as on a GPU.
    tuned: set[tuple[Any, ...]] = set()

    @classmethod
    def begin(cls, index: int, trial_runs: bool) -> None:
        cls.index, cls.used, cls.trial_runs, cls.tuned = index, [], trial_runs, set()
        Poison.odd = 1 - index % 2


def _mend_autotune() -> None:
    tuner: Any = Autotuner

    def key_of(self: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
        given = {**self.nargs, **kwargs}
        named = [str(given[name]) for name in self.keys if name in given]
        return (id(self), *named, *(str(value.dtype) for value in given.values() if hasattr(value, "dtype")))

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args))
        configs = list(self.prune_configs(kwargs)) if len(self.configs) > 1 else list(self.configs)
        AutotuneChoice.most_configs = max(AutotuneChoice.most_configs, min(len(configs), MAX_AUTOTUNE_CONFIGS))
        config = configs[AutotuneChoice.index % len(configs)]
        clash = kwargs.keys() & config.kwargs.keys()
        if clash:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(clash))}.")
        AutotuneChoice.used.append(str(config))
        if AutotuneChoice.trial_runs and len(configs) > 1 and (key := key_of(self, kwargs)) not in AutotuneChoice.tuned:
            AutotuneChoice.tuned.add(key)
            other = configs[(AutotuneChoice.index + 1) % len(configs)]
            full = {**self.nargs, **kwargs, **other.all_kwargs()}
            if other.pre_hook is not None:
                other.pre_hook(full)
            self.pre_hook(full)
            failure: Exception | None = None
            try:
                self.fn.run(*args, **kwargs, **other.all_kwargs())
            except Exception as error:  # noqa: BLE001 - raised below, once what it left is put back
                failure = error
            self.post_hook(full, exception=failure)
            if failure is not None:
                raise failure
        self.best_config = config
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
    speed_up()
    mend_bfloat16()
    mend_libdevice()
    mend_memory()
    mend_reductions()
    _mend_arguments()
    _mend_sources()
    _mend_autotune()

    # Patched once and for good, instead of at every launch and every call of a device function.
    def kernel() -> None: ...

    scope_globals = {"tl": tl, "core": tl.core}
    ti._patch_lang(types.FunctionType(kernel.__code__, scope_globals))
    ti._patch_lang = lambda fn: ti._LangPatchScope()
    _mend_hints()

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.rewrite()(*args, **kwargs)

    interpreted: Any = ti.InterpretedFunction
    interpreted.__call__ = call
