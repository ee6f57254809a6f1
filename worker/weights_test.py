"""How the reference's weights find their way into an answer's module, and initialisers that hide nothing."""

from __future__ import annotations

import unittest

import torch
import torch.nn as nn
from weights import is_constant, load_weights, randomise_initialisers, state_of


class LoadWeightsTest(unittest.TestCase):
    """How the reference's weights find their way into an answer's module."""

    def load(self, model: nn.Module, *weights: tuple[str, torch.Tensor]) -> dict[str, object]:
        return load_weights(model, [(name, value, False) for name, value in weights])

    def test_by_name_first(self) -> None:
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        first, second = torch.randn(3, 3), torch.randn(3, 3)
        record = self.load(model, ("1.weight", second), ("0.weight", first))
        self.assertEqual((record["by_name"], record["by_shape"], record["unmatched"]), (2, 0, []))
        self.assertTrue(torch.equal(model[0].weight, first))
        self.assertTrue(torch.equal(model[1].weight, second))

    def test_then_by_shape_and_order(self) -> None:
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        first, second = torch.randn(3, 3), torch.randn(3, 3)
        record = self.load(model, ("up", first), ("down", second))
        self.assertEqual((record["by_name"], record["by_shape"], record["unmatched"]), (0, 2, []))
        self.assertTrue(torch.equal(model[0].weight, first))
        self.assertTrue(torch.equal(model[1].weight, second))

    def test_a_name_with_another_shape_is_no_match(self) -> None:
        model = nn.Linear(3, 4, bias=False)
        record = self.load(model, ("weight", torch.randn(3, 4)))
        self.assertEqual((record["by_name"], record["by_shape"]), (0, 0))
        self.assertEqual(record["unmatched"], [{"name": "weight", "constant": False}])

    def test_an_ambiguous_shape_is_not_guessed(self) -> None:
        model = nn.ParameterList([nn.Parameter(torch.zeros(3)) for _ in range(3)])
        record = self.load(model, ("a", torch.ones(3)), ("b", torch.ones(3)))
        self.assertEqual([item["name"] for item in record["unmatched"]], ["a", "b"])  # type: ignore[index, attr-defined]
        self.assertTrue(all(bool((p == 0).all()) for p in model))

    def test_what_was_constant_is_told(self) -> None:
        record = load_weights(nn.Linear(2, 2), [("gamma", torch.randn(7), True), ("w", torch.randn(9), False)])
        self.assertEqual(record["unmatched"], [{"name": "gamma", "constant": True}, {"name": "w", "constant": False}])


class InitialisersTest(unittest.TestCase):
    def test_both_sides_draw_the_same_under_one_seed_and_nothing_is_constant(self) -> None:
        randomise_initialisers()

        def made() -> list[tuple[str, torch.Tensor]]:
            torch.manual_seed(7)
            return state_of(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.PReLU()))

        first, second = made(), made()
        for (name, left), (_, right) in zip(first, second):
            self.assertTrue(torch.equal(left, right), name)
            if left.numel() > 1:
                self.assertFalse(is_constant(left), f"{name}: dropping it would go unseen")
            if "running_var" in name:
                self.assertGreater(float(left.min()), 0.0)

    def test_initialisers_keep_their_scale(self) -> None:
        randomise_initialisers()
        torch.manual_seed(1)
        tensor = torch.empty(10_000)
        self.assertAlmostEqual(float(nn.init.ones_(tensor).mean()), 1.0, delta=0.05)
        self.assertAlmostEqual(float(nn.init.zeros_(tensor).mean()), 0.0, delta=0.05)
        self.assertAlmostEqual(float(nn.init.constant_(tensor, 5.0).mean()), 5.0, delta=0.2)


if __name__ == "__main__":
    unittest.main()
