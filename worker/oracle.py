"""The oracle: holds the reference, the secret seeds and the expected values of one task, and compares answers with them.

It runs in a process of its own, forked from the fork server, and never sees a candidate's code: a candidate's outputs
reach it as bytes with a description, are copied, and only then compared. It reports statistics; the front decides.

By hand:  python3 worker/oracle.py problem.py     prints what the front would be told when it opens the task
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import compare
import input_variants
import torch
from protocol import (
    DTYPE_NAMES,
    Channel,
    PeerClosed,
    ProtocolError,
    Record,
    TensorReader,
    TensorWriter,
    Unsupported,
    decode_value,
    encode_value,
)
from reference_task import (
    ReferenceTask,
    TooSlow,
    Unusable,
    halved,
    init_arguments,
    jittered,
    load_module,
    tensors_in,
    time_limit,
)
from stand_ins import Trial, aliases, equal, same_tensor, stand_in
from weights import randomise_initialisers, state_of

TRACEBACK_LINES = 8


def traceback_tail(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    own = os.path.dirname(os.path.abspath(__file__))
    kept: list[str] = []
    skip_source = False
    for line in lines:
        if line.startswith('  File "'):
            skip_source = own in line
        elif skip_source and line.startswith("    "):
            continue
        else:
            skip_source = False
        if not skip_source:
            kept.append(line)
    return "\n".join(kept[-TRACEBACK_LINES:])


class _Shapes(TensorWriter):
    """Describes tensors and keeps no bytes of them."""

    def add(self, tensor: torch.Tensor) -> Record:
        if tensor.dtype not in DTYPE_NAMES or tensor.layout is not torch.strided:
            raise Unsupported(f"a tensor of dtype {tensor.dtype}")
        return {
            "k": "tensor",
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "offset": 0,
            "bytes": 0,
        }


class Oracle:
    def __init__(self) -> None:
        self.task: ReferenceTask | None = None
        self.trials: dict[int, Trial] = {}
        self.steady: set[str] = set()  # Variants whose reference gave the same values twice.

    # -- requests ------------------------------------------------------------------------------------------------------

    def open(self, request: Record) -> Record:
        task = ReferenceTask(request["source"], request["kind"], request["entry"], float(request["run_seconds"]))
        self.task = task
        self.trials.clear()
        self.steady.clear()
        try:
            with time_limit(task.run_seconds):
                module = load_module(task.source, "reference")
        except (Exception, SystemExit) as error:
            raise Unusable("reference-failed", f"the problem does not load: {error}", traceback_tail(error)) from error
        for name in [task.entry, "get_inputs"]:
            if not callable(getattr(module, name, None)):
                raise Unusable("problem-invalid", f"the problem defines no `{name}`")
        try:
            task.plan(int(request["max_elements"]), request["shapes"])
        except SyntaxError as error:
            raise Unusable("reference-failed", f"the problem does not parse: {error}", traceback_tail(error)) from error
        return {
            "type": "opened",
            "variants": [
                {
                    "name": v.name,
                    "elements": v.elements,
                    "cap": v.cap,
                    "sizes": [[old, new] for old, new in sorted(v.sizes.items())],
                }
                for v in task.variants.values()
            ],
        }

    def init(self, request: Record, memory: int) -> Record:
        task, variant = self._task(), request["variant"]
        redrawn = set(
            self._guarded(lambda: task.build(variant, int(request["seed"]), int(request["weight_seed"])), "the model's constructor")
        )
        writer = TensorWriter()
        arguments = [encode_value(value, writer) for value in init_arguments(task.module(variant))] if task.kind == "module" else []
        model = task.model(variant)
        weights = [
            {"name": name, "tensor": writer.add(tensor), "constant": name in redrawn}
            for name, tensor in (state_of(model) if model is not None else [])
        ]
        record = {"type": "init", "arguments": arguments, "weights": weights, "seed": request["seed"], "evaluation": task.evaluation_mode}
        writer.fill(memory)
        return record

    def trial(self, request: Record, memory: int) -> Record:
        task, variant, kind, seed = self._task(), request["variant"], request["inputs"], int(request["seed"])
        plain = self._guarded(lambda: task.inputs(variant, seed), "get_inputs")
        run_seed = int(request["run_seed"])  # The answer is told this one, since both may draw random numbers; never `seed`.
        trial = self._run(variant, plain, seed, run_seed)
        used = "plain"
        if kind != "plain":
            try:
                with torch.no_grad():
                    changed = input_variants.apply(kind, plain)
                varied = self._run(variant, changed, seed, run_seed)
            except Unusable:
                varied = None
            if varied is not None and self._as_finite(varied, trial) and not self._same_inputs(plain, changed):
                trial, used = varied, kind
        self.trials[int(request["index"])] = trial
        writer = TensorWriter()
        record = {
            "type": "trial",
            "arguments": [encode_value(value, writer) for value in trial.inputs],
            "inputs": used,
            "shapes": [[list(t.shape), str(t.dtype).removeprefix("torch.")] for t in tensors_in(trial.inputs)],
            "leaves": [compare.leaf_statistics(leaf) for leaf in trial.leaves()],
            "exact": trial.exact is not trial.native,
            "aliases": trial.aliases,
        }
        writer.fill(memory)
        return record

    def shapes(self, request: Record) -> Record:
        """The arguments at a variant's sizes, described without making them; `known` is false where that does not work."""
        task, variant = self._task(), request["variant"]
        writer = _Shapes()
        try:
            with time_limit(task.run_seconds), torch.device("meta"), torch.no_grad():
                chosen = task.variants.get(variant)
                module = load_module(chosen.source if chosen is not None else task.source, "reference")
                inputs = [encode_value(value, writer) for value in module.get_inputs()]
                arguments = [encode_value(value, writer) for value in init_arguments(module)] if task.kind == "module" else []
        except Exception:  # noqa: BLE001 - inputs that depend on values cannot be made without them
            return {"type": "shapes", "known": False, "arguments": [], "inputs": []}
        return {"type": "shapes", "known": True, "arguments": arguments, "inputs": inputs}

    def compare(self, request: Record, descriptors: list[int]) -> Record:
        """Compares a candidate's outputs (a memory file), or what a stand-in would return, with a trial's expectation."""
        trial = self.trials[int(request["index"])]
        subject = request["subject"]
        inputs_after: list[Any] | None = None
        if subject == "candidate":
            reader = TensorReader(descriptors[0])
            try:
                actual = decode_value(request["outputs"], reader)
                if request.get("inputs_after") is not None:
                    inputs_after = decode_value(request["inputs_after"], reader)
            except (ProtocolError, ValueError, AttributeError, KeyError, TypeError, OverflowError, RuntimeError) as error:
                return {"type": "malformed", "message": f"the outputs are not as described: {error}"[:300]}
            finally:
                reader.close()
        else:
            actual = stand_in(subject, trial, self._task(), self._guarded)
            if actual is None:
                return {"type": "compared", "applies": False, "structure": "", "leaves": [], "inputs": ""}
        leaves = trial.leaves()
        result: Record = {"type": "compared", "applies": True, "structure": compare.same_structure(trial.native, actual), "leaves": [], "inputs": ""}
        if result["structure"]:
            return result
        actual_leaves = [leaf.native for leaf in compare.leaves(compare.in_order_of(trial.native, actual))]
        tensors = [t for t in tensors_in(trial.inputs)]
        for leaf, value, bounds in zip(leaves, actual_leaves, request["tolerances"], strict=True):
            result["leaves"].append(compare.compare_leaf(leaf, value, float(bounds[0]), float(bounds[1]), tensors))
        if subject == "candidate":
            after = trial.inputs if inputs_after is None else inputs_after
            result["inputs"] = self._mutation(trial, after)
        return result

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _task(self) -> ReferenceTask:
        if self.task is None:
            raise ProtocolError("no task is open")
        return self.task

    def _guarded(self, call: Any, what: str) -> Any:
        """Runs the reference's code under the time limit; its failure makes the task unusable."""
        try:
            with time_limit(self._task().run_seconds):
                result = call()
        except Unusable:
            raise
        except TooSlow as error:
            raise Unusable("task-too-large", f"{what} of the problem took {error}") from error
        except MemoryError as error:
            raise Unusable("task-too-large", f"{what} of the problem ran out of memory") from error
        except (Exception, SystemExit) as error:
            if isinstance(error, RuntimeError) and "alloc" in str(error):
                raise Unusable("task-too-large", f"{what} of the problem ran out of memory") from error
            raise Unusable("reference-failed", f"{what} of the problem raised {type(error).__name__}: {error}", traceback_tail(error)) from error
        return result

    def _run(self, variant: str, inputs: list[Any], input_seed: int, seed: int) -> Trial:
        task = self._task()
        native, after = self._guarded(lambda: task.run(variant, inputs, None, seed), "the reference")
        if variant not in self.steady and not equal(native, self._guarded(lambda: task.run(variant, inputs, None, seed + 1), "the reference")[0]):
            if task.kind == "module" and not task.evaluation_mode:
                task.evaluation_mode = True
                model = task.model(variant)
                if model is not None:
                    model.eval()
                return self._run(variant, inputs, input_seed, seed)
            raise Unusable("task-degenerate", "the reference gives other values each time it runs, so nothing can be compared")
        self.steady.add(variant)
        try:
            with time_limit(task.run_seconds):
                exact, _ = task.run(variant, inputs, torch.float64, seed)
                if compare.same_structure(native, exact):
                    exact = native
        except Exception:  # noqa: BLE001 - a reference that names dtypes may not run in float64; its own values stand in
            exact = native
        try:
            with time_limit(task.run_seconds):
                rounded = task.run_changed(variant, inputs, halved, seed)
                jitter = task.run_changed(variant, inputs, jittered, seed)
        except Exception:  # noqa: BLE001
            rounded = jitter = None
        return Trial(variant, inputs, after, native, exact, rounded, jitter, input_seed, seed, aliases(native, after))

    def _as_finite(self, varied: Trial, plain: Trial) -> bool:
        """A variant that drives the reference out of its domain (NaN, Inf) is not a fair input."""

        def nonfinite(value: Any) -> int:
            return sum(int((~torch.isfinite(t)).sum()) for t in tensors_in(value) if t.is_floating_point())

        return nonfinite(varied.native) <= nonfinite(plain.native)

    @staticmethod
    def _same_inputs(left: Any, right: Any) -> bool:
        return all(a.shape == b.shape and same_tensor(a, b) for a, b in zip(tensors_in(left), tensors_in(right)))

    def _mutation(self, trial: Trial, after: Any) -> str:
        for index, (want, got) in enumerate(zip(tensors_in(trial.inputs_after), tensors_in(after))):
            if want.shape != got.shape or want.dtype != got.dtype:
                return f"input {index} was given another shape or dtype"
            if want.is_floating_point():
                scale = float(want.double().square().mean().sqrt()) if want.numel() else 0.0
                if not torch.allclose(want.double(), got.double(), rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
                    return f"input {index} was changed in place, unlike by the reference"
            elif not torch.equal(want, got):
                return f"input {index} was changed in place, unlike by the reference"
        return ""


def serve(channel: Channel) -> None:
    """Answers requests until the front closes the channel."""
    randomise_initialisers()
    oracle = Oracle()
    while True:
        try:
            request, descriptors = channel.receive()
        except PeerClosed:
            return
        reply: Record
        try:
            with torch.no_grad():
                kind = request["type"]
                if kind == "open":
                    reply = oracle.open(request)
                elif kind == "init":
                    reply = oracle.init(request, descriptors[0])
                elif kind == "trial":
                    reply = oracle.trial(request, descriptors[0])
                elif kind == "shapes":
                    reply = oracle.shapes(request)
                elif kind == "compare":
                    reply = oracle.compare(request, descriptors)
                else:
                    raise ProtocolError(f"unknown request {kind!r}")
        except Unusable as error:
            reply = {"type": "unusable", "reason": error.reason, "message": error.message[:2000], "detail": error.detail[:4000]}
        except Unsupported as error:
            reply = {"type": "unusable", "reason": "task-unsupported", "message": f"the problem uses {error}", "detail": ""}
        except (RuntimeError, MemoryError) as error:
            if "alloc" not in str(error) and not isinstance(error, MemoryError):
                raise
            reply = {"type": "unusable", "reason": "task-too-large", "message": "out of memory while judging", "detail": str(error)[:500]}
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(_plain(reply))


def _plain(value: Any) -> Any:
    """JSON has no NaN and Inf: they travel as strings."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return repr(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        source = file.read()
    torch.set_num_threads(1)
    randomise_initialisers()
    oracle = Oracle()
    request = {"source": source, "kind": "module", "entry": "Model", "run_seconds": 30, "max_elements": 60000, "shapes": "both"}
    try:
        opened = oracle.open(request)
        print(json.dumps(opened))
        for variant in opened["variants"]:
            if variant["elements"] > 2_000_000:
                continue
            memory = os.memfd_create("oracle")
            oracle.init({"variant": variant["name"], "seed": 1, "weight_seed": 2}, memory)
            for index, kind in enumerate(["plain", *input_variants.VARIANTS]):
                record = oracle.trial({"variant": variant["name"], "inputs": kind, "seed": 3, "run_seed": 4, "index": index}, memory)
                print(json.dumps(_plain({key: record[key] for key in ("inputs", "shapes", "leaves")})))
    except Unusable as error:
        print(f"{error.reason}: {error.message}\n{error.detail}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
