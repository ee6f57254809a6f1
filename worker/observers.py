"""Two proofs of authorship that need the candidate's process: the torch knock-out and the storage ledger.

While an answer's entry point runs, every operator that the dispatcher sees must be glue (worker/glue.toml), and every
buffer that reaches a launch, a reading glue operator or the return value must have a known origin (an input, a weight,
a glue operator, a launch) and the contents that it had when it was last seen. What breaks a rule is recorded, never
raised, since an answer could catch it.

These watch from inside the process they judge. They are a second line: the rules against tampering come first, and
what they cannot see, the comparison and the kernel knock-out still judge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import copies
import host_reads
import ledger
import raising
import torch
from glue import Glue, reduction_factor
from host_reads import ReadCounts
from ledger import Buffer, Launch, Ledger, tensors_of
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

MAX_CONSTANT_ELEMENTS = 64   # Of one tensor made from Python values inside the entry point.
MAX_CONSTANTS = 128          # Elements of all of them, and of single elements that are written.
MAX_SCALAR_MATH = 8          # Operators on one-element results of kernels.
MAX_SPLITS = 32              # Partial products of matrices that torch may add up.
MIN_REDUCTION = 4            # A kernel's partial results are at most this share of what it read.
MAX_VIOLATIONS = 16
_SCALAR_MATH = frozenset("add sub mul div rsub neg sqrt rsqrt exp log reciprocal pow abs clamp clamp_min true_divide".split())
_CHECKS = frozenset("gt ge lt le eq ne isnan all any logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not".split())
_FILLED = frozenset(("full", "full_like", "new_full", "scalar_tensor", "linspace", "arange"))
_EMPTY = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split())
_LIFTS = frozenset(("lift", "lift_fresh", "lift_fresh_copy"))


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches from the import of the answer on; judges only between `begin` and `end`."""

    # A thing of ours that torch does on the way: nobody's operator.
    own = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.glue = Glue.load()
        self.ledger = Ledger()
        self.judging = False
        self.quiet = 0
        self.violations: list[dict[str, str]] = []
        self.torch_ops: list[str] = []
        self.launches: dict[str, Launch] = {}
        # Modules whose reads are ours; told by identity, since a name can be taken.
        self.own_globals = {id(globals())} | {id(vars(module)) for module in (copies, host_reads, ledger, raising)}
        self.constants = self.scalar_math = 0
        self.copied = ""           # What glue made and kernels only handed on, if that is all that is returned.
        self.inputs: list[torch.Tensor] = []
        self.checks = raising.Checks(self._refuse)
        self.reads = ReadCounts(self.ledger, [], self.violate)
        self.report = False        # Torch's own computing is counted, instead of being a violation.
        self.torch_elements = 0    # Elements that operators which compute have made.

    # -- one call of the entry point -----------------------------------------------------------------------------------

    def begin(self, inputs: Any, state: Any, report: bool = False) -> None:
        self.violations, self.torch_ops, self.launches = [], [], {}
        self.constants = self.scalar_math = self.torch_elements = 0
        self.copied = ""
        self.checks = raising.Checks(self._refuse)
        self.inputs = list(tensors_of(inputs))
        self.reads = ReadCounts(self.ledger, self.inputs, self.violate)
        for tensor in self.inputs:
            self.ledger.know(tensor, "input", moved="")
        for tensor in state:
            self.ledger.know(tensor, "state", moved="")
        for buffer in self.ledger.buffers.values():
            if buffer.digest is None:
                buffer.digest = Ledger.digest(buffer.storage)
        self.report = report
        self.judging = True

    def end(self, outputs: Any) -> None:
        if self.checks.failed:
            self.violate("torch-knockout", "a condition that torch computed was not met, and what it raised was caught: host code decided by values")
        for tensor in tensors_of(outputs):
            self._demand(tensor, "the returned value")
            self._demand_device(tensor, "the returned value")
        self.copied = copies.only_copied(self.ledger, self.inputs, outputs)
        self.judging = False

    def torch_share(self, stored: int) -> float:
        """Of all elements that the entry point had computed, the part that torch made: elements of the results of operators
        that compute (everything outside worker/glue.toml), against these and the `stored` elements that kernels stored,
        each as often as it was made. A product counts its results, not its multiplications. 0 where nothing was computed."""
        made = self.torch_elements + stored
        return self.torch_elements / made if made else 0.0

    def abandon(self) -> None:
        self.judging = False

    def violate(self, reason: str, message: str) -> None:
        if self.judging and len(self.violations) < MAX_VIOLATIONS:
            self.violations.append({"reason": reason, "message": message})

    def _demand(self, tensor: torch.Tensor, where: str) -> None:
        self.checks.use(tensor)
        problem = self.ledger.problem(tensor)
        if problem == "storage-origin":
            self.violate(problem, f"{where} is a buffer that no input, weight, glue operation or launch made")
        elif problem == "storage-changed":
            self.violate(problem, f"{where} was changed by host code that is neither a launch nor a glue operation")
        if problem:  # Named once.
            self.ledger.know(tensor, "unknown")

    def _demand_device(self, tensor: torch.Tensor, where: str) -> None:
        if self.host_storages and Ledger.key(tensor) in self.host_storages:
            self.violate("wrong-device", f"{where} would be on the CPU: it was made without device=, or moved there")

    # -- launches ------------------------------------------------------------------------------------------------------

    def launch(self, name: str, arguments: Any, run: Callable[[], tuple[int, ...]]) -> None:
        """Runs one launch; checks its arguments before, renews the digests of its tensors after."""
        tensors = list(tensors_of(arguments))
        if self.judging and not self.quiet:
            if self not in _get_current_dispatch_mode_stack():
                self.violate("torch-knockout", f"operators were hidden from the observer before the launch of `{name}`")
            self._demand_plain(arguments, name)
            for tensor in tensors:
                self._demand(tensor, f"an argument of the launch of `{name}`")
                self._demand_device(tensor, f"an argument of the launch of `{name}`")
        reads = None
        if self.watch is not None:
            storages = [t.untyped_storage() for t in tensors] + [b.storage for b in self.ledger.buffers.values()]
            bounds = [(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in storages if s.nbytes()]
            reads = self.watch(self._spans(tensors) if self.judging else [], bounds)
        self.quiet += 1
        try:
            grid = run()
        finally:
            self.quiet -= 1
            if self.watch is not None:
                self.watch(None, [])
        read = reads.count() if reads is not None else 0
        dots = reads is not None and reads.adds_up()
        stored: list[tuple[torch.Tensor, Buffer | None]] = []
        others: list[tuple[torch.Tensor, Buffer]] = []
        for tensor in tensors:
            previous = self.ledger.find(tensor)
            if not self.judging:  # Told by `begin`, should it come to that.
                self.ledger.know(tensor, "launch", digest=False)
                continue
            digest = Ledger.digest(tensor.untyped_storage()) if tensor.untyped_storage().nbytes() else b""
            if previous is None or previous.digest != digest:
                stored.append((tensor, previous))
            elif previous.moved is not None and previous.moved != copies.FRESH:
                others.append((tensor, previous))
        for tensor, previous in stored:
            self.own = True
            try:
                moved = copies.handed_on(tensor, previous, others)
            finally:
                self.own = False
            widths = previous.widths if previous is not None else frozenset()
            self.ledger.know(tensor, "launch", read, programs=grid[0] * grid[1] * grid[2], dots=dots, moved=moved, widths=widths)
        if self.judging:
            seen = self.launches.setdefault(name, Launch(name, 0, grid))
            seen.count += 1

    # Set by the interpreter: begins to watch a launch (storages whose reading counts, memory that may be reached), or ends it.
    watch: Callable[[Any, list[tuple[int, int]]], Any] | None = None
    host_storages: set[int] | None = None  # Set by the virtual GPU: storages that would lie on the CPU.

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
        if self.own:
            return func(*args, **kwargs)
        if self.quiet:
            if self.judging and not (self.in_mend is not None and self.in_mend()):
                self._refuse(func, "inside a kernel's launch", always=True)
            return func(*args, **kwargs)
        given = list(tensors_of(args)) + list(tensors_of(kwargs))
        allowed = self._judge(func, given, reduction_factor(args, kwargs)) if self.judging else True
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if not allowed:
            self.torch_elements += sum(tensor.numel() for tensor in tensors_of(result))
        if self.judging and self.glue.group_of(name) in ("view", "query") and name not in ("resize_", "resize_as_"):
            return result  # The same storage: known if it was known, and its contents are not looked at anew.
        if self.judging:
            self._judge_cast(func, given, result)
            if name in _EMPTY and isinstance(result, torch.Tensor) and result.dtype != torch.bool:
                # Fresh memory holds anything on a GPU; zeros or old results here would hide that nobody wrote it.
                result.fill_(float("nan") if result.is_floating_point() or result.is_complex() else 0x55)
        constant = self.judging and bool(given) and all(self._is_small_constant(tensor) for tensor in given)
        moved = None
        if self.judging and allowed:
            moved = copies.FRESH if constant else copies.moved_by(self.ledger, name, self.glue.group_of(name), given, result)
        for tensor in tensors_of(result):
            buffer = self.ledger.find(tensor)
            if buffer is None or not self.judging or name.endswith("_") or not allowed:
                self.ledger.know(tensor, "constant" if constant else name, self._lineage(given), digest=self.judging, moved=moved)
        if name.endswith("_") or name in ("set", "resize"):
            for tensor in given[:1]:
                self.ledger.know(tensor, name, digest=self.judging, moved=moved)
        if self.judging and self.glue.group_of(name) is None and name in _CHECKS and allowed and not constant:
            self.checks.made(result, func)
        out = kwargs.get("out")
        for tensor in tensors_of(out):
            self.ledger.know(tensor, name, digest=self.judging)
        return result

    in_mend: Callable[[], bool] | None = None  # Set by the interpreter: whether a mend of ours is calling torch.

    def _judge_cast(self, func: Any, given: list[torch.Tensor], result: Any) -> None:
        """A cast to integers or booleans must keep the values: rounding, `!= 0` and cutting off bits are computations."""
        name = func.overloadpacket.__name__
        if name not in ("_to_copy", "copy_") or not given or not isinstance(result, torch.Tensor):
            return
        source = given[-1] if name == "copy_" else given[0]
        if source.dtype in (result.dtype, torch.bool) or result.is_floating_point() or result.is_complex() or not source.numel():
            return
        common = source.dtype if source.is_floating_point() or source.is_complex() else torch.int64
        if not bool((result.to(common) == source.expand(result.shape).to(common)).all()):
            self.torch_elements += result.numel()
            self._refuse(func, f"a cast from {source.dtype} to {result.dtype} that changes values computes")

    def _lineage(self, given: list[torch.Tensor]) -> int:
        """What a copy of a kernel's output was reduced from."""
        found = [buffer.reduced_from for tensor in given if (buffer := self.ledger.find(tensor)) is not None]
        return max(found, default=0)

    def _judge(self, func: Any, given: list[torch.Tensor], factor: int) -> bool:
        name = func.overloadpacket.__name__
        group = self.glue.group_of(name) if func.namespace in ("aten", "prim") else None
        if group == "view" and func._overloadname == "dtype" and given and isinstance(given[0], torch.Tensor):
            self.constants += 1  # Looking at the bits as another type; of another width it takes numbers apart.
        if group == "view" or group == "query":
            return True
        if name in _FILLED:
            self.constants += 1
            if self.constants > MAX_CONSTANTS:
                self.violate("storage-origin", f"more than {MAX_CONSTANTS} tensors were filled with host values")
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
        if group == "scalar" and given and given[0] in self.checks:
            self.checks.ask(given[0])
            return True
        if group is None and name in _CHECKS and "out" not in func._overloadname.lower():
            for tensor in given:
                if tensor not in self.checks:
                    self._demand(tensor, f"an argument of `{name}`")
            return True
        for tensor in given:
            self._demand(tensor, f"an argument of `{name}`")
        if group == "scalar":
            self.read_values(1, given[0] if given else None)
            return True
        if group in ("copy", "move") and any(self._takes_apart(tensor, name) for tensor in (given[1:] if name == "copy_" else given)):
            self._refuse(func, "on bytes of other elements it takes numbers apart")
            return False
        if name in ("fill_", "fill") and given and given[0].numel() < Ledger.elements(given[0]):
            self.constants += 1  # One element or slice at a time: values that Python computed.
            if self.constants > MAX_CONSTANTS:
                self.violate("storage-origin", f"more than {MAX_CONSTANTS} single values were written by host code")
        if group == "partial_reduction":
            if given and all(self._is_partial(tensor, factor) for tensor in given):
                return True
            self._refuse(func, "it reduces more than a kernel's partial results")
            return False
        if name == "repeat_interleave" and len(given) > 1 and not self._is_small_constant(given[1]):
            self._refuse(func, "repeats that are counted in a tensor compute")
            return False
        if group == "constant" and given and name not in ("fill_", "fill", "zero_", "zero"):
            self._refuse(func, "a constant that is made of tensors is a computation")
            return False
        if group is not None:
            return True
        if name in ("add_", "copy_", "fill_") and given and all(self._is_counter(tensor) for tensor in given):
            return True
        if name in _SCALAR_MATH and given and all(t.numel() == 1 and self._from_kernel(t) for t in given):
            self.scalar_math += 1
            if self.scalar_math <= MAX_SCALAR_MATH:
                return True
            self._refuse(func, f"more than {MAX_SCALAR_MATH} operators on single values are no final touch")
            return False
        self._refuse(func, "it computes")
        return False

    def _is_counter(self, tensor: torch.Tensor) -> bool:
        """A single integer of the module's state, as batch norm's count of batches."""
        buffer = self.ledger.find(tensor)
        return tensor.numel() == 1 and not tensor.is_floating_point() and buffer is not None and buffer.origin in ("state", "add_")

    def _takes_apart(self, tensor: torch.Tensor, name: str) -> bool:
        """Whether an input's or a kernel's numbers are seen as elements of another width, other than to copy all of them."""
        buffer = self.ledger.find(tensor)
        if buffer is None or buffer.moved == copies.FRESH or tensor.element_size() in buffer.widths:
            return False
        return name == "_to_copy" or tensor.numel() * tensor.element_size() < buffer.storage.nbytes()

    def read_values(self, count: int, tensor: torch.Tensor | None) -> None:
        if tensor is not None:
            self.checks.use(tensor)
        self.reads.read(count, tensor)

    def _is_small_constant(self, tensor: torch.Tensor) -> bool:
        buffer = self.ledger.find(tensor)
        return buffer is not None and buffer.origin == "constant" and tensor.numel() <= MAX_CONSTANT_ELEMENTS and not self.ledger.problem(tensor)

    def _is_partial(self, tensor: torch.Tensor, factor: int) -> bool:
        """Whether a kernel has done most of the reduction, of which `factor` is left: it read at least `MIN_REDUCTION` values
        for each that it stored, and as many as are left or one value a program; or it multiplied matrices (split-K)."""
        buffer = self.ledger.find(tensor)
        if buffer is None or tensor.numel() == 0:
            return False
        if buffer.dots and factor <= MAX_SPLITS:
            return True
        own = buffer.reduced_from // tensor.numel()
        return own >= MIN_REDUCTION and (own >= factor or tensor.numel() <= buffer.programs)

    def _from_kernel(self, tensor: torch.Tensor) -> bool:
        buffer = self.ledger.find(tensor)
        return buffer is not None and (buffer.origin == "launch" or buffer.reduced_from > 0)

    def _refuse(self, func: Any, why: str, always: bool = False) -> None:
        """Takes down an operator that computes; a violation, unless torch's computing is only to be told of."""
        name = str(func).removeprefix("aten.")
        if name not in self.torch_ops and len(self.torch_ops) < MAX_VIOLATIONS:
            self.torch_ops.append(name)
        if self.report and not always:
            return
        self.violate("torch-knockout", f"torch operator `{name}` ran inside the entry point: {why}; do it in a kernel")


def _without_dynamo() -> None:
    """torch wraps `__torch_dispatch__` so that its first call imports all of torch._dynamo; see light_dynamo.py."""
    wrapped = getattr(Observer.__torch_dispatch__, "__wrapped__", None)
    if wrapped is not None:
        wrapped.__dynamo_disable = wrapped


_without_dynamo()
