"""Two proofs of authorship that need the candidate's process: the torch knock-out and the storage ledger.

While an answer's entry point runs, every operator that the dispatcher sees must be glue (worker/glue.toml), and every
buffer that reaches a launch, a reading glue operator or the return value must have a known origin (an input, a weight,
a glue operator, a launch) and the contents that it had when it was last seen. What breaks a rule is recorded, never
raised, since an answer could catch it.

These watch from inside the process they judge. They are a second line: the rules against tampering come first, and
what they cannot see, the comparison and the kernel knock-out still judge.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import tomllib
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

MAX_CONSTANT_ELEMENTS = 64   # Of one tensor made from Python values inside the entry point.
MAX_CONSTANTS = 128          # Elements of all of them, and of single elements that are written.
MAX_SCALAR_READS = 64        # Values that `item` and `tolist` read into Python, all in all.
MAX_SCALAR_MATH = 8          # Operators on one-element results of kernels.
MIN_REDUCTION = 4            # A kernel's partial results are at most this share of what it read.
MAX_VIOLATIONS = 16
_SCALAR_MATH = frozenset("add sub mul div rsub neg sqrt rsqrt exp log reciprocal pow abs clamp clamp_min true_divide".split())
_LIFTS = frozenset(("lift", "lift_fresh", "lift_fresh_copy"))


@dataclasses.dataclass(frozen=True)
class Glue:
    """The operators that may run inside the entry point, by group."""

    groups: dict[str, frozenset[str]]

    @staticmethod
    def load() -> Glue:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "glue.toml")
        with open(path, "rb") as file:
            return Glue({name: frozenset(names) for name, names in tomllib.load(file)["aten"].items()})

    def group_of(self, name: str) -> str | None:
        return next((group for group, names in self.groups.items() if name in names), None)


@dataclasses.dataclass
class Buffer:
    """One storage: kept alive so that its address is not used again, with the digest of its last known contents."""

    storage: torch.UntypedStorage
    origin: str
    digest: bytes | None = None
    reduced_from: int = 0  # For a kernel's output: elements of inputs, weights and kernels' outputs that the launch read.
    programs: int = 0      # For a kernel's output: programs of the launch.


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

    def know(self, tensor: torch.Tensor, origin: str, reduced_from: int = 0, digest: bool = True, programs: int = 0) -> None:
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return
        self.buffers[storage.data_ptr()] = Buffer(
            storage, origin, self.digest(storage) if digest else None, reduced_from, programs
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


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches from the import of the answer on; judges only between `begin` and `end`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.glue = Glue.load()
        self.ledger = Ledger()
        self.judging = False
        self.quiet = 0
        self.violations: list[dict[str, str]] = []
        self.torch_ops: list[str] = []
        self.launches: dict[str, Launch] = {}
        self.scalar_reads = self.constants = self.scalar_math = 0

    # -- one call of the entry point -----------------------------------------------------------------------------------

    def begin(self, inputs: Any, state: Any) -> None:
        self.violations, self.torch_ops, self.launches = [], [], {}
        self.scalar_reads = self.constants = self.scalar_math = 0
        for tensor in tensors_of(inputs):
            self.ledger.know(tensor, "input")
        for tensor in state:
            self.ledger.know(tensor, "state")
        for buffer in self.ledger.buffers.values():
            if buffer.digest is None:
                buffer.digest = Ledger.digest(buffer.storage)
        self.judging = True

    def end(self, outputs: Any) -> None:
        for tensor in tensors_of(outputs):
            self._demand(tensor, "the returned value")
        self.judging = False

    def abandon(self) -> None:
        self.judging = False

    def violate(self, reason: str, message: str) -> None:
        if self.judging and len(self.violations) < MAX_VIOLATIONS:
            self.violations.append({"reason": reason, "message": message})

    def _demand(self, tensor: torch.Tensor, where: str) -> None:
        problem = self.ledger.problem(tensor)
        if problem == "storage-origin":
            self.violate(problem, f"{where} is a buffer that no input, weight, glue operation or launch made")
        elif problem == "storage-changed":
            self.violate(problem, f"{where} was changed by host code that is neither a launch nor a glue operation")
        if problem:  # Named once.
            self.ledger.know(tensor, "unknown")

    # -- launches ------------------------------------------------------------------------------------------------------

    def launch(self, name: str, arguments: Any, run: Callable[[], tuple[int, ...]]) -> None:
        """Runs one launch; checks its arguments before, renews the digests of its tensors after."""
        tensors = list(tensors_of(arguments))
        if self.judging and not self.quiet:
            self._demand_plain(arguments, name)
            for tensor in tensors:
                self._demand(tensor, f"an argument of the launch of `{name}`")
        reads = self.watch_reads(self._spans(tensors)) if self.judging and self.watch_reads is not None else None
        self.quiet += 1
        try:
            grid = run()
        finally:
            self.quiet -= 1
            if self.watch_reads is not None:
                self.watch_reads(None)
        read = reads.count() if reads is not None else 0
        for tensor in tensors:
            previous = self.ledger.find(tensor)
            digest = Ledger.digest(tensor.untyped_storage()) if tensor.untyped_storage().nbytes() else b""
            if previous is None or previous.digest != digest:
                self.ledger.know(tensor, "launch", read, programs=grid[0] * grid[1] * grid[2])
        if self.judging:
            seen = self.launches.setdefault(name, Launch(name, 0, grid))
            seen.count += 1

    watch_reads: Callable[[Any], Any] | None = None  # Set by the interpreter: starts (spans) and ends (None) the watch.

    def _spans(self, tensors: list[torch.Tensor]) -> list[tuple[int, int, int]]:
        """Storages whose reading counts as work: inputs, weights and kernels' outputs, not buffers made for the occasion."""
        spans = {}
        for tensor in tensors:
            buffer = self.ledger.find(tensor)
            if buffer is not None and (buffer.origin in ("input", "state", "launch") or buffer.reduced_from):
                spans[self.ledger.key(tensor)] = (buffer.storage.data_ptr(), buffer.storage.nbytes(), tensor.element_size())
        return list(spans.values())

    def _demand_plain(self, value: Any, name: str, depth: int = 0) -> None:
        """A launch takes tensors, numbers and constants; an object with methods of its own could compute in them."""
        if isinstance(value, (list, tuple)) and depth < 4:
            for item in value:
                self._demand_plain(item, name, depth + 1)
        elif isinstance(value, dict) and depth < 4:
            for item in value.values():
                self._demand_plain(item, name, depth + 1)
        elif type(value).__module__ == "answer" or (
            hasattr(value, "data_ptr")
            and type(value) not in (torch.Tensor, torch.nn.Parameter)
            and not type(value).__module__.startswith("triton.")
        ):
            self.violate("storage-origin", f"an argument of the launch of `{name}` is an object of class {type(value).__name__}")

    # -- operators -----------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if self.quiet:
            return func(*args, **kwargs)
        given = list(tensors_of(args)) + list(tensors_of(kwargs))
        allowed = self._judge(func, given) if self.judging else True
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        constant = self.judging and bool(given) and all(self._is_small_constant(tensor) for tensor in given)
        for tensor in tensors_of(result):
            buffer = self.ledger.find(tensor)
            if buffer is None or not self.judging or name.endswith("_") or not allowed:
                self.ledger.know(tensor, "constant" if constant else name, self._lineage(given), digest=self.judging)
        if name.endswith("_") or name in ("set", "resize"):
            for tensor in given[:1]:
                self.ledger.know(tensor, name, digest=self.judging)
        out = kwargs.get("out")
        for tensor in tensors_of(out):
            self.ledger.know(tensor, name, digest=self.judging)
        return result

    def _lineage(self, given: list[torch.Tensor]) -> int:
        """What a copy of a kernel's output was reduced from."""
        found = [buffer.reduced_from for tensor in given if (buffer := self.ledger.find(tensor)) is not None]
        return max(found, default=0)

    def _judge(self, func: Any, given: list[torch.Tensor]) -> bool:
        name = func.overloadpacket.__name__
        group = self.glue.group_of(name) if func.namespace in ("aten", "prim") else None
        if group == "view" or group == "query":
            return True
        if name in _LIFTS:
            for tensor in given:
                if self.ledger.find(tensor) is None:
                    self.constants += tensor.numel()
                    if tensor.numel() > MAX_CONSTANT_ELEMENTS or self.constants > MAX_CONSTANTS:
                        self.violate("storage-origin", f"{self.constants} values were made from Python or numpy values")
                    self.ledger.know(tensor, "constant")
            return True
        if given and all(self._is_small_constant(tensor) for tensor in given):
            return True  # Sizes and hyper-parameters in tensors: torch.prod(torch.tensor(x.shape)).
        for tensor in given:
            self._demand(tensor, f"an argument of `{name}`")
        if group == "scalar":
            self.read_values(1)
            return True
        if name in ("fill_", "fill") and given and given[0].numel() < Ledger.elements(given[0]):
            self.constants += 1  # One element or slice at a time: values that Python computed.
            if self.constants > MAX_CONSTANTS:
                self.violate("storage-origin", f"more than {MAX_CONSTANTS} single values were written by host code")
        if group == "partial_reduction":
            if all(self._is_partial(tensor) for tensor in given) and given:
                return True
            self._refuse(func, "it reduces more than a kernel's partial results")
            return False
        if group is not None:
            return True
        if name in _SCALAR_MATH and given and all(t.numel() == 1 and self._from_kernel(t) for t in given):
            self.scalar_math += 1
            if self.scalar_math <= MAX_SCALAR_MATH:
                return True
            self._refuse(func, f"more than {MAX_SCALAR_MATH} operators on single values are no final touch")
            return False
        self._refuse(func, "it computes")
        return False

    def read_values(self, count: int) -> None:
        """Counts values that leave for Python."""
        before, self.scalar_reads = self.scalar_reads, self.scalar_reads + count
        if before <= MAX_SCALAR_READS < self.scalar_reads:
            self.violate("torch-knockout", f"more than {MAX_SCALAR_READS} values were read into Python: computing there is not Triton")

    def _is_small_constant(self, tensor: torch.Tensor) -> bool:
        buffer = self.ledger.find(tensor)
        return buffer is not None and buffer.origin == "constant" and tensor.numel() <= MAX_CONSTANT_ELEMENTS and not self.ledger.problem(tensor)

    def _is_partial(self, tensor: torch.Tensor) -> bool:
        """Whether a kernel has done most of the reduction: one value a program, of at least `MIN_REDUCTION` that it read."""
        buffer = self.ledger.find(tensor)
        if buffer is None or tensor.numel() == 0:
            return False
        few = tensor.numel() <= buffer.programs or buffer.reduced_from >= 32 * tensor.numel()
        return few and buffer.reduced_from >= MIN_REDUCTION * tensor.numel()

    def _from_kernel(self, tensor: torch.Tensor) -> bool:
        buffer = self.ledger.find(tensor)
        return buffer is not None and (buffer.origin == "launch" or buffer.reduced_from > 0)

    def _refuse(self, func: Any, why: str) -> None:
        name = str(func).removeprefix("aten.")
        if name not in self.torch_ops and len(self.torch_ops) < MAX_VIOLATIONS:
            self.torch_ops.append(name)
        self.violate("torch-knockout", f"torch operator `{name}` ran inside the entry point: {why}; do it in a kernel")


class HostReads(TorchFunctionMode):
    """Sees what leaves torch without an operator: numpy views, DLPack, lists."""

    _VIEWS = frozenset(("numpy", "untyped_storage", "storage", "_typed_storage", "__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__"))

    _OURS = frozenset((__name__, "run_candidate", "interpreter_mends", "triton.runtime.interpreter"))

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.observer = observer

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        asker = sys._getframe(1).f_globals.get("__name__", "")
        if self.observer.judging and not self.observer.quiet and asker not in self._OURS:
            name = getattr(func, "__name__", "")
            if name in self._VIEWS:
                self.observer.violate("torch-knockout", f"`{name}` hands a tensor's memory to host code inside the entry point")
            elif name == "tolist" and args and isinstance(args[0], torch.Tensor):
                self.observer.read_values(args[0].numel())
        return func(*args, **(kwargs or {}))


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
