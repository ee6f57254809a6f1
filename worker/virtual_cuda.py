"""Lets code that says "cuda" run on a machine without a GPU.

Tensors live on the CPU and answer `cuda:0`; calls that name a CUDA device are mapped to the CPU; `torch.cuda` answers
for the target GPU. Reading the device is honest and common, so it must work and must not be refused.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_NOWHERE = 1 << 44  # The address that a tensor without memory gives: aligned, and nothing to branch on.


class Target:
    """What `torch.cuda` says of the GPU that is compiled for."""

    def __init__(self, capability: int) -> None:
        self.capability = divmod(capability, 10)
        self.shared_bytes = {80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448, 120: 101376}.get(
            capability, 101376
        )
        names = {80: "NVIDIA A100", 86: "NVIDIA A10", 89: "NVIDIA L40S", 90: "NVIDIA H200", 100: "NVIDIA B200"}
        self.name = names.get(capability, f"NVIDIA GPU sm_{capability}")
        self.multiprocessors = {80: 108, 86: 72, 89: 142, 90: 132, 100: 148}.get(capability, 64)

    def properties(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            name=self.name,
            major=self.capability[0],
            minor=self.capability[1],
            total_memory=80 << 30,
            multi_processor_count=self.multiprocessors,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            max_threads_per_block=1024,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=self.shared_bytes,
            shared_memory_per_multiprocessor=self.shared_bytes + 1024,
            L2_cache_size=50 << 20,
            gcnArchName="",
            is_integrated=False,
            is_multi_gpu_board=False,
            uuid="00000000-0000-0000-0000-000000000000",
            pci_bus_id=0,
            pci_device_id=0,
            pci_domain_id=0,
            clock_rate=1980000,
            memory_clock_rate=2619000,
            memory_bus_width=5120,
        )


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and value.split(":")[0] in ("cuda", "cpu", "meta"))


def _is_cuda_device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class BackwardModes:
    """The modes that a backward pass runs under: one is off while its own handler runs, and a backward pass, started from
    such a handler, calls user code."""

    modes: tuple[TorchFunctionMode, ...] = ()

    @classmethod
    def install(cls) -> None:
        autograd: Any = torch.autograd
        engine = autograd._engine_run_backward

        def run(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                if torch._C._len_torch_function_stack() == 0:
                    for mode in cls.modes:
                        stack.enter_context(mode)
                return engine(*args, **kwargs)

        autograd._engine_run_backward = run


class VirtualCuda(TorchFunctionMode):
    """Maps CUDA devices in arguments of torch calls to `device`: the CPU, or `meta` where only shapes matter."""

    def __init__(self, device: torch.device = CPU) -> None:
        super().__init__()
        self.device = device
        self.host_storages: set[int] = set()  # Of tensors that a real machine would have on the CPU.
        self.tracking: Callable[[], bool] = lambda: False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.device:
            return func(*args, **(kwargs or {}))  # A name, not a place: stays what the code says.
        named = [value for value in (*args, *(kwargs or {}).values()) if _is_device(value)]
        device = named[-1] if named else None
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            device = "cuda" if func is torch.Tensor.cuda else "cpu"
            result = args[0] if self.device.type == "meta" or not self.tracking() else self._moved(args[0], device)
        else:
            if kwargs:
                kwargs = {
                    key: self.device if _is_cuda_device(value) else value
                    for key, value in kwargs.items()
                    if not (key == "pin_memory" and value)
                }
                if type(kwargs.get("device")) is int:
                    device, kwargs["device"] = "cuda", self.device
            if any(_is_cuda_device(value) for value in args):
                args = tuple(self.device if _is_cuda_device(value) else value for value in args)
            result = func(*args, **(kwargs or {}))
            if func is torch.Tensor.to and device is not None and self.tracking() and isinstance(result, torch.Tensor):
                result = self._moved(result, device)
        if self.tracking() and func in _FACTORIES and isinstance(result, torch.Tensor):
            if device is None or not _is_cuda_device(device):
                self._mark(result, host=True)
            else:
                self._mark(result, host=False)
        return result

    def _moved(self, tensor: torch.Tensor, device: Any) -> torch.Tensor:
        """A copy where the tensor would change sides, else itself."""
        to_host = not _is_cuda_device(device)
        if (tensor.untyped_storage().data_ptr() in self.host_storages) == to_host:
            return tensor
        copy = tensor.clone()
        self._mark(copy, host=to_host)
        return copy

    def _mark(self, tensor: torch.Tensor, host: bool) -> None:
        key = tensor.untyped_storage().data_ptr()
        if host and tensor.numel():
            self.host_storages.add(key)
        else:
            self.host_storages.discard(key)  # The address may have been another tensor's.


_FACTORIES = frozenset(
    (
        torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.tensor, torch.as_tensor, torch.linspace, torch.eye,
        torch.rand, torch.randn, torch.randint, torch.empty_strided, torch.scalar_tensor, torch.from_numpy,
    )
)  # fmt: skip


class _Nothing:
    """A context, stream or event that does nothing, for code that only wants to name the device or time itself."""

    cuda_stream = 0
    device = CUDA

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def _none(self, *args: Any, **kwargs: Any) -> None:
        return None

    record = wait = wait_event = wait_stream = synchronize = record_event = _none

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 0.0


class _Generator:
    """What `torch.cuda.default_generators` holds: a seed and an offset, as a GPU's generator has."""

    device = CUDA

    def __init__(self) -> None:
        self._offset = 0

    def initial_seed(self) -> int:
        return int(torch.default_generator.initial_seed())

    def get_state(self) -> torch.Tensor:
        return torch.tensor([self.initial_seed() & (2**63 - 1), self._offset]).view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        self._offset = int(state.view(torch.int64)[1])

    def get_offset(self) -> int:
        return self._offset

    def set_offset(self, offset: int) -> None:
        self._offset = offset

    def manual_seed(self, seed: int) -> _Generator:
        torch.default_generator.manual_seed(seed)
        self._offset = 0
        return self


def _asked_by_torch() -> bool:
    """Whether torch's own Python code reads the property: it needs the truth."""
    return sys._getframe(2).f_code.co_filename.startswith(_TORCH_FOLDER)


def install(target: Target) -> None:
    """Patches this process for good; push a `VirtualCuda()` mode around code that should see the virtual GPU."""
    cuda: Any = torch.cuda
    tensor: Any = torch.Tensor
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device=None: None,
        "get_device_properties": lambda device=None: target.properties(),
        "get_device_capability": lambda device=None: target.capability,
        "get_device_name": lambda device=None: target.name,
        "get_arch_list": lambda: [f"sm_{target.capability[0]}{target.capability[1]}"],
        "is_bf16_supported": lambda including_emulation=True: target.capability[0] >= 8,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda device=None: (80 << 30, 80 << 30),
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "reset_peak_memory_stats": lambda device=None: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "current_stream": lambda device=None: _Nothing(),
        "default_stream": lambda device=None: _Nothing(),
        "_lazy_init": lambda: None,
    }
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    for name in ("device", "Stream", "Event", "stream", "device_of", "_DeviceGuard"):
        setattr(cuda, name, _Nothing)
    cuda.default_generators = (_Generator(),)
    BackwardModes.install()
    # What Inductor's own output calls.
    bindings: Any = torch._C
    bindings._cuda_getCurrentRawStream = lambda device: 0
    bindings._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device="cuda")
    real_device, real_is_cuda, real_is_cpu, real_is_meta = tensor.device, tensor.is_cuda, tensor.is_cpu, tensor.is_meta

    def device(self: torch.Tensor) -> torch.device:
        return real_device.__get__(self) if _asked_by_torch() else CUDA

    def is_cuda(self: torch.Tensor) -> bool:
        return real_is_cuda.__get__(self) if _asked_by_torch() else True

    def is_cpu(self: torch.Tensor) -> bool:
        return bool(real_is_cpu.__get__(self)) if _asked_by_torch() else False

    def is_meta(self: torch.Tensor) -> bool:
        return bool(real_is_meta.__get__(self)) if _asked_by_torch() else False

    real_data_ptr = tensor.data_ptr

    def data_ptr(self: torch.Tensor) -> int:
        return int(real_data_ptr(self)) or _NOWHERE

    tensor.data_ptr = data_ptr
    tensor.device, tensor.is_cuda = property(device), property(is_cuda)
    tensor.is_cpu, tensor.is_meta = property(is_cpu), property(is_meta)
    tensor.get_device = lambda self: 0
