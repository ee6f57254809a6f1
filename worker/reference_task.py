"""The reference side of one task: loads it, scales it, randomises its weights, and runs it in several precisions."""

from __future__ import annotations

import copy
import dataclasses
import linecache
import signal
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import scale_task
import torch
from virtual_cuda import VirtualCuda
from weights import randomise_constants, state_of

_LOW_PRECISION = torch.float16
MAX_STRETCHED = 3


class Unusable(Exception):
    """The task cannot be judged; `reason` is an id of the front's table of reasons."""

    def __init__(self, reason: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.detail = detail


class TooSlow(Exception):
    """A run of the reference passed its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def expire(signum: int, frame: types.FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def load_module(source: str, name: str) -> types.ModuleType:
    """Executes `source` as module `name`; its lines show in tracebacks."""
    filename = f"<{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType(name)
    module.__file__ = filename
    exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
    return module


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def map_tensors(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        items = [map_tensors(item, function) for item in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: map_tensors(item, function) for key, item in value.items()}
    return value


def elements(value: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_in(value))


def plain_structure(value: Any) -> Any:
    """Named tuples, dataclasses and model outputs as tuples and dicts, which is how answers are compared."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_structure(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        items = [plain_structure(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: plain_structure(item) for key, item in value.items()}
    return value


# ----------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Variant:
    """The task at one set of sizes."""

    name: str
    source: str
    elements: int
    sizes: dict[int, int]
    module: types.ModuleType | None = None
    cap: int = 0


class ReferenceTask:
    """One task: its variants by name (`original`, `scaled`), each with a model and a way to run it."""

    def __init__(self, source: str, kind: str, entry: str, run_seconds: float) -> None:
        self.source = source
        self.kind = kind
        self.entry = entry
        self.run_seconds = run_seconds
        self.notes: list[str] = []
        self.evaluation_mode = False
        self.variants: dict[str, Variant] = {}
        self._models: dict[str, torch.nn.Module] = {}
        self._meta_works = True

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def plan(self, budget: int, shapes: str) -> None:
        """Fills `variants`. The original is kept where it fits the budget or nothing smaller does; beside it stands a
        scaled variant: from the ladder where the original is too big, of odd sizes where it fits."""
        original = Variant("original", self.source, self.count(self.source), {})
        fits = 0 < original.elements <= budget
        if shapes != "scaled":
            self.variants["original"] = original
        ladder = scale_task.ODD_LADDER if fits else scale_task.LADDER
        best: Variant | None = None
        if shapes != "original":
            for cap, text, changed in scale_task.candidates(self.source, ladder):
                count = self.count(text)
                if count <= 0 or count >= original.elements > 0:
                    continue
                if best is None or count < best.elements:
                    best = Variant("scaled", text, count, changed, cap=cap)
                if count <= budget:
                    break
        if not fits and shapes == "both":
            self._plan_odd(original.elements, budget)
        if best is not None and (fits or best.elements <= budget or best.elements * 4 < original.elements):
            self.variants["scaled"] = best
            if not fits:
                self._plan_stretched(best, 4 * budget)
        if not self.variants:
            self.variants["original"] = original

    def _plan_odd(self, elements: int, budget: int) -> None:
        """Adds the variant `odd`, at sizes that are no multiples of anything."""
        for cap, text, changed in scale_task.candidates(self.source, scale_task.ODD_LADDER):
            count = self.count(text)
            if 0 < count <= budget and (count < elements or elements <= 0):
                self.variants["odd"] = Variant("odd", text, count, changed, cap=cap)
                return

    def _plan_stretched(self, scaled: Variant, budget: int) -> None:
        """Adds variants `stretched-1` … in which one size stays long."""
        for options in scale_task.stretched(self.source, scaled.sizes):
            for text, changed in options:
                count = self.count(text)
                if 0 < count <= budget:
                    name = f"stretched-{1 + sum(v.startswith('stretched') for v in self.variants)}"
                    self.variants[name] = Variant(name, text, count, changed)
                    break
            if sum(v.startswith("stretched") for v in self.variants) >= MAX_STRETCHED:
                return

    def count(self, source: str) -> int:
        """Elements of inputs, outputs and parameters, without allocating them where the meta device allows; -1 if it fails."""
        if self._meta_works:
            try:
                with time_limit(15.0), torch.device("meta"), torch.no_grad():
                    return self._count_with(load_module(source, "reference"))
            except (Exception, SystemExit):  # noqa: BLE001 - whatever the reference raises on meta tensors, counting for real decides
                pass
        try:
            with time_limit(self.run_seconds), VirtualCuda(), torch.no_grad():
                return self._count_with(load_module(source, "reference"))
        except (Exception, SystemExit):  # noqa: BLE001 - a scaled task that does not run is simply not used
            return -1

    def _count_with(self, module: types.ModuleType) -> int:
        inputs = list(module.get_inputs())
        if self.kind == "function":
            return elements(inputs) + elements(plain_structure(getattr(module, self.entry)(*inputs)))
        model = getattr(module, self.entry)(*init_arguments(module))
        return elements(inputs) + elements(plain_structure(model(*inputs))) + sum(t.numel() for _, t in state_of(model))

    # torch.manual_seed would also queue a seed for each kind of device, with a stack trace: a millisecond a call.

    # -- running -------------------------------------------------------------------------------------------------------

    def module(self, variant: str) -> types.ModuleType:
        chosen = self.variants[variant]
        if chosen.module is None:
            chosen.module = load_module(chosen.source, "reference")
        return chosen.module

    def inputs(self, variant: str, seed: int) -> list[Any]:
        torch.default_generator.manual_seed(seed)
        with VirtualCuda(), torch.no_grad():
            return list(self.module(variant).get_inputs())

    def build(self, variant: str, seed: int, weight_seed: int) -> list[str]:
        """Constructs the model under `seed`, redraws constant weights under `weight_seed`; returns the redrawn names."""
        if self.kind == "function":
            return []
        torch.default_generator.manual_seed(seed)
        with VirtualCuda(), torch.no_grad():
            module = self.module(variant)
            model = getattr(module, self.entry)(*init_arguments(module))
        if not isinstance(model, torch.nn.Module):
            raise Unusable("problem-invalid", f"`{self.entry}` is not an nn.Module")
        if self.evaluation_mode:
            model.eval()
        names = randomise_constants(model, torch.Generator().manual_seed(weight_seed))
        self._models[variant] = model
        return names

    def model(self, variant: str) -> torch.nn.Module | None:
        return self._models.get(variant)

    def run(self, variant: str, inputs: list[Any], cast: torch.dtype | None = None, seed: int = 0) -> tuple[Any, list[Any]]:
        """Runs the reference on copies; `cast` changes the dtype of floating inputs and weights first. Returns the
        outputs and the inputs as the run left them."""
        own = map_tensors(inputs, clone_strided)
        function: Callable[..., Any]
        if self.kind == "function":
            function = getattr(self.module(variant), self.entry)
        else:
            function = copy.deepcopy(self._models[variant])
        if cast is not None:
            own = map_tensors(own, lambda tensor: cast_floating(tensor, cast))
            if isinstance(function, torch.nn.Module):
                function = function.to(cast)
        torch.default_generator.manual_seed(seed)
        with VirtualCuda(), torch.no_grad():
            outputs = function(*own)
        return plain_structure(outputs), own

    def run_changed(self, variant: str, inputs: list[Any], change: Callable[[torch.Tensor], torch.Tensor], seed: int = 0) -> Any:
        """The reference with `change` applied to each input and weight: `halved` or `jittered`."""
        own = map_tensors(inputs, change)
        if self.kind == "function":
            function: Callable[..., Any] = getattr(self.module(variant), self.entry)
        else:
            model = copy.deepcopy(self._models[variant])
            with torch.no_grad():
                for _, tensor in state_of(model):
                    tensor.copy_(change(tensor))
            function = model
        torch.default_generator.manual_seed(seed)
        with VirtualCuda(), torch.no_grad():
            return plain_structure(function(*own))


def halved(tensor: torch.Tensor) -> torch.Tensor:
    """Rounded to half precision and back: what a cast before the work costs."""
    return tensor.to(_LOW_PRECISION).to(tensor.dtype) if tensor.dtype == torch.float32 else clone_strided(tensor)


def jittered(tensor: torch.Tensor) -> torch.Tensor:
    """Off by about a unit in the last place: how far rounding alone can move the outputs, cancellation included."""
    if not tensor.is_floating_point():
        return clone_strided(tensor)
    sign = torch.randint(0, 2, tensor.shape, dtype=torch.int8).to(tensor.dtype) * 2 - 1
    return tensor * (1 + torch.finfo(tensor.dtype).eps * sign)


def init_arguments(module: types.ModuleType) -> list[Any]:
    maker = getattr(module, "get_init_inputs", None)
    return list(maker()) if maker is not None else []


def clone_strided(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides; `clone` would drop those of an expanded tensor."""
    if any(step == 0 for step in tensor.stride()):
        return tensor.clone()
    return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype).copy_(tensor)


def cast_floating(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
