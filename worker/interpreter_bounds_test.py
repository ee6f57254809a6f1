"""Whether an access outside of every tensor is named as one, wherever it lands."""

from __future__ import annotations

import os
import unittest
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import interpreter_memory
import interpreter_mends
import numpy as np
import torch
import triton
import triton.language as tl

OutOfBounds, Bounds = interpreter_memory.OutOfBounds, interpreter_memory.Bounds


@triton.jit  # type: ignore[untyped-decorator]
def copy_at(x: Any, y: Any, offset: Any, SIZE: tl.constexpr) -> None:
    lanes = tl.arange(0, SIZE)
    tl.store(y + lanes, tl.load(x + offset + lanes))


@triton.jit  # type: ignore[untyped-decorator]
def store_at(x: Any, y: Any, offset: Any, SIZE: tl.constexpr) -> None:
    lanes = tl.arange(0, SIZE)
    tl.store(y + offset + lanes, tl.load(x + lanes))


@triton.jit  # type: ignore[untyped-decorator]
def add_at(x: Any, y: Any, offset: Any, SIZE: tl.constexpr) -> None:
    lanes = tl.arange(0, SIZE)
    tl.atomic_add(y + offset + lanes, tl.load(x + lanes))


@triton.jit  # type: ignore[untyped-decorator]
def copy_block_at(x: Any, y: Any, offset: Any, SIZE: tl.constexpr) -> None:
    block = tl.make_block_ptr(x, (SIZE,), (1,), (offset,), (SIZE,), (0,))
    tl.store(y + tl.arange(0, SIZE), tl.load(block))


class BoundsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        interpreter_mends.install()

    def launch(self, kernel: Any, x: torch.Tensor, y: torch.Tensor, offset: int) -> None:
        Bounds.spans = [(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in (x.untyped_storage(), y.untyped_storage())]
        self.addCleanup(setattr, Bounds, "spans", [])
        interpreter_mends.GridRun(kernel.rewrite(), kernel.fn, kernel.arg_names, (1,), []).prepare(x, y, offset, SIZE=16)()

    def test_both_ends_and_far_away_are_outside_for_each_kind_of_access(self) -> None:
        for kernel in (copy_at, store_at, add_at, copy_block_at):
            x, y = torch.zeros(16), torch.zeros(16)
            self.launch(kernel, x, y, 0)
            for offset in (-1, 1, -16, 1 << 20, -(1 << 28), 1 << 28):
                with self.subTest(kernel=kernel.fn.__name__, offset=offset), self.assertRaises(OutOfBounds):
                    self.launch(kernel, x, y, offset)

    def test_a_view_reaches_to_the_ends_of_its_storage_and_no_further(self) -> None:
        storage = torch.arange(64, dtype=torch.float32)
        y = torch.zeros(16)
        for offset in (-8, 0, 40):
            self.launch(copy_at, storage[8:24], y, offset)
            self.assertEqual(y.tolist(), [float(8 + offset + lane) for lane in range(16)])
        for offset in (-9, 41):
            with self.subTest(offset=offset), self.assertRaises(OutOfBounds):
                self.launch(copy_at, storage[8:24], y, offset)

    def test_an_address_that_wraps_round_is_outside(self) -> None:
        x = torch.zeros(16)
        Bounds.spans = [(x.data_ptr(), x.data_ptr() + 64)]
        self.addCleanup(setattr, Bounds, "spans", [])
        for address in ((1 << 64) - 4, (1 << 64) - 1, 0, 1):
            with self.subTest(address=address), self.assertRaises(OutOfBounds):
                Bounds.admit(np.array([x.data_ptr(), address], dtype=np.uint64), None, 4, "load")


if __name__ == "__main__":
    unittest.main()
