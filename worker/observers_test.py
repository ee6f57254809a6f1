"""The torch knock-out and the storage ledger: what each kind of violation looks like, and honest glue that is none.

Answers run as in service: through a session that is asked record by record."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import unittest
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import interpreter_mends
import run_candidate
import torch
import virtual_cuda
from protocol import Channel, Record, TensorReader, TensorWriter, decode_value, encode_value

virtual_cuda.install(virtual_cuda.Target(90))  # As the fork server does before a job.
FOLDER = tempfile.mkdtemp(prefix="autotriton-test-")

HEADER = """import torch
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)

@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

@triton.jit
def flip_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + n - 1 - offs, mask=offs < n), mask=offs < n)

@triton.jit
def dot_kernel(x_ptr, w_ptr, y_ptr, UNIT: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    w = tl.where(r == c, 1.0, 0.0) if UNIT else tl.load(w_ptr + r * N + c)
    tl.store(y_ptr + r * N + c, tl.dot(tl.load(x_ptr + r * N + c), w, input_precision="ieee"))

def copied(x, y):
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y

def double(x, y):
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y

"""


def setUpModule() -> None:
    torch.set_num_threads(1)
    interpreter_mends.install()


def tearDownModule() -> None:
    shutil.rmtree(FOLDER)


class Answer:
    """An answer in a session of its own thread (torch's modes belong to a thread)."""

    def __init__(self, body: str) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        self.ours, self.theirs = ours, theirs
        self.thread = threading.Thread(target=lambda: run_candidate.Session(Channel(theirs), "interpret", 90, FOLDER).serve())
        self.thread.start()
        self.loaded = self.ask({"type": "load", "source": HEADER + body, "entry": "answer", "kind": "function"})

    def ask(self, record: Record, descriptors: list[int] | None = None) -> Record:
        self.channel.send(record, descriptors)
        while (reply := self.channel.receive()[0])["type"] == "progress":
            pass
        return reply

    def run(self, *arguments: Any, **how: Any) -> tuple[Record, Any]:
        """The session's report and the outputs that it wrote."""
        given, outputs = os.memfd_create("inputs"), os.memfd_create("outputs")
        try:
            writer = TensorWriter()
            specs = [encode_value(argument, writer) for argument in arguments]
            writer.fill(given)
            os.ftruncate(outputs, 1 << 22)
            record = self.ask({"type": "run", "arguments": specs, "config": 0, "seed": "1", "capacity": 1 << 22, **how}, [given, outputs])
            if record["type"] != "ran":
                return record, None
            reader = TensorReader(outputs)
            value = decode_value(record["outputs"], reader)
            reader.close()
            return record, value
        finally:
            os.close(given)
            os.close(outputs)

    def close(self) -> None:
        self.ours.close()
        self.thread.join(10)
        self.theirs.close()


class ObserverTest(unittest.TestCase):
    def observed(self, body: str, *arguments: Any, runs: int = 1) -> tuple[Record, Any]:
        answer = Answer(body)
        self.addCleanup(answer.close)
        self.assertEqual(answer.loaded["type"], "loaded", answer.loaded)
        record: Record = {}
        value: Any = None
        for _ in range(runs):
            record, value = answer.run(*arguments)
        self.assertEqual(record["type"], "ran", record)
        return record, value

    def assert_honest(self, body: str, *arguments: Any, runs: int = 1) -> Any:
        record, value = self.observed(body, *arguments, runs=runs)
        self.assertEqual(record["violations"], [], body)
        self.assertEqual(record["torch_ops"], [])
        self.assertTrue(record["launches"])
        return value

    def assert_violation(self, reason: str, body: str, *arguments: Any, runs: int = 1) -> Record:
        record, _ = self.observed(body, *arguments, runs=runs)
        self.assertIn(reason, [violation["reason"] for violation in record["violations"]], f"{body}\n{record['violations']}")
        return record


X = torch.arange(200.0) - 100.0


class HonestGlueTest(ObserverTest):
    def test_a_launch_into_fresh_memory(self) -> None:
        for make in ("torch.empty_like(x)", "torch.zeros_like(x)", "x.new_empty(x.shape)", "torch.full((200,), 3.0, device=x.device)", "torch.empty(200, device='cuda')"):
            with self.subTest(make):
                value = self.assert_honest(f"def answer(x):\n    return double(x, {make})\n", X)
                self.assertTrue(torch.equal(value, 2 * X))

    def test_views_copies_casts_and_moves(self) -> None:
        bodies = [
            "def answer(x):\n    return double(x.view(10, 20).t().contiguous(), torch.empty(20, 10, device=x.device)).t().reshape(-1)\n",
            "def answer(x):\n    return double(x.half().float(), torch.empty_like(x))\n",
            "def answer(x):\n    y = torch.cat([x, x])\n    return double(y, torch.empty_like(y))[:200].clone()\n",
            "def answer(x):\n    y = F.pad(x, (0, 6))\n    return double(y, torch.empty_like(y))[:200]\n",
            "def answer(x):\n    y = torch.empty_like(x)\n    y.copy_(x)\n    z = torch.empty_like(x)\n    return double(y, z).to(torch.float64).to(torch.float32)\n",
            "def answer(x):\n    parts = [double(p.contiguous(), torch.empty(100, device=x.device)) for p in x.chunk(2)]\n    return torch.cat(parts)\n",
            "def answer(x):\n    n = int(torch.tensor(x.numel()).item())\n    return double(x, torch.empty(n, device=x.device))\n",
        ]
        for body in bodies:
            with self.subTest(body):
                value = self.assert_honest(body, X)
                self.assertEqual(tuple(value.shape), (200,))

    def test_a_final_sum_over_partial_results(self) -> None:
        body = "def answer(x):\n    parts = torch.empty(triton.cdiv(x.numel(), 64), device=x.device)\n    sum_kernel[(parts.numel(),)](x, parts, x.numel(), BLOCK=64)\n    return parts.sum()\n"
        self.assertEqual(float(self.assert_honest(body, X)), float(X.sum()))

    def test_work_in_place_and_a_chain_of_launches(self) -> None:
        self.assertTrue(torch.equal(self.assert_honest("def answer(x):\n    y = double(x, torch.empty_like(x))\n    return double(y, torch.empty_like(y))\n", X), 4 * X))
        self.assert_honest("def answer(x):\n    y = double(x, torch.empty_like(x))\n    return double(y, y)\n", X)

    def test_work_done_at_import_is_not_judged(self) -> None:
        self.assert_honest("TABLE = torch.arange(200.0) * 2 + 1\n\ndef answer(x):\n    return double(x, torch.empty_like(x))\n", X)

    def test_a_buffer_that_is_kept_between_calls(self) -> None:
        self.assert_honest("kept = {}\n\ndef answer(x):\n    if 'y' not in kept:\n        kept['y'] = torch.empty_like(x)\n    return double(x, kept['y'])\n", X, runs=3)


class DeviceTest(ObserverTest):
    def test_memory_that_would_be_on_the_cpu_is_named(self) -> None:
        for make in ("torch.empty(200)", "torch.zeros_like(x).cpu()", "torch.full((200,), 1.0, device='cpu')"):
            with self.subTest(make):
                record, _ = self.observed(f"def answer(x):\n    return double(x, {make})\n", X)
                self.assertIn("wrong-device", [violation["reason"] for violation in record["violations"]])

    def test_memory_that_is_moved_to_the_gpu_is_fine(self) -> None:
        self.assert_honest("def answer(x):\n    return double(x, torch.empty(200).cuda())\n", X)
        self.assert_honest("def answer(x):\n    return double(x, torch.empty(200).to(x.device))\n", X)


class TorchKnockOutTest(ObserverTest):
    def test_every_way_to_compute_in_torch_is_seen(self) -> None:
        computations = {
            "torch.relu(y)": "relu", "y + 1": "add", "y * y": "mul", "-y": "neg", "y.exp()": "exp", "y > 0": "gt", "F.gelu(y)": "gelu", "torch.where(y > 0, y, x)": "where",
            "y.view(10, 20) @ y.view(20, 10)": "mm", "torch.einsum('i,i->i', x, x)": "mul", "y.cumsum(0)": "cumsum", "torch.sort(y).values": "sort", "y.clamp(min=0)": "clamp",
            "torch.softmax(y, 0)": "softmax", "x.sum()": "sum", "x.mean()": "mean", "torch.maximum(x, y)": "maximum",
        }
        for text, name in computations.items():
            with self.subTest(text):
                record = self.assert_violation("torch-knockout", f"def answer(x):\n    y = double(x, torch.empty_like(x))\n    return {text}\n", X)
                self.assertTrue(any(name in op for op in record["torch_ops"]), record["torch_ops"])

    def test_in_place_and_out_forms_are_seen(self) -> None:
        for text in ("y.add_(1)", "y.mul_(x)", "torch.add(x, x, out=y)", "y.masked_fill_(y < 0, 0)"):
            with self.subTest(text):
                self.assert_violation("torch-knockout", f"def answer(x):\n    y = double(x, torch.empty_like(x))\n    {text}\n    return y\n", X)

    def test_computing_inside_a_grid_function_or_a_hook_is_seen(self) -> None:
        self.assert_violation("torch-knockout", "def answer(x):\n    y = torch.empty_like(x)\n    double_kernel[lambda meta: (int(x.abs().max().item() > -1) * 4,)](x, y, 200, BLOCK=64)\n    return y\n", X)

    def test_a_sum_that_kernels_did_not_prepare_is_no_final_touch(self) -> None:
        self.assert_violation("torch-knockout", "def answer(x):\n    return double(x, torch.empty_like(x)).sum()\n", X)

    def test_a_product_with_a_unit_matrix_prepares_no_sum(self) -> None:
        body = "def answer(x, w):\n    y = torch.empty_like(x)\n    dot_kernel[(1,)](x, w, y, UNIT=%s, N=16)\n    return y.sum(dim=0)\n"
        x, w = torch.rand(16, 16), torch.rand(16, 16)
        self.assert_violation("torch-knockout", body % True, x, w)
        self.assert_violation("torch-knockout", body % False, x, torch.eye(16)[torch.randperm(16)] * 2)
        self.assert_violation("torch-knockout", body % False, torch.eye(16), w)
        self.assert_honest(body % False, x, w)

    def test_computing_in_python_is_seen(self) -> None:
        self.assert_violation("torch-knockout", "def answer(x):\n    y = double(x, torch.empty_like(x))\n    return torch.tensor([v * 3 for v in y.tolist()])\n", X)
        self.assert_violation("torch-knockout", "def answer(x):\n    y = double(x, torch.empty_like(x))\n    total = 0.0\n    for i in range(200):\n        total += y[i].item()\n    return y\n", X)

    def test_a_condition_that_only_raises_is_a_check(self) -> None:
        checks = ["assert (x > -1e9).all()", "if (x != x).any():\n        raise ValueError('x has no number')",
                  "assert not torch.any(x != x), f'{x.shape}'", "if not (x > -1e9).all().item():\n        raise ValueError(x)", "if bool((x == 1e9).any()):\n        raise ValueError('too large')",
                  "assert x.dim() == 1 and (x < 1e9).all(), 'too large'", "torch._assert((x < 1e9).all(), 'too large')"]
        for check in checks:
            with self.subTest(check):
                self.assert_honest(f"def answer(x):\n    {check}\n    return double(x, torch.empty_like(x))\n", X)

    def test_a_condition_that_decides_anything_else_computes(self) -> None:
        for check in (
            "y = x if (x > 0).all() else y", "flag = bool((x > 0).all())", "if (x > -1e9).all():\n        double(x, y)",
            "try:\n        assert (x > 1e9).all()\n    except AssertionError:\n        double(x, y)", "y.copy_(x > 0)", "copied(x > 0, y)",
            "assert (x > 0).tolist()", "while (x > 1e9).any():\n        double(x, y)", "assert (x.abs() >= 0).all()", "y = torch.empty(int((x >= 1e9).any().item()) + 200, device=x.device)",
        ):
            with self.subTest(check):
                record = self.assert_violation("torch-knockout", f"def answer(x):\n    y = torch.empty_like(x)\n    {check}\n    return double(x, y)\n", X)
                self.assertTrue(record["torch_ops"] or "raised" in record["violations"][0]["message"])

    def test_memory_handed_to_numpy_is_seen(self) -> None:
        self.assert_violation("torch-knockout", "def answer(x):\n    y = double(x, torch.empty_like(x))\n    a = y.numpy()\n    a += 1\n    return y\n", X)

    def test_it_cannot_be_hidden_by_catching(self) -> None:
        self.assert_violation("torch-knockout", "def answer(x):\n    y = double(x, torch.empty_like(x))\n    try:\n        y = torch.relu(y)\n    except BaseException:\n        pass\n    return y\n", X)


class StorageLedgerTest(ObserverTest):
    def test_values_made_from_python_numbers_have_no_origin(self) -> None:
        self.assert_violation("storage-origin", "def answer(x):\n    double(x, torch.empty_like(x))\n    return torch.tensor([float(i) for i in range(200)])\n", X)

    def test_a_buffer_from_outside_torch_has_no_origin(self) -> None:
        record, _ = self.observed(
            "import ctypes\nroom = (ctypes.c_float * 200)()\n\ndef answer(x):\n    double(x, torch.empty_like(x))\n    return torch.frombuffer(room, dtype=torch.float32)\n", X
        )
        self.assertTrue({violation["reason"] for violation in record["violations"]} & {"storage-origin", "torch-knockout"}, record["violations"])

    def test_a_change_behind_torchs_back_is_seen(self) -> None:
        self.assert_violation(
            "storage-changed",
            "import ctypes\n\ndef answer(x):\n    y = double(x, torch.empty_like(x))\n    (ctypes.c_float * 200).from_address(y.data_ptr())[5] = 7.0\n    return y\n", X,
        )

    def test_a_change_of_an_input_behind_torchs_back_is_seen(self) -> None:
        self.assert_violation(
            "storage-changed",
            "import ctypes\n\ndef answer(x):\n    (ctypes.c_float * 200).from_address(x.data_ptr())[5] = 7.0\n    return double(x, torch.empty_like(x))\n", X,
        )

    def test_each_violation_tells_the_launch_or_the_value(self) -> None:
        record = self.assert_violation("storage-changed", "import ctypes\n\ndef answer(x):\n    y = torch.empty_like(x)\n    (ctypes.c_float * 200).from_address(x.data_ptr())[5] = 7.0\n    return double(x, y)\n", X)
        self.assertIn("double_kernel", record["violations"][0]["message"])


class ReportTest(ObserverTest):
    def test_launches_are_counted_with_their_grid(self) -> None:
        record, _ = self.observed("def answer(x):\n    y = double(x, torch.empty_like(x))\n    return double(y, torch.empty_like(x))\n", X)
        self.assertEqual([(launch["kernel"], launch["count"], launch["grid"]) for launch in record["launches"]], [("double_kernel", 2, [4, 1, 1])])

    def test_no_launch_is_no_entry(self) -> None:
        record, _ = self.observed("def answer(x):\n    return x.clone()\n", X)
        self.assertEqual(record["launches"], [])

    def test_aliases_and_changed_inputs_are_told(self) -> None:
        record, _ = self.observed("def answer(a, b):\n    double(a, a)\n    return b[3:]\n", X, X)
        self.assertEqual(record["aliases"], [1])
        self.assertIsNotNone(record["inputs_after"])
        record, _ = self.observed("def answer(a, b):\n    return double(a, torch.empty_like(a))\n", X, X)
        self.assertEqual(record["aliases"], [])
        self.assertIsNone(record["inputs_after"])

    def test_an_exception_names_the_answers_line(self) -> None:
        answer = Answer("def helper(x):\n    return x.view(7, 7)\n\ndef answer(x):\n    return helper(x)\n")
        self.addCleanup(answer.close)
        record, _ = answer.run(X)
        line = HEADER.count("\n") + 2
        self.assertEqual((record["type"], record["phase"], record["line"], record["exception"]), ("failed", "run", line, "RuntimeError"))
        record, _ = answer.run(X)
        self.assertEqual(record["type"], "failed", "a failure leaves the session alive")

    def test_a_missing_entry_and_a_failing_import_are_failures_of_the_load(self) -> None:
        for body, exception in (("x = 1\n", "NameError"), ("raise ValueError('no')\n", "ValueError"), ("import no_such_module\n", "ModuleNotFoundError"), ("raise SystemExit(0)\n", "SystemExit")):
            answer = Answer(body)
            self.addCleanup(answer.close)
            self.assertEqual((answer.loaded["type"], answer.loaded["phase"], answer.loaded["exception"]), ("failed", "load", exception))

    def test_outputs_of_a_class_of_their_own_are_refused(self) -> None:
        answer = Answer("class Own(torch.Tensor):\n    pass\n\ndef answer(x):\n    return double(x, torch.empty_like(x)).as_subclass(Own)\n")
        self.addCleanup(answer.close)
        record, _ = answer.run(X)
        self.assertEqual((record["type"], record["kind"]), ("failed", "unsupported"))


if __name__ == "__main__":
    unittest.main()
