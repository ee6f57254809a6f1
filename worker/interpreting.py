"""What makes a process interpret: launches run program by program under the observer, told how this run differs from others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import candidate
import protocol
import virtual_cuda
from observers import Observer
from protocol import Record


@dataclasses.dataclass(frozen=True)
class InterpreterModules:
    """The modules that only an interpreting process imports: these very ones, whatever `sys.modules` holds later."""

    compile_launches: Any
    libdevice: Any
    memory: Any
    mends: Any
    reduce: Any
    triton: Any

    def ours(self) -> tuple[Any, ...]:
        return (self.libdevice, self.memory, self.mends, self.reduce, self.triton)


@functools.cache
def interpreter_modules() -> InterpreterModules:
    import compile_launches
    import interpreter_libdevice
    import interpreter_memory
    import interpreter_mends
    import interpreter_reduce
    from triton.runtime import interpreter

    return InterpreterModules(
        compile_launches, interpreter_libdevice, interpreter_memory, interpreter_mends, interpreter_reduce, interpreter
    )


class Interpreting:
    """Set up once a process, and told of each run before it starts."""

    def __init__(
        self, observer: Observer, cuda: virtual_cuda.VirtualCuda, capability: int, target: virtual_cuda.Target, progress: Callable[[int, int], None]
    ) -> None:
        self.modules = modules = interpreter_modules()
        self.watch_races = False
        interpreter_mends, interpreter_memory = modules.mends, modules.memory
        candidate.KINDS.update(gap=modules.libdevice.InterpreterGap, bounds=interpreter_memory.OutOfBounds)

        def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup:
                return modules.compile_launches.Warmed(function)
            executor = interpreter_mends.GridRun(function.rewrite(), function.fn, function.arg_names, grid, function.pre_run_hooks)
            programs = executor.prepare(*args, **kwargs)
            name = function.fn.__name__

            def judged() -> Any:
                full = programs()
                if interpreter_memory.Races.current is not None and (conflict := interpreter_memory.Races.current.conflict()):
                    observer.violate("racy-store", f"in the launch of `{name}`, {conflict}")
                if interpreter_mends.Hints.false:
                    observer.violate("false-hint", f"in the launch of `{name}`, {interpreter_mends.Hints.false}")
                return full

            observer.launch(name, (args, kwargs), judged)

        def watch(spans: list[tuple[int, int, int]] | None, bounds: list[tuple[int, int]]) -> Any:
            interpreter_memory.Bounds.spans = bounds
            interpreter_memory.Reads.current = interpreter_memory.Reads(spans) if spans is not None else None
            interpreter_memory.Races.current = interpreter_memory.Races(bounds) if spans is not None and self.watch_races else None
            interpreter_mends.Hints.false = ""
            return interpreter_memory.Reads.current

        observer.watch = watch
        observer.in_mend = lambda: modules.libdevice.Calling.depth > 0
        observer.own_globals.add(id(globals()))
        for module in (*modules.ours(), candidate, protocol, virtual_cuda):
            observer.own_globals.add(id(vars(module)))
        observer.host_storages = cuda.host_storages
        cuda.tracking = lambda: observer.judging and not observer.quiet
        from triton.runtime.driver import driver

        driver.set_active(modules.compile_launches.TargetDriver(capability, target))
        interpreted: Any = modules.triton.InterpretedFunction
        interpreted.run = run
        interpreter_mends.GridRun.on_program = progress

    def begin_run(self, request: Record) -> Any:
        """Takes over how this run differs from others: configuration, order of programs, what is watched."""
        mends = self.modules.mends
        order = request.get("order") or {}
        mends.Order.begin(order.get("kind", "natural"), int(order.get("seed", 0)), order.get("kernel", ""))
        mends.Hints.checking = bool(request.get("hints", False))
        mends.AutotuneChoice.begin(int(request["config"]), bool(request.get("tune", False)))
        self.watch_races = bool(request.get("races", False))
        self.modules.memory.Stores.elements = 0
        return mends.AutotuneChoice
