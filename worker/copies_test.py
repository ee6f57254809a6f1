"""Kernels that only copy what glue made, casts and bytes that compute, and values read into Python.

Answers run as in service: through a session that is asked record by record."""

from __future__ import annotations

import os
import unittest
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import observers_test
import torch
from observers_test import X, setUpModule, tearDownModule  # noqa: F401 - unittest calls the module's set-up


class CopyTest(observers_test.ObserverTest):
    """Glue that does a whole task of moving or rounding values, and kernels that hand its result on."""

    def copied(self, body: str, *arguments: Any) -> str:
        record, _ = self.observed(body, *arguments)
        self.assertEqual(record["violations"], [], body)
        return str(record["copied"])

    def test_kernels_that_copy_what_glue_made_are_told(self) -> None:
        bodies = {
            "flip": "return copied(torch.flip(x, [0]), torch.empty_like(x))",
            "repeat": "y = x.repeat(2)\n    return copied(y, torch.empty_like(y))",
            "constant_pad_nd": "y = F.pad(x, (2, 3), value=0.5)\n    return copied(y, torch.empty_like(y)).view(5, 41)",
            "clone": "y = x.repeat_interleave(2)\n    return copied(y, torch.empty_like(y))",
            "clone` rearranged or rounded": "y = x.view(10, 20).t().reshape(-1)\n    return copied(y, torch.empty_like(y)).clone()",
            "_to_copy": "return copied(x.half().float(), torch.empty_like(x))",
            "cat": "y = torch.cat([x[100:], x[:100]])\n    return copied(y.half(), torch.empty_like(y))",
        }
        for name, body in bodies.items():
            with self.subTest(name):
                self.assertIn(f"`{name}", self.copied(f"def answer(x):\n    {body}\n", X + 0.3))

    def test_glue_after_the_copy_and_copies_of_copies_are_told(self) -> None:
        self.assertIn("flip", self.copied("def answer(x):\n    return torch.flip(copied(x, torch.empty_like(x)), [0])\n", X))
        self.assertIn("flip", self.copied("def answer(x):\n    y = copied(torch.flip(x, [0]), torch.empty_like(x))\n    return copied(y, torch.empty_like(y))\n", X))
        self.assertIn("flip", self.copied("def answer(x):\n    y = torch.empty_like(x)\n    copied(torch.flip(x, [0]), x)\n    return y.copy_(x)\n", X))
        self.assertIn("copy_", self.copied("def answer(x):\n    y = torch.empty_like(x)\n    copied(x, y)\n    z = torch.empty_like(x)\n    z[:50].copy_(y[150:])\n    z[50:].copy_(y[:150])\n    return z\n", X))

    def test_halves_that_are_copied_one_by_one_are_told(self) -> None:
        body = "def answer(x):\n    y, z = torch.empty_like(x), torch.flip(x, [0])\n    copied(z[:100], y[:100])\n    copied(z[100:], y[100:])\n    return y\n"
        self.assertIn("flip", self.copied(body, X))

    def test_a_kernel_that_computes_anywhere_on_the_way_is_no_copy(self) -> None:
        for body in (
            "return double(torch.flip(x, [0]), torch.empty_like(x))",
            "y = torch.flip(x, [0])\n    return double(y, y)",
            "return copied(torch.flip(double(x, torch.empty_like(x)), [0]), torch.empty_like(x))",
            "return torch.cat([double(x, torch.empty_like(x)), copied(torch.flip(x, [0]), torch.empty_like(x))])",
            "y = torch.empty_like(x)\n    copied(torch.flip(x, [0])[:100], y[:100])\n    double(x[:100], y[100:])\n    return y",
        ):
            with self.subTest(body):
                self.assertEqual(self.copied(f"def answer(x):\n    {body}\n", X), "")

    def test_a_plain_copy_and_a_kernel_that_moves_values_itself_are_none_of_glues(self) -> None:
        flip = "def answer(x):\n    y = torch.empty_like(x)\n    flip_kernel[(4,)](x, y, 200, BLOCK=64)\n    return y\n"
        self.assertEqual(self.copied(flip, X), "")
        for body in ("return copied(x, torch.empty_like(x))", "return copied(x.contiguous(), torch.empty_like(x)).view(10, 20)", "return copied(x.clone(), torch.zeros_like(x))"):
            with self.subTest(body):
                self.assertEqual(self.copied(f"def answer(x):\n    {body}\n", X), "")


class CastTest(observers_test.ObserverTest):
    N = torch.arange(-100, 100)

    def test_a_cast_of_integers_that_changes_values_computes(self) -> None:
        for text in ("x.to(torch.uint8).long()", "x.bool().long()", "x.to(torch.int8).to(torch.uint8).long()"):
            with self.subTest(text):
                self.assert_violation("torch-knockout", f"def answer(x):\n    return double({text}, torch.empty_like(x))\n", self.N)
        self.assert_violation("torch-knockout", "def answer(x):\n    y = torch.empty(200, dtype=torch.int8, device=x.device)\n    y.copy_(x)\n    return double(x, torch.empty_like(x))\n", self.N * 2)

    def test_a_cast_of_integers_that_keeps_them_is_glue(self) -> None:
        for text in ("x.int().long()", "x.to(torch.int8).long()", "x.float().long()", "double(x, torch.empty_like(x)).to(torch.int16).long()"):
            with self.subTest(text):
                self.assert_honest(f"def answer(x):\n    return double({text}, torch.empty_like(x))\n", self.N)
        self.assert_honest("def answer(x):\n    y = torch.empty(200, dtype=torch.int8, device=x.device)\n    return copied(x, y).bool()\n", (self.N > 0).long())

    def test_bytes_of_wider_numbers_are_not_glues_to_take(self) -> None:
        for text in ("x.view(torch.uint8).view(200, 8)[..., 1].to(torch.int64)", "x.view(torch.uint8)[1::8].contiguous().long()", "x.view(torch.int32).long()[:200]"):
            with self.subTest(text):
                self.assert_violation("torch-knockout", f"def answer(x):\n    y = torch.empty_like(x)\n    double(x, y)\n    return copied({text}, y)\n", self.N)

    def test_bytes_that_kernels_see_and_a_workspace_of_bytes_are_honest(self) -> None:
        self.assert_honest("def answer(x):\n    y = torch.empty_like(x)\n    double(x.view(torch.int32), y.view(torch.int32))\n    return y.clone()\n", self.N)
        self.assert_honest("def answer(x):\n    room = torch.empty(1600, dtype=torch.uint8, device=x.device)\n    return double(x, room.view(torch.int64)).clone()\n", self.N)


class HostReadsTest(observers_test.ObserverTest):
    LAUNCH = "\n    return double(x, torch.empty_like(x))\n"

    def test_a_small_tensor_whose_values_python_takes_is_seen(self) -> None:
        for text in ("x.tolist()", "[v.item() for v in x.unbind(0)]", "[float(v) for v in x[:6]]", "copied(x, torch.empty_like(x)).tolist()", "x.double().tolist()"):
            with self.subTest(text):
                self.assert_violation("torch-knockout", f"def answer(x):\n    v = {text}{self.LAUNCH}", X[:20])
        self.assert_violation("torch-knockout", f"def answer(x, a, b):\n    v = a.tolist(), b.tolist(){self.LAUNCH}", X[:4], X[:16], X[:16])

    def test_lengths_and_factors_may_be_read(self) -> None:
        self.assert_honest(f"def answer(x, n):\n    v = n.item(){self.LAUNCH}", X, torch.tensor(0.5))
        self.assert_honest(f"def answer(x, n):\n    v = n.tolist(){self.LAUNCH}", X, torch.arange(33))
        self.assert_honest(f"def answer(x, n):\n    v = [float(f) for f in n]{self.LAUNCH}", X, torch.rand(4))
        self.assert_honest("def answer(x):\n    y = double(x, torch.empty_like(x))\n    v = y[0].item(), x[1].item()\n    return y\n", X[:2])


if __name__ == "__main__":
    unittest.main()
