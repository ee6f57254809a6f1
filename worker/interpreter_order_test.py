"""What depends on the order of programs, lanes or the autotuner's trial runs, and whole-slice reductions against numpy.

Answers run as in service: through a session that is asked record by record."""

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
from observers_test import Answer, setUpModule, tearDownModule  # noqa: F401 - unittest calls the module's set-up

REVERSED = {"order": {"kind": "reversed", "seed": "5", "kernel": ""}}
SHUFFLED = {"order": {"kind": "shuffled", "seed": "5", "kernel": ""}}

SCAN = """
@triton.jit
def scan_kernel(x_ptr, y_ptr, carry_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    s = tl.cumsum(tl.load(x_ptr + offs), axis=0) + tl.load(carry_ptr)
    tl.store(y_ptr + offs, s)
    tl.store(carry_ptr, tl.max(s, axis=0))

def answer(x):
    y = torch.empty_like(x)
    double(x, y)
    scan_kernel[(4,)](x, y, torch.zeros(1, device=x.device), BLOCK=16)
    return y
"""

LOOKBACK = """
@triton.jit
def lookback(x_ptr, y_ptr, total_ptr, flag_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    before = 0.0
    if pid > 0:
        while tl.atomic_add(flag_ptr + pid - 1, 0) == 0:
            pass
        before = tl.load(total_ptr + pid - 1, volatile=True)
    tl.store(total_ptr + pid, before + tl.sum(x, axis=0))
    tl.atomic_xchg(flag_ptr + pid, 1)
    tl.store(y_ptr + offs, tl.cumsum(x, axis=0) + before)

def answer(x):
    y = torch.empty_like(x)
    lookback[(4,)](x, y, torch.zeros(4, device=x.device), torch.zeros(4, device=x.device, dtype=torch.int32), BLOCK=16)
    return y
"""

WAITS_FOR_LATER = """
@triton.jit
def first_waits(x_ptr, y_ptr, flag_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    if pid == 0:
        while tl.atomic_cas(flag_ptr, 1, 1) != 1:
            pass
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))
    if pid == 3:
        tl.atomic_xchg(flag_ptr, 1)

def answer(x):
    y = torch.empty_like(x)
    first_waits[(4,)](x, y, torch.zeros(1, device=x.device, dtype=torch.int32), BLOCK=16)
    return y
"""

TUNED = """
@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"] RESET)
@triton.jit
def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))

def answer(x):
    y = torch.zeros(1, device=x.device)
    total[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, y, 64)
    return y
"""

IN_PLACE = """
@triton.jit
def kernel(x_ptr, y_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
BODY

def answer(x):
    y = x.clone()
    kernel[(4,)](x, y, 64, STEP=1, BLOCK=16)
    return y
"""


class OrderTest(unittest.TestCase):
    def answer(self, body: str) -> Answer:
        answer = Answer(body)
        self.addCleanup(answer.close)
        self.assertEqual(answer.loaded["type"], "loaded", answer.loaded)
        return answer

    def run_answer(self, answer: Answer, x: torch.Tensor, **how: Any) -> tuple[Any, dict[str, Any]]:
        record, value = answer.run(x, **how)
        self.assertEqual(record["type"], "ran", record)
        return value, record


class ProgramsTest(OrderTest):
    x = torch.arange(64, dtype=torch.float32)

    def test_a_scan_that_hands_its_sum_on_is_right_in_order_alone(self) -> None:
        answer = self.answer(SCAN)
        self.assertTrue(torch.equal(self.run_answer(answer, self.x)[0], self.x.cumsum(0)))
        for how in (REVERSED, SHUFFLED):
            self.assertFalse(torch.equal(self.run_answer(answer, self.x, **how)[0], self.x.cumsum(0)))

    def test_one_kernel_alone_can_be_reordered(self) -> None:
        answer = self.answer(SCAN)
        for kernel, right in (("double_kernel", True), ("scan_kernel", False)):
            value, _ = self.run_answer(answer, self.x, order={"kind": "reversed", "seed": "1", "kernel": kernel})
            self.assertEqual(torch.equal(value, self.x.cumsum(0)), right, kernel)

    def test_programs_that_wait_for_earlier_ones_are_taken_back_and_run_in_order(self) -> None:
        answer = self.answer(LOOKBACK)
        value, record = self.run_answer(answer, self.x, **REVERSED, races=True)
        self.assertTrue(torch.equal(value, self.x.cumsum(0)))
        self.assertEqual((record["in_order"], record["violations"]), (["lookback"], []))

    def test_programs_that_wait_for_later_ones_come_to_an_end_too(self) -> None:
        value, _ = self.run_answer(self.answer(WAITS_FOR_LATER), self.x)
        self.assertTrue(torch.equal(value, self.x))

    def test_polling_ends_at_a_limit_and_work_between_reads_starts_it_anew(self) -> None:
        pointer, value = np.array([64], dtype=np.uint64), np.zeros(1, dtype=np.int32)
        interpreter_memory.Waits.restart()
        for _ in range(3):
            for _ in range(interpreter_memory.Waits.LIMIT):
                interpreter_memory.Waits.read(pointer, value)
            interpreter_memory.Waits.restart()
        with self.assertRaises(interpreter_memory.Spinning):
            for _ in range(interpreter_memory.Waits.LIMIT + 2):
                interpreter_memory.Waits.read(pointer, value)


class RacesTest(OrderTest):
    x = torch.arange(64, dtype=torch.float32)

    def violations(self, body: str) -> list[str]:
        found = []
        for how in ({}, REVERSED):
            answer = self.answer(IN_PLACE.replace("BODY", body))
            _, record = self.run_answer(answer, self.x, races=True, **how)
            found += [violation["reason"] for violation in record["violations"]]
        return found

    def test_lanes_that_write_different_values_to_one_place(self) -> None:
        self.assertIn("racy-store", self.violations("    tl.store(y_ptr + offs // 2, tl.load(x_ptr + offs))"))

    def test_lanes_that_write_the_same_value_are_fine(self) -> None:
        self.assertEqual(self.violations("    tl.store(y_ptr + offs // 2, tl.load(x_ptr + offs // 2))"), [])

    def test_a_sum_that_programs_add_to_without_an_atomic_is_right_in_every_order_and_yet_a_race(self) -> None:
        self.assertIn("racy-store", self.violations("    tl.store(y_ptr, tl.load(y_ptr) + tl.sum(tl.load(x_ptr + offs), axis=0))"))

    def test_the_same_sum_with_an_atomic_is_fine(self) -> None:
        self.assertEqual(self.violations("    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + offs), axis=0))"), [])

    def test_a_program_that_updates_what_it_alone_reads_is_fine(self) -> None:
        self.assertEqual(self.violations("    tl.store(y_ptr + offs, tl.load(y_ptr + offs) * 2)\n    tl.store(y_ptr + offs, tl.load(y_ptr + offs) + 1)"), [])

    def test_a_shift_in_place_reads_what_a_neighbour_writes(self) -> None:
        self.assertIn("racy-store", self.violations("    tl.store(y_ptr + offs, tl.load(y_ptr + offs + 16, mask=offs + 16 < n, other=0.0))"))


class AutotunerTest(OrderTest):
    x = torch.ones(64)

    def test_a_sum_without_reset_to_zero_shows_in_a_trial_run(self) -> None:
        answer = self.answer(TUNED.replace("RESET", ""))
        self.assertEqual(float(self.run_answer(answer, self.x)[0]), 64.0)
        self.assertEqual(float(self.run_answer(answer, self.x, tune=True)[0]), 128.0)

    def test_reset_to_zero_and_restore_value_make_it_right(self) -> None:
        for reset in (', reset_to_zero=["y_ptr"]', ', restore_value=["y_ptr"]'):
            answer = self.answer(TUNED.replace("RESET", reset))
            value, record = self.run_answer(answer, self.x, tune=True)
            self.assertEqual((float(value), record["violations"]), (64.0, []), reset)


class HintsTest(OrderTest):
    def test_a_promise_is_held_only_where_it_is_asked_for_and_names_what_came(self) -> None:
        answer = self.answer(IN_PLACE.replace("BODY", "    tl.store(y_ptr + offs, tl.load(x_ptr + offs) + tl.multiple_of(n, 128))"))
        x = torch.zeros(64)
        self.assertEqual(self.run_answer(answer, x)[1]["violations"], [])
        found = self.run_answer(answer, x, hints=True)[1]["violations"]
        self.assertEqual([violation["reason"] for violation in found], ["false-hint"])
        self.assertIn("multiples of 128, and 64 came", found[0]["message"])

    def test_a_promise_that_holds_is_fine_and_a_wrapped_tail_is_not_looked_at(self) -> None:
        body = "    o = tl.max_contiguous(tl.multiple_of(offs % 50, 16), 16)\n    tl.store(y_ptr + o, tl.load(x_ptr + o) + tl.multiple_of(n, 32))"
        answer = self.answer(IN_PLACE.replace("BODY", body))
        self.assertEqual(self.run_answer(answer, torch.zeros(64), hints=True)[1]["violations"], [])


REDUCED = """
@triton.jit
def fold(a, b):
    return COMBINED

@triton.jit
def last(x_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(y_ptr + row, tl.reduce(x, 0, fold))

def answer(x):
    y = torch.empty(4, device=x.device)
    last[(4,)](x, y, BLOCK=16)
    return y
"""


class CombiningTest(OrderTest):
    x = torch.arange(64, dtype=torch.float32)

    def test_a_reduction_that_takes_a_side_shows_in_a_shuffled_run_and_only_there(self) -> None:
        for combined in ("a * 0.0 + b", "b if True else a"):
            answer = self.answer(REDUCED.replace("COMBINED", combined))
            for how, last in (({}, True), (REVERSED, True), (SHUFFLED, False)):
                value, _ = self.run_answer(answer, self.x, **how)
                self.assertEqual(torch.equal(value, self.x[15::16]), last, (combined, how))

    def test_a_reduction_that_commutes_is_right_in_every_order(self) -> None:
        for combined in ("a + b", "tl.maximum(a, b)", "a if a > b else b"):
            answer = self.answer(REDUCED.replace("COMBINED", combined))
            values = [self.run_answer(answer, self.x, **how)[0] for how in ({}, REVERSED, SHUFFLED)]
            self.assertTrue(all(torch.equal(value, values[0]) for value in values), combined)


class ReportTest(OrderTest):
    BODY = "\ndef answer(x):\n    y = torch.empty_like(x)\n    return double(torch.relu(x), y)\n"

    def test_torchs_own_computing_is_a_violation_unless_only_its_share_is_asked_for(self) -> None:
        answer = self.answer(self.BODY)
        _, record = self.run_answer(answer, torch.ones(64))
        self.assertEqual([violation["reason"] for violation in record["violations"]], ["torch-knockout"])
        _, record = self.run_answer(answer, torch.ones(64), torch_compute="report")
        self.assertEqual((record["violations"], record["torch_ops"]), ([], ["relu.default"]))
        self.assertEqual(record["torch_share"], 0.5)  # relu makes 64 elements, the kernel stores 64.

    def test_an_answer_all_of_kernels_has_no_share_of_torch(self) -> None:
        _, record = self.run_answer(self.answer(SCAN), torch.ones(64), torch_compute="report")
        self.assertEqual((record["torch_share"], record["torch_ops"]), (0.0, []))


@triton.jit
def first_nonzero(a, b):  # type: ignore[no-untyped-def]
    return tl.where(a != 0, a, b)  # Associative, and not commutative.


@triton.jit
def larger_with_index(a, i, b, j):  # type: ignore[no-untyped-def]
    keep = (a > b) | ((a == b) & (i < j))
    return tl.where(keep, a, b), tl.where(keep, i, j)


@triton.jit
def reduce_kernel(x_ptr, out_ptr, index_ptr, scan_ptr, M: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    tl.store(out_ptr + rows, tl.reduce(x, 1, first_nonzero))
    _, where = tl.reduce((x, tl.broadcast_to(columns[None, :], (M, N))), 1, larger_with_index)
    tl.store(index_ptr + rows, where)
    tl.store(scan_ptr + rows[:, None] * N + columns[None, :], tl.associative_scan(x, 1, first_nonzero))


class ReductionsTest(unittest.TestCase):
    def test_reductions_and_scans_keep_the_order_of_their_elements(self) -> None:
        x = torch.from_numpy(np.random.default_rng(3).integers(0, 3, (8, 16)).astype(np.float32))
        x[2] = 0.0
        out, where, scan = torch.empty(8), torch.empty(8, dtype=torch.int32), torch.empty(8, 16)
        run = interpreter_mends.GridRun(reduce_kernel.rewrite(), reduce_kernel.fn, reduce_kernel.arg_names, (1,), [])
        run.prepare(x, out, where, scan, M=8, N=16)()
        first = torch.tensor([next((v for v in row if v), 0.0) for row in x.tolist()])
        self.assertTrue(torch.equal(out, first))
        self.assertTrue(torch.equal(where.long(), torch.from_numpy(x.numpy().argmax(1))))
        want = [[next((v for v in row[: end + 1] if v), 0.0) for end in range(16)] for row in x.tolist()]
        self.assertTrue(torch.equal(scan, torch.tensor(want)))


@triton.jit
def shapes_kernel(x_ptr, out_ptr, count_ptr, M: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    count = tl.load(count_ptr)
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    for step in range(2):
        wanted = step < count  # A scalar of one bit, spread over a block below.
        mask = (columns < N - 1) & wanted[:, None]
        x = tl.load(x_ptr + rows * N + columns, mask=mask, other=-1.0)
        tl.store(out_ptr + step * M * N + rows * N + columns, x + (rows + 0.5) * 2)


@triton.jit
def logic_kernel(x_ptr, out_ptr, low, N: tl.constexpr, FLIP: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    inside = x > low and x < 3
    chosen = (not inside) if FLIP and not (low > 5) else inside or (x == 0 or offs == 7)
    tl.store(out_ptr + offs, chosen.to(tl.int32))  # type: ignore[union-attr]


class LogicTest(unittest.TestCase):
    def test_and_or_and_not_take_blocks_element_by_element(self) -> None:
        x = torch.arange(8, dtype=torch.int32) - 2
        inside = (x > 0) & (x < 3)
        for flip, want in ((True, ~inside), (False, inside | (x == 0) | (torch.arange(8) == 7))):
            out = torch.empty(8, dtype=torch.int32)
            run = interpreter_mends.GridRun(logic_kernel.rewrite(), logic_kernel.fn, logic_kernel.arg_names, (1,), [])
            run.prepare(x, out, 0, N=8, FLIP=flip)()
            self.assertTrue(torch.equal(out.bool(), want), flip)


class SpeedTest(unittest.TestCase):
    def test_shapes_that_are_shared_broadcast_as_numpys(self) -> None:
        x, out, count = torch.randn(4, 8), torch.empty(2, 4, 8), torch.ones(1, dtype=torch.int32)
        run = interpreter_mends.GridRun(shapes_kernel.rewrite(), shapes_kernel.fn, shapes_kernel.arg_names, (1,), [])
        run.prepare(x, out, count, M=4, N=8)()
        loaded = torch.stack([torch.where(torch.arange(8) < 7, x, torch.tensor(-1.0)), torch.full((4, 8), -1.0)])
        self.assertTrue(torch.equal(out, loaded + (torch.arange(4.0)[:, None] + 0.5) * 2))

    def test_a_shape_that_is_none_is_refused_as_before(self) -> None:
        for shape in ([3], [4, 0.5], []):
            with self.subTest(shape), self.assertRaises((ValueError, TypeError)):
                tl.block_type(tl.float32, shape)


if __name__ == "__main__":
    unittest.main()
