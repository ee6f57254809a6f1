"""Runs one answer in its own confined process, in one of two modes: `interpret` (numbers) or `compile` (a real compile).

The front asks, one record at a time: `load` the source, `construct` the module with the reference's weights, `run` the
entry point on inputs from a memory file and write the outputs into another. Nothing that this process says is believed
but that a phase has ended: outputs are compared elsewhere, byte by byte.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import os
import sys
import time
import types
from contextlib import ExitStack
from typing import Any

import interpreting
import torch
import virtual_cuda
from candidate import MODULE_NAME, Candidate, Failure
from host_reads import HostReads
from ledger import state_tensors, tensors_of
from observers import Observer
from protocol import (
    Channel,
    PeerClosed,
    ProtocolError,
    Record,
    TensorReader,
    TensorWriter,
    decode_value,
    encode_value,
)
from reference_task import plain_structure
from weights import load_weights, randomise_initialisers, state_of

PROGRESS_SECONDS = 0.25


class Session:
    """Answers the front's requests about one answer."""

    def __init__(self, channel: Channel, mode: str, capability: int, folder: str) -> None:
        self.channel = channel
        self.mode = mode
        self.folder = folder
        self.capability = capability
        self.virtual_cuda = virtual_cuda.VirtualCuda()
        self.target = virtual_cuda.Target(capability)
        self.observer = Observer() if mode == "interpret" else None
        self.compiler: Any = None
        self.candidate: Candidate | None = None
        self.model: torch.nn.Module | None = None
        self.weights: list[tuple[str, torch.Tensor, bool]] = []
        self.restored: list[tuple[torch.Tensor, torch.Tensor, bool]] = []  # (own, value, is a parameter)
        self.kept: dict[int, tuple[Any, torch.Tensor]] = {}
        self._last_progress = 0.0
        self.interpreting: interpreting.Interpreting | None = None
        if self.observer is not None:
            self.interpreting = interpreting.Interpreting(self.observer, self.virtual_cuda, capability, self.target, self._progress)
            self.observer.own_globals.add(id(globals()))
        else:
            import compile_launches

            self.compiler = compile_launches.Compiler(capability)
            self.compiler.install()

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_SECONDS:
            self._last_progress = now
            self.channel.send({"type": "progress", "done": done, "total": total})

    # -- requests ------------------------------------------------------------------------------------------------------

    def load(self, request: Record) -> Record:
        path = os.path.join(self.folder, f"{MODULE_NAME}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(request["source"])
        self.candidate = Candidate(path, request["entry"], request["kind"])
        randomise_initialisers()
        hide_worker_modules()
        bounds = self.interpreting.modules.memory.Bounds if self.interpreting is not None else None
        if bounds is not None and request["kind"] == "script":  # Nobody is judged: what strays is left out, and told at the end.
            bounds.lenient = True
        self.candidate.load()
        return {"type": "loaded", "strayed": dict(bounds.strayed) if bounds is not None else {}}

    def construct(self, request: Record, descriptors: list[int]) -> Record:
        candidate = self._candidate()
        if self.mode == "compile" and request.get("meta"):
            self.virtual_cuda.device = torch.device("meta")
            arguments = [self._meta_value(spec) for spec in request["arguments"]]
            with torch.device("meta"):
                self.model = candidate.construct(arguments, int(request["seed"]), bool(request["evaluation"]))
            return {"type": "constructed", "by_name": 0, "by_shape": 0, "unmatched": [], "own": 0}
        self.virtual_cuda.device = virtual_cuda.CPU
        reader = TensorReader(descriptors[0])
        arguments = [decode_value(spec, reader) for spec in request["arguments"]]
        self.weights = [(w["name"], reader.read(w["tensor"]), bool(w["constant"])) for w in request["weights"]]
        reader.close()
        self.model = candidate.construct(arguments, int(request["seed"]), bool(request["evaluation"]))
        return self._set_weights()

    def _set_weights(self) -> Record:
        if self.model is None:
            unmatched = [{"name": name, "constant": constant} for name, _, constant in self.weights]
            return {"type": "constructed", "by_name": 0, "by_shape": 0, "unmatched": unmatched, "own": 0}
        record = load_weights(self.model, self.weights)
        weights = {p.untyped_storage().data_ptr() for p in torch.nn.Module.parameters(self.model)}
        self.restored = [
            (tensor, tensor.clone(), tensor.untyped_storage().data_ptr() in weights) for _, tensor in state_of(self.model)
        ]
        return record

    def _restore_weights(self) -> None:
        """A module may change its parameters and buffers; each trial starts from the same."""
        with torch.no_grad():
            for tensor, value, _ in self.restored:
                tensor.copy_(value)

    def run(self, request: Record, descriptors: list[int]) -> Record:
        candidate = self._candidate()
        observer = self.observer
        assert observer is not None and candidate.callable is not None and self.interpreting is not None
        # Whatever may run code of the answer comes before the inputs are in this process.
        self._restore_weights()
        state = state_tensors([self.model, candidate.callable, vars(self._module())])
        choice = self.interpreting.begin_run(request)
        reader = TensorReader(descriptors[0])
        inputs = [self._input(spec, reader, index) for index, spec in enumerate(request["arguments"])]
        reader.close()
        before = [(tensor, digest_of(tensor)) for tensor in tensors_of(inputs)]
        weights = [(tensor, digest_of(tensor)) for tensor, _, is_weight in self.restored if is_weight]
        observer.begin(inputs, state, request.get("torch_compute") == "report")
        torch.default_generator.manual_seed(int(request["seed"]))
        with candidate.phase("run"):
            try:
                outputs = plain_structure(candidate.callable(*inputs))
                if any(digest_of(weight) != digest for weight, digest in weights):
                    observer.violate("storage-changed", "a parameter of the module was changed while it ran")
                observer.end(outputs)
            finally:
                observer.abandon()
        with candidate.phase("outputs"):
            writer = TensorWriter()
            spec = encode_value(map_outputs(outputs), writer)
            changed = [digest_of(tensor) != digest for tensor, digest in before]
            after = [encode_value(value, writer) for value in inputs] if any(changed) else None
            writer.write_into(descriptors[1], int(request["capacity"]))
        storages = {tensor.untyped_storage().data_ptr(): index for index, (tensor, _) in enumerate(before) if tensor.numel()}
        aliases = sorted(
            {storages[key] for tensor in tensors_of(outputs) if tensor.numel() and (key := tensor.untyped_storage().data_ptr()) in storages}
        )
        return {
            "type": "ran",
            "outputs": spec,
            "inputs_after": {"k": "list", "v": after} if after is not None else None,
            "aliases": aliases,
            "launches": [{"kernel": launch.kernel, "count": launch.count, "grid": list(launch.grid)} for launch in observer.launches.values()],
            "violations": observer.violations,
            "torch_ops": observer.torch_ops,
            "configs": choice.most_configs,
            "config": "; ".join(choice.used[:4]),
            "copied": observer.copied,
            "torch_share": observer.torch_share(self.interpreting.modules.memory.Stores.elements),
            "in_order": sorted(self.interpreting.modules.mends.Order.waiting)[:16],
        }

    def _input(self, spec: Record, reader: TensorReader, index: int) -> Any:
        """A top-level tensor of the same form as the last trial's is that tensor again, its memory rewritten beneath
        torch: same object, same address, same version counter, other values. A cache keyed by any of them is then wrong."""
        if spec["k"] != "tensor":
            return decode_value(spec, reader)
        form = (spec["dtype"], tuple(spec["shape"]), tuple(spec["stride"]))
        kept = self.kept.get(index)
        if kept is not None and kept[0] == form and tuple(kept[1].shape) == form[1] and kept[1].stride() == form[2]:
            reader.read(spec, kept[1])
            return kept[1]
        tensor = reader.read(spec)
        self.kept[index] = (form, tensor)
        return tensor

    def compile(self, request: Record) -> Record:
        """Runs the entry point with every launch compiled instead of run; tensors have no or empty memory."""
        candidate = self._candidate()
        assert candidate.callable is not None
        inputs = [self._meta_value(spec) if request.get("meta") else empty_value(spec) for spec in request["arguments"]]
        error = ""
        line = 0
        exception = ""
        try:
            with candidate.phase("run"):
                if request.get("meta"):
                    with torch.device("meta"):
                        candidate.callable(*inputs)
                else:
                    candidate.callable(*inputs)
        except Failure as failure:
            error, line, exception = failure.record["message"], failure.record["line"], failure.record["exception"]
        return {
            "type": "compiled",
            "kernels": [dataclasses.asdict(result) for result in self.compiler.results],
            "launched": self.compiler.launched,
            "error": error,
            "exception": exception,
            "line": line,
        }

    def _meta_value(self, spec: Record) -> Any:
        if spec["k"] == "tensor":
            with torch.device("meta"):
                return torch.empty_strided(tuple(spec["shape"]), tuple(spec["stride"]), dtype=getattr(torch, spec["dtype"]))
        if spec["k"] in ("list", "tuple"):
            items = [self._meta_value(item) for item in spec["v"]]
            return items if spec["k"] == "list" else tuple(items)
        return decode_plain(spec)

    def _candidate(self) -> Candidate:
        if self.candidate is None:
            raise ProtocolError("no answer is loaded")
        return self.candidate

    def _module(self) -> types.ModuleType:
        module = self._candidate().module
        assert module is not None
        return module

    def serve(self) -> None:
        modes = ExitStack()
        with modes, torch.no_grad():
            modes.enter_context(self.virtual_cuda)
            if self.observer is not None:
                modes.enter_context(reads := HostReads(self.observer))
                virtual_cuda.BackwardModes.modes = (self.virtual_cuda, reads)
                modes.enter_context(self.observer)
            while True:
                try:
                    request, descriptors = self.channel.receive()
                except PeerClosed:
                    return
                try:
                    kind = request["type"]
                    if kind == "load":
                        reply = self.load(request)
                    elif kind == "construct":
                        reply = self.construct(request, descriptors)
                    elif kind == "run":
                        reply = self.run(request, descriptors)
                    elif kind == "compile":
                        reply = self.compile(request)
                    else:
                        raise ProtocolError(f"unknown request {kind!r}")
                except Failure as failure:
                    reply = failure.record
                for descriptor in descriptors:
                    os.close(descriptor)
                self.channel.send(reply)


def hide_worker_modules() -> None:
    """Takes our modules out of `sys.modules`: importing one by name then gives an answer a copy that nothing here uses."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(here + os.sep) and name != "light_dynamo":
            del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")


def digest_of(tensor: torch.Tensor) -> bytes:
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    return hashlib.blake2b((ctypes.c_char * size).from_address(storage.data_ptr()) if size else b"", digest_size=16).digest()


def map_outputs(outputs: Any) -> Any:
    """Outputs as plain contiguous tensors; any other class is refused by `encode_value`."""
    if type(outputs) in (torch.Tensor, torch.nn.Parameter):
        return outputs.detach().contiguous()
    if isinstance(outputs, list):
        return [map_outputs(item) for item in outputs]
    if isinstance(outputs, tuple):
        return tuple(map_outputs(item) for item in outputs)
    if isinstance(outputs, dict):
        return {key: map_outputs(item) for key, item in outputs.items()}
    return outputs


def decode_plain(spec: Record) -> Any:
    return decode_value(spec, None)  # type: ignore[arg-type]  # No tensor is left below here.


def empty_value(spec: Record) -> Any:
    if spec["k"] == "tensor":
        dtype = getattr(torch, spec["dtype"])
        return torch.empty_strided(tuple(spec["shape"]), tuple(spec["stride"]), dtype=dtype).zero_()
    if spec["k"] in ("list", "tuple"):
        items = [empty_value(item) for item in spec["v"]]
        return items if spec["k"] == "list" else tuple(items)
    return decode_plain(spec)
