"""The reference side: weights that tell answers apart, sizes that fit, and runs that leave their inputs alone."""

from __future__ import annotations

import unittest

import reference_task
import torch
import torch.nn as nn
from reference_task import ReferenceTask, TooSlow, Unusable, load_module, plain_structure, time_limit
from weights import is_constant, randomise_constants, state_of

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 8)
        self.norm = nn.BatchNorm1d(8)
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("shift", torch.zeros(8))

    def forward(self, x):
        return self.norm(self.fc(x)) * self.scale + self.shift

def get_inputs():
    return [torch.randn(16, 12)]

def get_init_inputs():
    return [12]
"""


def task_of(source: str, kind: str = "module", entry: str = "Model") -> ReferenceTask:
    task = ReferenceTask(source, kind, entry, 20.0)
    task.plan(60_000, "both")
    return task


class WeightsTest(unittest.TestCase):
    def test_constant_weights_are_redrawn_and_named(self) -> None:
        task = task_of(SOURCE)
        names = task.build("original", 1, 2)
        self.assertIn("scale", names)
        self.assertIn("shift", names)
        self.assertNotIn("fc.weight", names)
        model = task.model("original")
        assert model is not None
        for name, tensor in state_of(model):
            if tensor.is_floating_point():
                self.assertFalse(is_constant(tensor), f"{name} is still constant: dropping it would go unseen")

    def test_weights_follow_from_their_seeds(self) -> None:
        def weights(seed: int, weight_seed: int) -> dict[str, torch.Tensor]:
            task = task_of(SOURCE)
            task.build("original", seed, weight_seed)
            model = task.model("original")
            assert model is not None
            return {name: tensor.clone() for name, tensor in state_of(model)}

        first, again, other = weights(1, 2), weights(1, 2), weights(3, 4)
        self.assertTrue(all(torch.equal(first[name], again[name]) for name in first))
        self.assertFalse(torch.equal(first["fc.weight"], other["fc.weight"]))
        self.assertFalse(torch.equal(first["scale"], other["scale"]))

    def test_redrawn_weights_stay_near_their_value_and_variances_positive(self) -> None:
        model = nn.BatchNorm1d(1000)
        with torch.no_grad():
            model.running_var.fill_(1.0)  # type: ignore[union-attr, operator]
        randomise_constants(model, torch.Generator().manual_seed(1))
        self.assertGreater(float(model.running_var.min()), 0.5)  # type: ignore[union-attr, operator, arg-type]
        self.assertLess(float(model.weight.max()), 1.5)
        self.assertTrue(bool((model.bias.abs() <= 0.31).all()))

    def test_integers_and_drawn_weights_are_left_alone(self) -> None:
        model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5))
        kept = model[0].weight.clone()
        randomise_constants(model, torch.Generator().manual_seed(1))
        self.assertTrue(torch.equal(model[0].weight, kept))
        self.assertEqual(int(model[1].num_batches_tracked), 0)


class RunsTest(unittest.TestCase):
    def test_the_inputs_given_are_never_written_to(self) -> None:
        task = task_of("import torch\ndef f(x):\n    x.mul_(2)\n    return x\ndef get_inputs():\n    return [torch.ones(3)]\n", "function", "f")
        x = torch.ones(3)
        outputs, after = task.run("original", [x])
        self.assertEqual(x.tolist(), [1, 1, 1])
        self.assertEqual(outputs.tolist(), [2, 2, 2])
        self.assertEqual(after[0].tolist(), [2, 2, 2])

    def test_a_run_does_not_change_the_model(self) -> None:
        task = task_of(SOURCE)
        task.build("original", 1, 2)
        model = task.model("original")
        assert model is not None
        before = {name: tensor.clone() for name, tensor in state_of(model)}
        task.run("original", task.inputs("original", 5), torch.float64)
        for name, tensor in state_of(model):
            self.assertTrue(torch.equal(tensor, before[name]), name)
            self.assertEqual(tensor.dtype, before[name].dtype)

    def test_the_exact_run_is_in_float64_and_near(self) -> None:
        task = task_of(SOURCE)
        task.build("original", 1, 2)
        inputs = task.inputs("original", 5)
        native, exact = task.run("original", inputs)[0], task.run("original", inputs, torch.float64)[0]
        self.assertEqual(exact.dtype, torch.float64)
        error = float((native.double() - exact).abs().max())
        self.assertGreater(error, 0.0)
        self.assertLess(error, 1e-4)

    def test_the_halved_run_costs_what_half_precision_costs(self) -> None:
        task = task_of(SOURCE)
        task.build("original", 1, 2)
        inputs = task.inputs("original", 5)
        rounded = task.run_changed("original", inputs, reference_task.halved)
        error = float((rounded.double() - task.run("original", inputs, torch.float64)[0]).abs().max())
        self.assertGreater(error, 1e-5)
        self.assertLess(error, 0.1)
        self.assertEqual(rounded.dtype, torch.float32)

    def test_inputs_follow_from_their_seed(self) -> None:
        task = task_of(SOURCE)
        self.assertTrue(torch.equal(task.inputs("original", 5)[0], task.inputs("original", 5)[0]))
        self.assertFalse(torch.equal(task.inputs("original", 5)[0], task.inputs("original", 6)[0]))

    def test_a_model_that_is_no_module_is_unusable(self) -> None:
        task = task_of("class Model:\n    def __call__(self, x):\n        return x\ndef get_inputs():\n    return []\ndef get_init_inputs():\n    return []\n")
        with self.assertRaises(Unusable) as caught:
            task.build("original", 1, 2)
        self.assertEqual(caught.exception.reason, "problem-invalid")

    def test_code_that_names_cuda_runs_here(self) -> None:
        task = task_of("import torch\ndef f(x):\n    return x.to('cuda') + torch.ones(3, device='cuda:0')\ndef get_inputs():\n    return [torch.zeros(3).cuda()]\n", "function", "f")
        self.assertEqual(task.run("original", task.inputs("original", 1))[0].tolist(), [1, 1, 1])


class PlanTest(unittest.TestCase):
    LARGE = SOURCE.replace("torch.randn(16, 12)", "torch.randn(4096, 1024)").replace("return [12]", "return [1024]")

    def test_a_task_that_fits_is_judged_at_its_own_size_and_at_a_smaller_one(self) -> None:
        task = task_of(SOURCE)
        self.assertEqual(next(iter(task.variants)), "original")
        self.assertLess(task.variants["scaled"].elements, task.variants["original"].elements)

    def test_elements_are_inputs_outputs_and_weights(self) -> None:
        # 16 * 12 inputs, 16 * 8 outputs, weights 12 * 8 + 8, norm 4 * 8 + 1, scale and shift 16.
        self.assertEqual(task_of(SOURCE).variants["original"].elements, 192 + 128 + 104 + 33 + 16)

    def test_a_large_task_is_scaled_below_the_budget_and_still_runs(self) -> None:
        task = task_of(self.LARGE)
        scaled = task.variants["scaled"]
        self.assertLessEqual(scaled.elements, 60_000)
        self.assertEqual(set(scaled.sizes), {4096, 1024})
        task.build("scaled", 1, 2)
        (x,) = task.inputs("scaled", 3)
        self.assertEqual(tuple(x.shape), (scaled.sizes[4096], scaled.sizes[1024]))
        self.assertEqual(tuple(task.run("scaled", [x])[0].shape), (scaled.sizes[4096], 8))

    def test_only_the_sizes_asked_for_are_planned(self) -> None:
        for shapes, absent in (("original", "scaled"), ("scaled", "original")):
            task = ReferenceTask(SOURCE, "module", "Model", 20.0)
            task.plan(60_000, shapes)
            self.assertNotIn(absent, task.variants)

    def test_a_reference_that_does_not_run_counts_as_minus_one(self) -> None:
        self.assertEqual(ReferenceTask("def f(x):\n    return x @ x\ndef get_inputs():\n    return [3]\n", "function", "f", 5.0).count("def f(x):\n    return x @ x\ndef get_inputs():\n    return [3]\n"), -1)


class PiecesTest(unittest.TestCase):
    def test_a_time_limit_ends_an_endless_loop_and_leaves_no_alarm(self) -> None:
        with self.assertRaises(TooSlow), time_limit(0.05):
            while True:
                pass
        import signal

        self.assertEqual(signal.getitimer(signal.ITIMER_REAL), (0.0, 0.0))

    def test_a_loaded_modules_lines_show_in_tracebacks(self) -> None:
        import traceback

        module = load_module("def f():\n    return 1 / 0  # here\n", "reference")
        try:
            module.f()
        except ZeroDivisionError as error:
            self.assertIn("# here", "".join(traceback.format_exception(error)))

    def test_named_tuples_and_dataclasses_become_plain(self) -> None:
        import collections
        import dataclasses

        pair = collections.namedtuple("pair", "a b")

        @dataclasses.dataclass
        class Output:
            x: int
            y: object

        self.assertEqual(plain_structure(pair(1, [2, pair(3, 4)])), (1, [2, (3, 4)]))
        self.assertIs(type(plain_structure(pair(1, 2))), tuple)
        self.assertEqual(plain_structure(Output(1, Output(2, None))), {"x": 1, "y": {"x": 2, "y": None}})
        self.assertEqual(plain_structure(collections.OrderedDict(b=1, a=2)), {"b": 1, "a": 2})

    def test_copies_keep_strides(self) -> None:
        x = torch.randn(4, 6).t()
        self.assertEqual(reference_task.clone_strided(x).stride(), x.stride())
        self.assertTrue(torch.equal(reference_task.clone_strided(x), x))


if __name__ == "__main__":
    unittest.main()
