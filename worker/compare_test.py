"""The comparator with planted errors: each test changes one thing in right outputs and asks that exactly it is found."""

from __future__ import annotations

import math
import unittest
from typing import Any
from unittest import mock

import compare
import torch
from compare import Leaf, compare_leaf, leaf_statistics, same_structure

ATOL, RTOL = 1e-4, 1e-4


def judged(native: Any, actual: Any, exact: Any = None, atol: float = ATOL, rtol: float = RTOL, inputs: list[torch.Tensor] | None = None) -> dict[str, Any]:
    """Statistics of one leaf; without `exact` the reference is exact."""
    return compare_leaf(Leaf("output", native, native if exact is None else exact), actual, atol, rtol, inputs or [])


def is_right(record: dict[str, Any]) -> bool:
    return not record["problem"] and record["bad"] == 0 and record["nonfinite"] == 0


class PlantedErrorsTest(unittest.TestCase):
    def test_equal_outputs_are_right(self) -> None:
        x = torch.randn(1000, generator=torch.Generator().manual_seed(1))
        self.assertTrue(is_right(judged(x, x.clone())))

    def test_one_bad_element_among_a_million_is_found_and_named(self) -> None:
        x = torch.ones(1000, 1000)
        y = x.clone()
        y[123, 456] += 0.01
        record = judged(x, y)
        self.assertEqual(record["bad"], 1)
        self.assertEqual(record["count"], 1_000_000)
        self.assertEqual(record["index"], [123, 456])
        self.assertEqual(record["expected"], "1.0")
        self.assertAlmostEqual(record["max_abs"], 0.01, places=6)

    def test_an_error_in_the_first_and_in_the_last_element_is_found(self) -> None:
        for index in (0, -1):
            x = torch.zeros(77, 13)
            y = x.clone()
            y.view(-1)[index] = 1.0
            record = judged(x, y)
            self.assertEqual(record["bad"], 1)
            self.assertEqual(record["index"], [0, 0] if index == 0 else [76, 12])

    def test_the_worst_element_is_named_where_several_are_wrong(self) -> None:
        y = torch.tensor([0.0, 1.0, 5.0, 2.0])
        record = judged(torch.zeros(4), y)
        self.assertEqual(record["bad"], 3)
        self.assertEqual(record["index"], [2])

    def test_values_within_and_just_beyond_the_tolerance(self) -> None:
        for expected in (0.0, 1.0, -1.0, 1000.0, -1000.0):
            bound = ATOL + RTOL * abs(expected)
            x = torch.tensor([expected], dtype=torch.float64)
            for sign in (1, -1):
                self.assertTrue(is_right(judged(x, x + sign * 0.999 * bound)), expected)
                self.assertFalse(is_right(judged(x, x + sign * 1.001 * bound)), expected)

    def test_the_tolerance_is_relative_to_the_expected_value_and_not_to_the_answers(self) -> None:
        self.assertFalse(is_right(judged(torch.tensor([0.0]), torch.tensor([1e6]), atol=0.5, rtol=0.9)))

    def test_nan_where_none_is_and_none_where_nan_is(self) -> None:
        x, nan = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, math.nan, 3.0])
        self.assertEqual(judged(x, nan)["nonfinite"], 1)
        self.assertEqual(judged(nan, x)["nonfinite"], 1)
        self.assertTrue(is_right(judged(nan, nan.clone())))

    def test_all_nan_is_never_right_for_numbers(self) -> None:
        record = judged(torch.randn(100), torch.full((100,), math.nan))
        self.assertEqual(record["nonfinite"], 100)

    def test_infinities_need_their_sign(self) -> None:
        plus, minus = torch.tensor([math.inf]), torch.tensor([-math.inf])
        self.assertTrue(is_right(judged(plus, plus.clone())))
        for native, actual in ((plus, minus), (minus, plus), (plus, torch.tensor([3e38])), (plus, torch.tensor([math.nan])), (torch.tensor([3e38]), plus)):
            self.assertEqual(judged(native, actual)["nonfinite"], 1, (native, actual))

    def test_the_sign_of_zero_does_not_matter(self) -> None:
        self.assertTrue(is_right(judged(torch.tensor([0.0]), torch.tensor([-0.0]), atol=0.0, rtol=0.0)))

    def test_an_infinite_error_is_reported_as_the_worst(self) -> None:
        record = judged(torch.zeros(3), torch.tensor([0.5, math.inf, 0.0]))
        self.assertEqual((record["bad"], record["nonfinite"], record["index"]), (1, 1, [1]))

    def test_the_dtype_must_be_the_references(self) -> None:
        x = torch.ones(4)
        for other in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.complex64):
            self.assertEqual(judged(x, x.to(other))["problem"], "dtype", other)
        self.assertEqual(judged(x.int(), x.long())["problem"], "dtype")
        self.assertEqual(judged(x.to(torch.complex64), x)["problem"], "dtype")

    def test_the_shape_must_be_the_references(self) -> None:
        x = torch.ones(4, 1)
        for shape in ((4,), (1, 4), (2, 2), (4, 1, 1), (5, 1), (0,)):
            record = judged(x, torch.ones(shape))
            self.assertEqual(record["problem"], "shape", shape)
            self.assertEqual(record["expected"], "[4, 1]")
            self.assertEqual(record["actual"], str(list(shape)))

    def test_empty_tensors_are_right_and_compared_by_shape(self) -> None:
        self.assertTrue(is_right(judged(torch.zeros(0, 3), torch.zeros(0, 3))))
        self.assertEqual(judged(torch.zeros(0, 3), torch.zeros(3, 0))["problem"], "shape")
        self.assertTrue(is_right(judged(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))))

    def test_a_scalar_tensor_is_named_without_an_index(self) -> None:
        record = judged(torch.tensor(1.0), torch.tensor(2.0))
        self.assertEqual((record["bad"], record["index"]), (1, []))

    def test_both_parts_of_complex_numbers_are_compared(self) -> None:
        x = torch.tensor([1 + 1j, 2 - 1j])
        self.assertTrue(is_right(judged(x, x.clone())))
        self.assertEqual(judged(x, torch.tensor([1 + 1j, 2 + 1j]))["bad"], 1)
        self.assertEqual(judged(x, torch.tensor([1 + 1j, 3 - 1j]))["bad"], 1)
        self.assertTrue(is_right(judged(x, x.conj().conj())))

    def test_half_formats_are_compared_by_value(self) -> None:
        for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
            x = torch.tensor([1.0, 2.0, -0.5]).to(dtype)
            y = torch.tensor([1.0, 2.0, 0.5]).to(dtype)
            self.assertTrue(is_right(judged(x, x.clone())), dtype)
            self.assertEqual(judged(x, y)["bad"], 1, dtype)

    def test_strides_do_not_matter(self) -> None:
        x = torch.arange(12.0).reshape(3, 4)
        self.assertTrue(is_right(judged(x, x.t().contiguous().t())))
        y = x.t().contiguous().t()
        y[2, 1] = -1.0
        self.assertEqual(judged(x, y)["index"], [2, 1])


class ExactValuesTest(unittest.TestCase):
    """Native is the reference in its own dtype, exact in float64."""

    def test_an_answer_nearer_to_the_exact_value_than_the_reference_is_right(self) -> None:
        native, exact = torch.tensor([1.01]), torch.tensor([1.0], dtype=torch.float64)
        self.assertTrue(is_right(judged(native, torch.tensor([1.0]), exact)))
        self.assertTrue(is_right(judged(native, native.clone(), exact)))

    def test_at_a_cliff_both_sides_are_right_and_the_middle_is_not(self) -> None:
        native, exact = torch.tensor([3.0]), torch.tensor([4.0], dtype=torch.float64)
        self.assertTrue(is_right(judged(native, torch.tensor([3.0]), exact)))
        self.assertTrue(is_right(judged(native, torch.tensor([4.0]), exact)))
        self.assertFalse(is_right(judged(native, torch.tensor([3.5]), exact)))

    def test_overflow_in_the_tasks_dtype_is_excused_either_way(self) -> None:
        native, exact = torch.tensor([math.inf]), torch.tensor([1e300], dtype=torch.float64)
        self.assertTrue(is_right(judged(native, torch.tensor([math.inf]), exact)))
        self.assertFalse(is_right(judged(native, torch.tensor([-math.inf]), exact)))
        self.assertFalse(is_right(judged(native, torch.tensor([1.0]), exact)))

    def test_any_number_is_not_right_where_only_the_exact_run_leaves_the_numbers(self) -> None:
        native, exact = torch.tensor([5.0, 1.0]), torch.tensor([math.inf, 1.0], dtype=torch.float64)
        self.assertTrue(is_right(judged(native, torch.tensor([5.0, 1.0]), exact)))
        self.assertFalse(is_right(judged(native, torch.tensor([777.0, 1.0]), exact)))

    def test_an_exact_run_of_another_shape_is_not_used(self) -> None:
        self.assertFalse(is_right(judged(torch.zeros(3), torch.ones(3), torch.ones(1, dtype=torch.float64))))


class ChunksTest(unittest.TestCase):
    def test_errors_on_both_sides_of_every_chunk_border_are_found(self) -> None:
        with mock.patch.object(compare, "CHUNK", 16):
            for count in (15, 16, 17, 31, 32, 33, 48):
                x = torch.zeros(count)
                for index in {0, 14, 15, 16, 17, 31, 32, count - 1}:
                    if index >= count:
                        continue
                    y = x.clone()
                    y[index] = 1.0
                    record = judged(x, y)
                    self.assertEqual((record["bad"], record["index"]), (1, [index]), (count, index))

    def test_the_worst_of_several_chunks_is_named(self) -> None:
        with mock.patch.object(compare, "CHUNK", 16):
            y = torch.zeros(8, 8)
            y[1, 0], y[3, 5], y[7, 7] = 1.0, 9.0, 2.0
            record = judged(torch.zeros(8, 8), y)
            self.assertEqual((record["bad"], record["index"]), (3, [3, 5]))
            self.assertEqual(record["max_abs"], 9.0)

    def test_statistics_do_not_depend_on_the_chunk(self) -> None:
        generator = torch.Generator().manual_seed(3)
        native = torch.randn(100, generator=generator)
        exact = native.double() + 1e-7 * torch.randn(100, generator=generator, dtype=torch.float64)
        whole = leaf_statistics(Leaf("output", native, exact, native.half().float()))
        with mock.patch.object(compare, "CHUNK", 7):
            parts = leaf_statistics(Leaf("output", native, exact, native.half().float()))
        for field in ("finite", "max_abs", "half_error", "jumps"):
            self.assertEqual(whole[field], parts[field], field)
        self.assertAlmostEqual(whole["rms"], parts["rms"], places=12)


class IntegersTest(unittest.TestCase):
    def test_off_by_one_is_wrong_whatever_the_tolerance(self) -> None:
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
            x = torch.arange(100).to(dtype)
            y = x.clone()
            y[99] += 1
            record = judged(x, y, atol=10.0, rtol=1.0)
            self.assertEqual((record["bad"], record["index"]), (1, [99]), dtype)
            self.assertEqual((record["expected"], record["actual"]), ("99", "100"))

    def test_unsigned_integers_wider_than_a_byte_are_compared(self) -> None:
        for dtype in (torch.uint16, torch.uint32, torch.uint64):
            x = torch.arange(5).to(dtype)
            y = torch.tensor([0, 1, 2, 3, 5]).to(dtype)
            self.assertTrue(is_right(judged(x, x.clone())), dtype)
            self.assertEqual(judged(x, y)["bad"], 1, dtype)

    def test_large_integers_are_not_rounded(self) -> None:
        x = torch.tensor([2**53, 2**62])
        self.assertEqual(judged(x, x + 1)["bad"], 2)

    def test_flipped_booleans_are_counted(self) -> None:
        x = torch.tensor([True, False, True, False])
        self.assertTrue(is_right(judged(x, x.clone())))
        self.assertEqual(judged(x, ~x)["bad"], 4)
        self.assertEqual(judged(x, torch.tensor([True, False, True, True]))["index"], [3])

    def test_numbers_of_another_dtype_are_not_booleans(self) -> None:
        x = torch.tensor([True, False])
        self.assertEqual(judged(x, torch.tensor([1.0, 0.0]))["problem"], "dtype")
        self.assertEqual(judged(x, torch.tensor([2, 0]))["problem"], "dtype")


class TiesTest(unittest.TestCase):
    """Index outputs: another index of the same value is right, any other is not."""

    def setUp(self) -> None:
        self.x = torch.tensor([[1.0, 5.0, 5.0, 2.0], [7.0, 0.0, 3.0, 7.0], [4.0, 1.0, 2.0, 3.0]])
        self.argmax = torch.tensor([1, 0, 0])

    def test_another_index_of_the_maximum_is_right(self) -> None:
        for other in ([2, 0, 0], [1, 3, 0], [2, 3, 0]):
            self.assertTrue(is_right(judged(self.argmax, torch.tensor(other), inputs=[self.x])), other)

    def test_an_index_of_a_smaller_value_is_wrong(self) -> None:
        for other, bad in (([0, 0, 0], 1), ([1, 1, 0], 1), ([1, 0, 3], 1), ([3, 2, 1], 3)):
            self.assertEqual(judged(self.argmax, torch.tensor(other), inputs=[self.x])["bad"], bad, other)

    def test_an_index_outside_is_wrong(self) -> None:
        for other in ([4, 0, 0], [-1, 0, 0], [2**40, 0, 0]):
            self.assertEqual(judged(self.argmax, torch.tensor(other), inputs=[self.x])["bad"], 1, other)

    def test_ties_are_excused_along_every_dim_and_with_the_dim_kept(self) -> None:
        for dim in (0, 1):
            x = self.x if dim == 1 else self.x.t().contiguous()
            self.assertTrue(is_right(judged(x.argmax(dim), torch.tensor([2, 3, 0]), inputs=[x])))
            kept = x.argmax(dim, keepdim=True)
            other = torch.tensor([2, 3, 0]).reshape(kept.shape)
            self.assertTrue(is_right(judged(kept, other, inputs=[x])))
            self.assertFalse(is_right(judged(kept, (other + 1) % 3, inputs=[x])))

    def test_argmin_has_ties_too(self) -> None:
        x = torch.tensor([[3.0, 1.0, 1.0]])
        self.assertTrue(is_right(judged(torch.tensor([1]), torch.tensor([2]), inputs=[x])))
        self.assertFalse(is_right(judged(torch.tensor([1]), torch.tensor([0]), inputs=[x])))

    def test_without_an_input_that_explains_them_indices_are_plain_integers(self) -> None:
        self.assertFalse(is_right(judged(self.argmax, torch.tensor([2, 0, 0]), inputs=[])))
        self.assertFalse(is_right(judged(self.argmax, torch.tensor([2, 0, 0]), inputs=[torch.randn(7, 9)])))

    def test_counts_are_not_taken_for_indices(self) -> None:
        # Three rows, and a count of positives in each: looked up as indices, 2 and 3 find equal values in row 0.
        x = torch.tensor([[-1.0, 3.0, 4.0, 4.0], [1.0, 1.0, 1.0, -1.0], [5.0, -2.0, -3.0, -4.0]])
        counts = (x > 0).sum(1)
        wrong = counts.clone()
        wrong[0] = 2
        self.assertEqual(counts.tolist(), [3, 3, 1])
        self.assertEqual(judged(counts, wrong, inputs=[x])["bad"], 1)

    def test_sorted_indices_may_swap_among_equal_values(self) -> None:
        x = torch.tensor([[2.0, 1.0, 2.0, 0.0]])
        indices = x.argsort(dim=1, descending=True, stable=True)
        self.assertEqual(indices.tolist(), [[0, 2, 1, 3]])
        self.assertTrue(is_right(judged(indices, torch.tensor([[2, 0, 1, 3]]), inputs=[x])))
        self.assertFalse(is_right(judged(indices, torch.tensor([[0, 2, 3, 1]]), inputs=[x])))

    def test_the_same_index_twice_is_not_excused(self) -> None:
        x = torch.tensor([[2.0, 1.0, 2.0, 0.0]])
        self.assertFalse(is_right(judged(torch.tensor([[0, 2, 1, 3]]), torch.tensor([[0, 0, 1, 3]]), inputs=[x])))

    def test_top_k_indices_with_ties(self) -> None:
        x = torch.tensor([[5.0, 9.0, 5.0, 5.0], [1.0, 2.0, 3.0, 4.0]])
        indices = torch.tensor([[1, 0], [3, 2]])
        self.assertTrue(is_right(judged(indices, torch.tensor([[1, 3], [3, 2]]), inputs=[x])))
        self.assertFalse(is_right(judged(indices, torch.tensor([[1, 0], [3, 1]]), inputs=[x])))
        self.assertFalse(is_right(judged(indices, torch.tensor([[1, 1], [3, 2]]), inputs=[x])))

    def test_a_duplicate_in_one_row_does_not_spoil_another_rows_tie(self) -> None:
        x = torch.tensor([[2.0, 2.0], [3.0, 3.0]])
        record = judged(torch.tensor([[0, 1], [0, 1]]), torch.tensor([[1, 0], [1, 1]]), inputs=[x])
        self.assertGreaterEqual(record["bad"], 1)

    def test_a_global_argmax_of_a_vector_has_ties(self) -> None:
        x = torch.tensor([1.0, 9.0, 9.0])
        self.assertTrue(is_right(judged(torch.tensor(1), torch.tensor(2), inputs=[x])))
        self.assertFalse(is_right(judged(torch.tensor(1), torch.tensor(0), inputs=[x])))


class StructureTest(unittest.TestCase):
    def setUp(self) -> None:
        self.t = torch.zeros(2)

    def test_equal_structures_have_no_difference(self) -> None:
        t = self.t
        for value in (t, None, 3, 2.5, True, "mean", (t, None), [t, (t, {"a": t, "b": 1})], {}, ()):
            self.assertEqual(same_structure(value, value), "")

    def test_a_list_is_as_good_as_a_tuple(self) -> None:
        self.assertEqual(same_structure((self.t, self.t), [self.t, self.t]), "")

    def test_differences_are_named_where_they_are(self) -> None:
        t = self.t
        cases: list[tuple[Any, Any, str]] = [
            (t, None, "output is None, expected a tensor"),
            (t, (t,), "output is a tuple, expected a tensor"),
            (t, 1.0, "output is a float, expected a tensor"),
            (None, t, "output is a tensor, expected None"),
            ((t, t), (t,), "output has 1 items, expected 2"),
            ((t, t), (t, t, t), "output has 3 items, expected 2"),
            ((t, t), t, "output is a tensor, expected a tuple"),
            ((t, [t, None]), (t, [t, 0]), "output[1][1] is an int, expected None"),
            ({"a": t}, {"b": t}, "output has keys ['b'], expected ['a']"),
            ({"a": t}, {"a": t, "b": t}, "output has keys"),
            ({"a": (t,)}, {"a": t}, "output['a'] is a tensor, expected a tuple"),
            (1, True, "output is a bool, expected an int"),
            (1.0, 1, "output is an int, expected a float"),
            ("a", None, "output is None, expected a string"),
        ]
        for expected, actual, sentence in cases:
            with self.subTest(sentence):
                self.assertTrue(same_structure(expected, actual).startswith(sentence), same_structure(expected, actual))

    def test_the_order_of_keys_does_not_matter(self) -> None:
        self.assertEqual(same_structure({"a": self.t, "b": 1}, {"b": 1, "a": self.t}), "")

    def test_leaves_carry_their_path_and_counterparts(self) -> None:
        native = {"a": (torch.tensor(1.0), None), "b": [2]}
        exact = {"a": (torch.tensor(1.5), None), "b": [3]}
        found = list(compare.leaves(native, exact, None))
        self.assertEqual([leaf.path for leaf in found], ["output['a'][0]", "output['a'][1]", "output['b'][0]"])
        self.assertEqual(float(found[0].exact), 1.5)
        self.assertEqual(found[2].exact, 3)
        self.assertIsNone(found[0].rounded)


class ScalarsTest(unittest.TestCase):
    def test_numbers_that_are_no_tensors(self) -> None:
        cases = [
            (1.0, 1.0 + 1e-6, True), (1.0, 1.1, False), (math.nan, math.nan, True), (math.nan, 1.0, False), (1.0, math.nan, False),
            (math.inf, math.inf, True), (math.inf, -math.inf, False), (math.inf, 1.0, False), (1.0, math.inf, False), (3, 3, True), (3, 4, False),
            (3, 3.0, False), (True, True, True), (True, False, False), (True, 1, False), ("a", "a", True), ("a", "b", False), (None, None, True),
            (None, 0, False), (2 + 1j, 2 + 1j, True), (2 + 1j, 2 - 1j, False),
        ]
        for expected, actual, right in cases:
            with self.subTest(f"{expected!r} and {actual!r}"):
                self.assertEqual(judged(expected, actual)["bad"] == 0, right)


class LeafStatisticsTest(unittest.TestCase):
    def test_hand_worked_statistics(self) -> None:
        native = torch.tensor([3.0, 4.0])
        exact = torch.tensor([3.0, 4.5], dtype=torch.float64)
        rounded = torch.tensor([2.0, 4.5])
        record = leaf_statistics(Leaf("output", native, exact, rounded))
        self.assertEqual(record["count"], 2)
        self.assertAlmostEqual(record["rms"], math.sqrt((9 + 20.25) / 2))
        self.assertEqual(record["max_abs"], 4.5)
        self.assertEqual(record["noise"], 0.5)
        self.assertEqual(record["half_error"], 1.0)

    def test_only_finite_elements_count(self) -> None:
        native = torch.tensor([1.0, math.inf, math.nan, -1.0])
        record = leaf_statistics(Leaf("output", native, native.double(), None))
        self.assertEqual((record["finite"], record["rms"], record["max_abs"]), (2, 1.0, 1.0))

    def test_one_jump_among_rounding_is_a_jump_and_no_noise(self) -> None:
        exact = torch.ones(1000, dtype=torch.float64)
        native = torch.ones(1000) + 1e-6 * torch.linspace(-1, 1, 1000)
        native[500] = 2.0
        record = leaf_statistics(Leaf("output", native, exact, None))
        self.assertEqual(record["jumps"], 1)
        self.assertLess(record["noise"], 2e-6)

    def test_integers_that_differ_between_precisions_are_jumps(self) -> None:
        native = torch.tensor([1, 2, 3, 4])
        self.assertEqual(leaf_statistics(Leaf("output", native, torch.tensor([1, 2, 9, 9])))["jumps"], 2)
        self.assertEqual(leaf_statistics(Leaf("output", native, native))["jumps"], 0)

    def test_an_empty_leaf_and_a_leaf_that_is_no_tensor_have_statistics(self) -> None:
        self.assertEqual(leaf_statistics(Leaf("output", torch.zeros(0), torch.zeros(0).double()))["rms"], 0.0)
        self.assertEqual(leaf_statistics(Leaf("output", None, None))["kind"], "None")


if __name__ == "__main__":
    unittest.main()
