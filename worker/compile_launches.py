"""Compiles each launch for a GPU that is not there.

Triton's own binder makes the signature from the launch as it was made (`JITFunction.run` with `warmup=True`), under a
driver that only names the target. So shared memory, registers, illegal constructs and Python hidden in a kernel's body
are found on any machine.
"""

from __future__ import annotations

import dataclasses
import struct
import types
from collections.abc import Callable
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from virtual_cuda import Target

MAX_AUTOTUNE_CONFIGS = 32
MAX_COMPILED = 128
_MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclasses.dataclass
class Compiled:
    """One specialisation of a kernel and what came of it."""

    kernel: str
    problem: str = ""  # Empty, `compile-failed` or `target-limits`.
    message: str = ""
    shared_bytes: int = 0
    registers: int = 0
    local_bytes: int = 0
    warps: int = 0
    config: str = ""
    prunable: bool = False  # A failure that Triton's autotuner takes as "too slow" rather than as an error.


class TargetDriver:
    """Stands where a GPU's driver would: names the target, and does nothing else."""

    def __init__(self, capability: int, target: Target) -> None:
        self._target = GPUTarget("cuda", capability, 32)
        self._properties = target
        self.utils = self

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return self._properties.capability

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        return {
            "max_shared_mem": self._properties.shared_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": self._properties.multiprocessors,
            "warpSize": 32,
            "sm_clock_rate": 1980000,
            "mem_clock_rate": 2619000,
            "mem_bus_width": 5120,
        }

    def get_benchmarker(self) -> Callable[..., Any]:
        raise RuntimeError("nothing is timed without a GPU")


class Warmed:
    """What `kernel.warmup(…)` gives: asked for its registers, then launched, as in Triton's own tutorials."""

    n_regs, n_spills, n_max_threads = 32, 0, 1024

    def __init__(self, function: Any) -> None:
        self._function = function
        self.metadata = types.SimpleNamespace(shared=0, num_warps=4, num_stages=3)

    def _init_handles(self) -> None:
        pass

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        launcher: Callable[..., Any] = self._function[grid]
        return launcher


def resource_usage(cubin: bytes) -> tuple[int, int]:
    """(registers a thread, bytes of stack a thread) from a cubin's `.nv.info` section; the second counts spills too."""
    section_offset, = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = []
    for index in range(count):
        name, _kind, _flags, _address, offset, size = struct.unpack_from("<IIQQQQ", cubin, section_offset + index * entry_size)
        sections.append((name, offset, size))
    names_offset = sections[names_index][1]
    registers = local = 0
    for name, offset, size in sections:
        end = cubin.index(b"\0", names_offset + name)
        if cubin[names_offset + name : end] != b".nv.info":
            continue
        at = offset
        while at + 4 <= offset + size:
            form, attribute, length = struct.unpack_from("<BBH", cubin, at)
            if form == 4:
                if length == 8 and attribute in (0x2F, 0x11):
                    value = struct.unpack_from("<I", cubin, at + 8)[0]
                    registers, local = (max(registers, value), local) if attribute == 0x2F else (registers, max(local, value))
                at += 4 + length
            else:
                at += 4
    return registers, local


class Compiler:
    """Collects what the launches of one answer compile to."""

    def __init__(self, capability: int) -> None:
        self.target = Target(capability)
        self.results: list[Compiled] = []
        self.launched: list[str] = []
        self._config = ""
        self._capability = capability

    def install(self) -> Callable[[], None]:
        """Patches this process; the function returned takes it back."""
        driver.set_active(TargetDriver(self._capability, self.target))
        run = JITFunction.run
        compiler = self

        def compile_only(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            kernel = compiler.compile(run, function, args, grid, kwargs)
            return Warmed(function) if warmup else kernel

        def each_config(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            return compiler.autotune(tuner, args, kwargs)

        jit_function: Any = JITFunction
        jit_function.run = compile_only
        tuner_class: Any = Autotuner
        tune = tuner_class.run
        tuner_class.run = each_config

        def restore() -> None:
            jit_function.run, tuner_class.run = run, tune

        return restore

    def compile(self, run: Callable[..., Any], function: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> Any:
        name = function.fn.__name__
        if name not in self.launched:
            self.launched.append(name)
        result = Compiled(name, config=self._config)
        if len(self.results) < MAX_COMPILED:
            self.results.append(result)
        try:
            kernel = run(function, *args, grid=None, warmup=True, **kwargs)
            if hasattr(kernel, "result"):
                kernel = kernel.result()
        except Exception as error:
            result.problem, result.message, result.prunable = "compile-failed", describe(error), is_prunable(error)
            raise
        metadata = kernel.metadata
        result.shared_bytes, result.warps = int(metadata.shared), int(metadata.num_warps)
        cubin = kernel.asm.get("cubin")
        if cubin:
            result.registers, result.local_bytes = resource_usage(cubin)
        if result.shared_bytes > self.target.shared_bytes:
            result.problem, result.prunable = "target-limits", True
            result.message = f"needs {result.shared_bytes} bytes of shared memory, the target has {self.target.shared_bytes}"
        elif result.warps * 32 > 1024:
            result.problem, result.message = "target-limits", f"{result.warps} warps are more than 1024 threads"
        else:
            self._check_grid(result, function, args, kwargs, grid)
        return kernel

    def _check_grid(self, result: Compiled, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
        names = [parameter.name for parameter in function.params]
        bound = {parameter.name: parameter.default for parameter in function.params if parameter.has_default}
        bound |= dict(zip(names, args)) | kwargs
        sizes = grid(bound) if callable(grid) else grid
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        for size, most, axis in zip(sizes, _MAX_GRID, "xyz"):
            if int(size) > most:
                result.problem, result.message = "target-limits", f"the grid's {axis} size {int(size)} is over the GPU's {most}"

    def autotune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compiles each configuration; one over the target's limits is pruned, as on a GPU, unless all are."""
        tuner.nargs = dict(zip(tuner.arg_names, args))
        configs = list(tuner.prune_configs(kwargs)) if len(tuner.configs) > 1 else list(tuner.configs)
        failures: list[Exception] = []
        kernel = None
        start = len(self.results)
        for config in configs[:MAX_AUTOTUNE_CONFIGS]:
            self._config = str(config)
            tuner.best_config = config
            try:
                kernel = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            except Exception as error:  # noqa: BLE001 - judged below
                failures.append(error)
        self._config = ""
        tuned = self.results[start:]
        good = [result for result in tuned if not result.problem]
        if good:
            for result in tuned:
                if result.problem and result.prunable:
                    result.message, result.problem = f"pruned: {result.message}", ""
            tuner.best_config = configs[0]
        elif failures:
            raise failures[-1]
        tuner.nargs = None
        return kernel


def is_prunable(error: BaseException | None) -> bool:
    while error is not None:
        if type(error).__name__ in ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError"):
            return True
        error = error.__cause__
    return False


def describe(error: BaseException) -> str:
    """An error's text with what caused it, short."""
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__
    if cause is not None:
        text += f" ({type(cause).__name__}: {cause})"
    return text[:1500]
