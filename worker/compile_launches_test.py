"""Compiling launches without a GPU, against the tools that Triton bundles: ptxas and cuobjdump say what a kernel needs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

FOLDER = tempfile.mkdtemp(prefix="autotriton-test-")
os.environ["TRITON_CACHE_DIR"] = FOLDER
os.environ.pop("TRITON_INTERPRET", None)

import compile_launches  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
import virtual_cuda  # noqa: E402
from compile_launches import Compiled, Compiler, resource_usage  # noqa: E402

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
COMPILER = Compiler(90)
CUBINS: list[Any] = []


def setUpModule() -> None:
    torch.set_num_threads(1)
    virtual_cuda.install(virtual_cuda.Target(90))
    COMPILER.install()
    own = compile_launches.resource_usage

    def recorded(cubin: bytes) -> tuple[int, int]:
        CUBINS.append(cubin)
        return own(cubin)

    compile_launches.resource_usage = recorded


def tearDownModule() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)


def told_by_cuobjdump(cubin: bytes) -> tuple[int, int]:
    """(registers, stack bytes) of the kernel, as NVIDIA's own tool reads them."""
    path = Path(FOLDER) / "kernel.cubin"
    path.write_bytes(cubin)
    text = subprocess.run([TOOLS / "cuobjdump", "--dump-resource-usage", path], capture_output=True, text=True, check=True).stdout
    registers = [int(value) for value in re.findall(r"REG:(\d+)", text)]
    stack = [int(value) for value in re.findall(r"STACK:(\d+)", text)]
    return max(registers), max(stack)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, DEEP: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, BLOCK)
    inner = tl.arange(0, DEEP)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, DEEP):
        a = tl.load(a_ptr + rows[:, None] * K + start + inner[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * BLOCK + rows[None, :])
        acc += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.jit
def torch_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, torch.relu(x))


@triton.autotune(
    configs=[triton.Config({"BLOCK": 32, "DEEP": 32}, num_stages=2), triton.Config({"BLOCK": 256, "DEEP": 128}, num_stages=4)], key=["K"]
)
@triton.jit
def tuned_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, DEEP: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, BLOCK)
    inner = tl.arange(0, DEEP)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, DEEP):
        a = tl.load(a_ptr + rows[:, None] * K + start + inner[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * BLOCK + rows[None, :])
        acc += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.autotune(configs=[triton.Config({"BLOCK": 256, "DEEP": 128}, num_stages=4), triton.Config({"BLOCK": 256, "DEEP": 128}, num_stages=5)], key=["K"])
@triton.jit
def hopeless_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, DEEP: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, BLOCK)
    inner = tl.arange(0, DEEP)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, DEEP):
        a = tl.load(a_ptr + rows[:, None] * K + start + inner[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * BLOCK + rows[None, :])
        acc += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


class CompileTest(unittest.TestCase):
    def setUp(self) -> None:
        COMPILER.results.clear()
        COMPILER.launched.clear()
        CUBINS.clear()

    def only_result(self) -> Compiled:
        self.assertEqual(len(COMPILER.results), 1)
        return COMPILER.results[0]

    def meta(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    def test_registers_and_stack_are_what_cuobjdump_says(self) -> None:
        x = self.meta(1000)
        add_kernel[(4,)](x, x, x, 1000, BLOCK=256)
        add_kernel[(1,)](x, x, x, 1000, BLOCK=8192, num_warps=1)
        a = self.meta(64, 64, dtype=torch.float16)
        dot_kernel[(1,)](a, a, self.meta(64, 64), 64, BLOCK=64, DEEP=32)
        self.assertEqual(len(CUBINS), 3)
        spilled = 0
        for cubin, result in zip(CUBINS, COMPILER.results):
            registers, stack = told_by_cuobjdump(cubin)
            self.assertEqual((result.registers, result.local_bytes), (registers, stack))
            self.assertEqual(resource_usage(cubin), (registers, stack))
            self.assertGreater(registers, 4)
            spilled += stack
        self.assertGreater(spilled, 0, "one of them is meant to spill, or nothing is tested")

    def test_a_launch_that_compiles_has_no_problem(self) -> None:
        x = self.meta(1000)
        add_kernel[(4,)](x, x, x, 1000, BLOCK=256)
        result = self.only_result()
        self.assertEqual((result.kernel, result.problem, result.message, result.warps), ("add_kernel", "", "", 4))
        self.assertEqual(COMPILER.launched, ["add_kernel"])

    def test_shared_memory_over_the_targets_is_a_limit(self) -> None:
        a = self.meta(256, 256, dtype=torch.float32)
        with self.subTest("within"):
            dot_kernel[(1,)](a, a, a, 256, BLOCK=64, DEEP=32)
            self.assertEqual(COMPILER.results[-1].problem, "")
            self.assertGreater(COMPILER.results[-1].shared_bytes, 0)
        with contextlib.suppress(Exception):  # Triton itself may refuse; what counts is the record.
            dot_kernel[(1,)](a, a, a, 256, BLOCK=256, DEEP=128, num_stages=4)
        result = COMPILER.results[-1]
        self.assertEqual(result.problem, "target-limits", result.message)
        self.assertIn("232448", result.message)

    def test_more_threads_than_a_block_has_is_a_limit(self) -> None:
        x = self.meta(1000)
        add_kernel[(4,)](x, x, x, 1000, BLOCK=4096, num_warps=64)
        self.assertEqual(self.only_result().problem, "target-limits")

    def test_a_grid_over_the_gpus_is_a_limit(self) -> None:
        x = self.meta(1000)
        add_kernel[(4, 65536)](x, x, x, 1000, BLOCK=256)
        self.assertEqual(COMPILER.results[-1].problem, "target-limits")
        add_kernel[(4, 65535)](x, x, x, 1000, BLOCK=256)
        self.assertEqual(COMPILER.results[-1].problem, "")
        add_kernel[lambda meta: (meta["BLOCK"], 1, 70000)](x, x, x, 1000, BLOCK=256)
        self.assertEqual(COMPILER.results[-1].problem, "target-limits")
        self.assertIn("70000", COMPILER.results[-1].message)

    def test_torch_in_a_kernels_body_does_not_compile(self) -> None:
        x = self.meta(64)
        with self.assertRaises(Exception):  # noqa: B017 - whatever the compiler raises
            torch_kernel[(1,)](x, x, BLOCK=64)
        result = self.only_result()
        self.assertEqual(result.problem, "compile-failed")
        self.assertTrue(result.message)

    def test_configurations_over_the_limits_are_pruned_unless_all_are(self) -> None:
        a = self.meta(512, 512, dtype=torch.float32)
        tuned_kernel[(1,)](a, a, a, 512)
        self.assertEqual([bool(result.problem) for result in COMPILER.results], [False, False])
        self.assertEqual([result.message.startswith("pruned: ") for result in COMPILER.results], [False, True])
        COMPILER.results.clear()
        with contextlib.suppress(Exception):
            hopeless_kernel[(1,)](a, a, a, 512)
        self.assertEqual({result.problem for result in COMPILER.results}, {"target-limits"})

    def test_each_dtype_is_a_specialisation_of_its_own(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.float64):
            x = self.meta(1000, dtype=dtype)
            add_kernel[(4,)](x, x, x, 1000, BLOCK=256)
        self.assertEqual([result.problem for result in COMPILER.results], [""] * 5)

    def test_the_machine_code_is_the_targets(self) -> None:
        x = self.meta(1000)
        add_kernel[(4,)](x, x, x, 1000, BLOCK=256)
        path = Path(FOLDER) / "kernel.cubin"
        path.write_bytes(CUBINS[0])
        text = subprocess.run([TOOLS / "cuobjdump", "--dump-sass", path], capture_output=True, text=True, check=True).stdout
        self.assertIn("sm_90", text[:500])


if __name__ == "__main__":
    unittest.main()
