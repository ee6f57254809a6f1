"""Unusual input values keep what a problem's inputs are: their structure, their meaning, their strides."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from input_variants import VARIANTS, apply, has_meaning

NAMES = list(VARIANTS)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def uniform(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


class ValuesTest(unittest.TestCase):
    def test_every_variant_changes_plain_numbers(self) -> None:
        for name in NAMES:
            for x in (random(40, 40), uniform(40, 40) + 0.1):
                self.assertFalse(torch.equal(apply(name, x), x), name)

    def test_plain_is_the_input_itself(self) -> None:
        x = random(3, 3)
        self.assertIs(apply("plain", x), x)

    def test_scaled_is_four_times_and_of_one_sign(self) -> None:
        x = random(10, 10)
        self.assertTrue(torch.equal(apply("scaled", x), -4 * x.abs()))
        for one_sided in (x.abs(), -x.abs()):
            self.assertTrue(torch.equal(apply("scaled", one_sided), 4 * one_sided))

    def test_shifted_makes_positive_inputs_signed_and_centred_ones_off_centre(self) -> None:
        positive = apply("shifted", uniform(100, 100))
        self.assertLess(float(positive.min()), -0.4)
        self.assertGreater(float(positive.max()), 0.4)
        self.assertGreater(float(apply("shifted", random(100, 100)).mean()), 0.5)

    def test_heavy_tails_have_values_far_from_the_typical_one(self) -> None:
        y = apply("heavy-tailed", random(200, 200))
        self.assertGreater(float(y.abs().max() / y.abs().median()), 100.0)
        self.assertTrue(bool(torch.isfinite(y).all()))

    def test_half_zero_zeroes_half_and_keeps_the_rest(self) -> None:
        x = random(100, 100)
        y = apply("half-zero", x)
        self.assertAlmostEqual(float((y == 0).double().mean()), 0.5, places=2)
        self.assertTrue(torch.equal(y[y != 0], x[y != 0]))

    def test_signs_and_order_of_magnitudes_survive_cubing(self) -> None:
        x = random(50, 50)
        y = apply("heavy-tailed", x)
        self.assertTrue(torch.equal(torch.sign(x), torch.sign(y)))

    def test_dtype_and_shape_stay(self) -> None:
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            for name in NAMES:
                x = random(9, 7).to(dtype)
                y = apply(name, x)
                self.assertEqual((y.dtype, y.shape, y.stride()), (x.dtype, x.shape, x.stride()), (name, dtype))

    def test_the_given_tensor_is_not_written_to(self) -> None:
        x = random(20, 20)
        kept = x.clone()
        for name in NAMES:
            apply(name, x)
        self.assertTrue(torch.equal(x, kept))


class StructureTest(unittest.TestCase):
    def test_triangular_matrices_stay_triangular(self) -> None:
        for make, opposite in ((torch.tril, torch.triu), (torch.triu, torch.tril)):
            for base in (random(12, 12), uniform(12, 12)):
                x = make(base)
                beyond = opposite(torch.ones(12, 12), 1 if opposite is torch.triu else -1).bool()
                for name in NAMES:
                    self.assertTrue(bool((apply(name, x)[beyond] == 0).all()), name)

    def test_symmetric_matrices_stay_symmetric(self) -> None:
        base = random(15, 15)
        x = base + base.t()
        for name in NAMES:
            y = apply(name, x)
            self.assertTrue(torch.equal(y, y.t()), name)

    def test_equal_values_stay_equal(self) -> None:
        x = random(1, 30).repeat(4, 1)
        for name in NAMES:
            y = apply(name, x)
            self.assertTrue(bool((y == y[0]).all()), name)

    def test_expanded_inputs_keep_their_strides_and_their_sharing(self) -> None:
        x = random(1, 30).expand(8, 30)
        self.assertEqual(x.stride(), (0, 1))
        for name in NAMES:
            y = apply(name, x)
            self.assertEqual(y.stride(), (0, 1), name)
            self.assertTrue(bool((y == y[0]).all()), name)
            self.assertFalse(torch.equal(y, x), name)

    def test_transposed_inputs_stay_transposed(self) -> None:
        x = random(6, 9).t()
        for name in NAMES:
            self.assertEqual(apply(name, x).stride(), x.stride(), name)

    def test_lists_dicts_and_other_values_keep_their_place(self) -> None:
        x = random(5, 5)
        value: Any = [x, (3, "mean", None), {"mask": torch.ones(5, dtype=torch.bool), "x": x}]
        y = apply("scaled", value)
        self.assertTrue(torch.equal(y[0], -4 * x.abs()))
        self.assertEqual(y[1], (3, "mean", None))
        self.assertIs(y[2]["mask"], value[2]["mask"])
        self.assertTrue(torch.equal(y[2]["x"], -4 * x.abs()))


class MeaningTest(unittest.TestCase):
    def untouched(self, x: torch.Tensor) -> None:
        for name in NAMES:
            self.assertTrue(torch.equal(apply(name, x), x), name)

    def test_probabilities_stay_probabilities(self) -> None:
        self.untouched(torch.softmax(random(8, 20), dim=1))
        self.untouched(torch.softmax(random(8, 20), dim=0))
        self.untouched(torch.softmax(random(20), dim=0))

    def test_masks_and_one_hot_rows_stay(self) -> None:
        self.untouched((random(10, 10) > 0).float())
        self.untouched(torch.nn.functional.one_hot(torch.arange(10) % 4, 4).float())
        self.untouched(torch.sign(random(10, 10)))

    def test_labels_and_integers_stay(self) -> None:
        self.untouched(torch.randint(0, 10, (50,)))
        self.untouched(torch.randint(0, 2, (50,)).bool())

    def test_attention_masks_with_infinities_stay(self) -> None:
        mask = torch.zeros(8, 8).masked_fill(torch.triu(torch.ones(8, 8), 1).bool(), float("-inf"))
        self.assertTrue(has_meaning(mask))
        self.untouched(mask)

    def test_ordinary_numbers_have_no_meaning(self) -> None:
        for x in (random(10, 10), uniform(10, 10), uniform(100), random(3)):
            self.assertFalse(has_meaning(x))

    def test_empty_and_single_values_do_not_break(self) -> None:
        for name in NAMES:
            self.assertEqual(tuple(apply(name, torch.zeros(0, 3)).shape), (0, 3))
            self.assertTrue(bool(torch.isfinite(apply(name, torch.tensor([2.5]))).all()))
            self.assertTrue(bool(torch.isfinite(apply(name, torch.tensor(2.5))).all()))
            self.assertEqual(float(apply(name, torch.zeros(2, 2)).abs().sum()), 0.0)


if __name__ == "__main__":
    unittest.main()
