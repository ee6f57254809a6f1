"""Scaling a problem's source: the same map for equal sizes wherever sizes stand, and nothing else touched."""

from __future__ import annotations

import types
import unittest

import scale_task
import torch

PROBLEM = '''
import torch
import torch.nn as nn

batch = 1024
width: int = 4 * 1024
kernel = 3

class Model(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.constant = 4096

    def forward(self, x):
        return x * self.weight + 1024

def get_inputs():
    return [torch.rand(batch, 4096)]

def get_init_inputs():
    return [width, kernel]
'''


def module_of(source: str) -> types.ModuleType:
    module = types.ModuleType("reference")
    exec(compile(source, "<test>", "exec"), module.__dict__)
    return module


def scaled(source: str, cap: int) -> tuple[types.ModuleType, dict[int, int]]:
    changed: dict[int, int] = {}
    return module_of(scale_task.rewrite(source, scale_task.capped(cap), changed)), changed


class RewriteTest(unittest.TestCase):
    def test_equal_sizes_stay_equal_in_assignments_inputs_and_constructor_arguments(self) -> None:
        module, changed = scaled(PROBLEM, 64)
        (x,) = module.get_inputs()
        model = module.Model(*module.get_init_inputs())
        self.assertEqual(tuple(x.shape), (64, 64))
        self.assertEqual(tuple(model.weight.shape), (64,))
        self.assertEqual(changed, {1024: 64, 4096: 64})
        self.assertEqual(tuple(model(x).shape), (64, 64))

    def test_the_models_own_code_is_left_alone(self) -> None:
        module, _ = scaled(PROBLEM, 64)
        model = module.Model(*module.get_init_inputs())
        self.assertEqual(model.constant, 4096)
        self.assertTrue(bool((model(torch.zeros(1, 64)) == 1024).all()))

    def test_small_numbers_are_kernel_sizes_and_stay(self) -> None:
        module, _ = scaled("a, b, c, d, e = 1, 2, 3, 4, 100\ndef get_inputs():\n    return [a, b, c, d, e, 5]\n", 5)
        self.assertEqual(module.get_inputs(), [1, 2, 3, 4, 5, 5])

    def test_a_product_of_literals_is_one_size(self) -> None:
        for text, value in (("4 * 1024", 4096), ("2 ** 12", 4096), ("4095 + 1", 4096), ("8192 // 2", 4096), ("5000 - 904", 4096), ("2 * (1024 + 1024)", 4096)):
            with self.subTest(text):
                changed: dict[int, int] = {}
                scale_task.rewrite(f"n = {text}\n", scale_task.capped(64), changed)
                self.assertEqual(changed, {value: 64})

    def test_numbers_that_are_no_sizes_stay(self) -> None:
        source = "eps = 1000.5\nflag = True\nname = '1000'\nbig = 2 ** 60\n"
        module, changed = scaled(source, 64)
        self.assertEqual((module.eps, module.flag, module.name), (1000.5, True, "1000"))
        self.assertIs(module.flag, True)
        self.assertNotIn(1, changed)

    def test_a_number_below_zero_is_a_label_or_an_axis_and_stays(self) -> None:
        source = "def get_inputs():\n    return [torch.full((100,), -100), 50 - 100, -(100 + 4)]\n"
        module, changed = scaled("import torch\n" + source, 37)
        filled, difference, _ = module.get_inputs()
        self.assertEqual((filled.shape, int(filled[0]), difference), ((37,), -100, -50))
        self.assertEqual(set(changed), {100})

    def test_a_folding_bomb_is_not_computed(self) -> None:
        changed: dict[int, int] = {}
        scale_task.rewrite("n = 10 ** 1000000000\nm = 2 ** 40 * 2 ** 40\n", scale_task.capped(64), changed)
        self.assertTrue(all(old < 1 << 41 for old in changed))

    def test_division_by_zero_is_left_to_the_problem(self) -> None:
        text = scale_task.rewrite("n = 100 // 0\n", scale_task.capped(64), {})
        self.assertIn("//", text)

    def test_a_source_that_does_not_parse_raises_its_syntax_error(self) -> None:
        with self.assertRaises(SyntaxError):
            scale_task.rewrite("def get_inputs(:\n", scale_task.capped(64), {})


class CandidatesTest(unittest.TestCase):
    def test_caps_go_down_the_ladder_and_never_enlarge_a_size(self) -> None:
        found = list(scale_task.candidates(PROBLEM, scale_task.LADDER))
        caps = [cap for cap, _, _ in found]
        powers = [cap for cap in caps if cap & (cap - 1) == 0]
        others = [cap for cap in caps if cap & (cap - 1)]
        self.assertEqual(caps, sorted(powers, reverse=True) + sorted(others, reverse=True), "powers of two first")
        self.assertEqual(set(caps), set(scale_task.LADDER))
        for cap, _, changed in found:
            for old, new in changed.items():
                self.assertLessEqual(new, cap)
                self.assertGreaterEqual(new, scale_task.SMALLEST_SCALED)
                self.assertLess(new, old)

    def test_sizes_that_differ_still_differ_where_there_is_room(self) -> None:
        _, text, changed = next(iter(scale_task.candidates(PROBLEM, scale_task.LADDER)))
        self.assertEqual((changed[4096], changed[1024]), (512, 256))
        (x,) = module_of(text).get_inputs()
        self.assertEqual(tuple(x.shape), (256, 512))

    def test_powers_of_two_stay_powers_of_two_and_others_stay_none(self) -> None:
        mapping = scale_task.distinct({4096, 1024, 1000, 4095}, 128)
        assert mapping is not None
        self.assertEqual([mapping(size) for size in (4096, 4095, 1024, 1000)], [128, 127, 64, 96])

    def test_their_order_survives(self) -> None:
        found = {100, 500, 70, 4096, 3}
        for cap in (64, 37):
            mapping = scale_task.distinct(found, cap)
            assert mapping is not None
            mapped = [mapping(size) for size in sorted(found)]
            self.assertEqual(mapped, sorted(set(mapped)), cap)
            self.assertEqual(mapping(3), 3)

    def test_neighbours_stay_neighbours(self) -> None:
        for cap in (64, 37):
            mapping = scale_task.distinct({91, 90, 70, 32}, cap)
            assert mapping is not None
            self.assertEqual(mapping(91), mapping(90) + 1, cap)

    def test_one_long_size_at_a_time_is_stretched_and_the_others_are_tiny(self) -> None:
        for options in scale_task.stretched(PROBLEM, {1024: 56, 4096: 64}):
            self.assertTrue(options)
            for text, _changed in options:
                (x,) = module_of(text).get_inputs()
                small, large = sorted(x.shape)
                self.assertLessEqual(small, 8)
                self.assertGreaterEqual(large, 1024)
                self.assertLessEqual(large, 4096)

    def test_caps_that_change_nothing_are_left_out(self) -> None:
        self.assertEqual(list(scale_task.candidates("n = 20\n", (64, 48, 32, 24))), [])
        self.assertEqual({cap for cap, _, _ in scale_task.candidates("n = 20\n", (64, 24, 16, 8))}, {16, 8})

    def test_the_ladder_for_small_tasks_is_of_odd_sizes(self) -> None:
        self.assertTrue(all(cap % 2 for cap in scale_task.ODD_LADDER))

    def test_sizes_lists_what_scaling_could_change(self) -> None:
        self.assertEqual(scale_task.sizes(PROBLEM), {1024, 4096})


if __name__ == "__main__":
    unittest.main()
