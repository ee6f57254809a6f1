"""The mended interpreter against torch, numpy and hand-worked numbers: what a GPU would compute, it computes."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import socket
import tempfile
import types
import unittest
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import interpreter_bfloat16
import interpreter_mends
import numpy as np
import run_candidate
import torch
import triton
import triton.language as tl
from protocol import Channel
from triton.language.extra import libdevice

FOLDER = tempfile.mkdtemp(prefix="autotriton-test-")
PAIR = socket.socketpair()


def setUpModule() -> None:
    """As the fork server does: mended once, then launches through a session."""
    torch.set_num_threads(1)
    interpreter_mends.install()
    run_candidate.Session(Channel(PAIR[0]), "interpret", 90, FOLDER)


def tearDownModule() -> None:
    shutil.rmtree(FOLDER)
    for end in PAIR:
        end.close()


def module_from(source: str) -> types.ModuleType:
    """Kernels must stand in a file, where the interpreter finds their source."""
    handle, path = tempfile.mkstemp(suffix=".py", dir=FOLDER)
    with os.fdopen(handle, "w") as file:
        file.write("import torch\nimport triton\nimport triton.language as tl\n" + source)
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@triton.jit
def binary_kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    y = tl.load(y_ptr + offs, mask=offs < n, other=1.0)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = x / y
    elif OP == "maximum":
        z = tl.maximum(x, y)
    elif OP == "minimum":
        z = tl.minimum(x, y)
    elif OP == "neg":
        z = -x
    elif OP == "abs":
        z = tl.abs(x)
    elif OP == "fma":
        z = tl.fma(x, y, x)
    elif OP == "where":
        z = tl.where(x < y, x, y)
    elif OP == "scale":
        z = x * 0.1
    elif OP == "chain":
        z = (x + y) * x
    else:
        z = x
    tl.store(out_ptr + offs, z, mask=offs < n)


def binary(op: str, x: torch.Tensor, y: torch.Tensor, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    out = torch.empty(x.numel(), dtype=out_dtype or x.dtype)
    binary_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), OP=op, BLOCK=256)
    return out


def bits(x: torch.Tensor) -> torch.Tensor:
    """Bit patterns with every NaN the same."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.where(torch.isnan(x), torch.full_like(x, math.nan), x).view(width) if x.is_floating_point() else x


def bf16_samples(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    plain = torch.randn(1000, generator=generator)
    wide = torch.randn(500, generator=generator) * torch.exp2(torch.randint(-120, 120, (500,), generator=generator).float())
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 3.3895e38, -3.3895e38, 9.2e-41, 1.0, -1.0])
    return torch.cat([plain, wide, special.repeat(3)]).to(torch.bfloat16)


class BFloat16Test(unittest.TestCase):
    def test_rounding_from_float32_is_torchs_for_every_upper_half_and_the_critical_lower_halves(self) -> None:
        upper = np.arange(65536, dtype=np.uint32) << 16
        for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
            values = (upper | np.uint32(lower)).view(np.float32)
            mine = torch.from_numpy(interpreter_bfloat16.float_to_bf16(values).view(np.int16))
            theirs = torch.from_numpy(values.copy()).to(torch.bfloat16)
            self.assertTrue(torch.equal(bits(mine.view(torch.bfloat16)), bits(theirs)), hex(lower))

    def test_widening_is_exact_for_every_pattern(self) -> None:
        patterns = np.arange(65536).astype(np.uint16)
        mine = torch.from_numpy(interpreter_bfloat16.bf16_to_float(patterns).copy())
        theirs = torch.from_numpy(patterns.view(np.int16)).view(torch.bfloat16).float()
        self.assertTrue(torch.equal(bits(mine), bits(theirs)))

    def test_arithmetic_is_torchs_bit_by_bit(self) -> None:
        x, y = bf16_samples(1), bf16_samples(2)
        expected = {
            "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "neg": 0 - x, "abs": x.abs(), "copy": x,
            "scale": x * torch.tensor(0.1, dtype=torch.bfloat16),  # A Python number takes the tensor's dtype.
            "where": torch.where(x < y, x, y), "chain": (x + y) * x,
        }
        for op, want in expected.items():
            with self.subTest(op):
                got = binary(op, x, y)
                differ = (bits(got) != bits(want)).nonzero().flatten()[:3].tolist()
                self.assertEqual(differ, [], [(float(x[i]), float(y[i]), float(got[i]), float(want[i])) for i in differ])

    def test_maximum_and_minimum_are_torchs_on_numbers(self) -> None:
        x, y = bf16_samples(1), bf16_samples(2)
        numbers = ~(x.isnan() | y.isnan())
        x, y = x[numbers], y[numbers]
        self.assertTrue(torch.equal(binary("maximum", x, y), torch.maximum(x, y)))
        self.assertTrue(torch.equal(binary("minimum", x, y), torch.minimum(x, y)))

    def test_fused_multiply_add_rounds_once(self) -> None:
        x, y = bf16_samples(3)[:1000], bf16_samples(4)[:1000]
        want = (x.double() * y.double() + x.double()).float().to(torch.bfloat16)
        self.assertTrue(torch.equal(bits(binary("fma", x, y)), bits(want)))

    def test_loads_and_stores_convert_between_formats_as_torch_does(self) -> None:
        x = bf16_samples(5)
        for dtype in (torch.float32, torch.float16, torch.float64):
            self.assertTrue(torch.equal(bits(binary("copy", x, x, dtype)), bits(x.to(dtype))), dtype)
        for dtype in (torch.float32, torch.float16, torch.float64):
            y = torch.randn(1000, generator=torch.Generator().manual_seed(6)).to(dtype)
            self.assertTrue(torch.equal(bits(binary("copy", y, y, torch.bfloat16)), bits(y.to(torch.bfloat16))), dtype)

    def test_integers_convert_both_ways(self) -> None:
        whole = torch.arange(-200, 200).to(torch.int32)
        self.assertTrue(torch.equal(binary("copy", whole, whole, torch.bfloat16), whole.to(torch.bfloat16)))
        halves = torch.tensor([0.0, 1.5, -1.5, 2.0, -100.0, 120.0], dtype=torch.bfloat16)
        self.assertTrue(torch.equal(binary("copy", halves, halves, torch.int32), halves.to(torch.int32)))

    def test_mixing_with_float32_computes_in_float32(self) -> None:
        x, y = bf16_samples(7)[:1000], torch.randn(1000, generator=torch.Generator().manual_seed(8))
        self.assertTrue(torch.equal(binary("add", x, y, torch.float32), x.float() + y))


@triton.jit
def reduce_kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr, GUARD: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.arange(0, BLOCK)
    if GUARD == "other":
        if OP == "max":
            x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
        elif OP == "min":
            x = tl.load(x_ptr + offs, mask=offs < n, other=float("inf"))
        else:
            x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    else:
        x = tl.load(x_ptr + offs, mask=offs < n)
    if GUARD == "where":
        x = tl.where(offs < n, x, 0.0)
    if OP == "max":
        y = tl.max(x, axis=0)
    elif OP == "min":
        y = tl.min(x, axis=0)
    elif OP == "sum":
        y = tl.sum(x, axis=0)
    else:
        y = tl.sum(x * x, axis=0)
    tl.store(out_ptr, y)


def reduced(op: str, x: torch.Tensor, block: int, guard: str) -> float:
    out = torch.zeros(1, dtype=x.dtype)
    reduce_kernel[(1,)](x, out, x.numel(), OP=op, BLOCK=block, GUARD=guard)
    return float(out)


class MaskedLanesTest(unittest.TestCase):
    """On a GPU, masked lanes of a load without `other` hold garbage."""

    def expected(self, op: str, x: torch.Tensor) -> float:
        wide = x.float()
        return float({"max": wide.max(), "min": wide.min(), "sum": wide.sum(), "squares": (wide * wide).sum()}[op])

    def test_garbage_in_masked_lanes_shows_in_every_reduction(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            x = (torch.randn(20, generator=torch.Generator().manual_seed(1))).to(dtype)
            for op in ("max", "min", "sum", "squares"):
                with self.subTest(f"{op} of {dtype}"):
                    got, want = reduced(op, x, 32, "none"), self.expected(op, x)
                    self.assertFalse(abs(got - want) < 1.0 + abs(want), f"{got} hides the garbage")

    def test_lanes_with_other_hold_it(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x = torch.randn(20, generator=torch.Generator().manual_seed(3)).to(dtype)
            for op in ("max", "min", "sum"):
                self.assertAlmostEqual(reduced(op, x, 32, "other"), self.expected(op, x), delta=0.1, msg=f"{op} {dtype}")

    def test_lanes_that_where_replaces_do_no_harm(self) -> None:
        x = torch.randn(20, generator=torch.Generator().manual_seed(4))
        self.assertAlmostEqual(reduced("sum", x, 32, "where"), float(x.sum()), places=5)

    def test_a_full_mask_is_no_garbage(self) -> None:
        x = torch.randn(32, generator=torch.Generator().manual_seed(5))
        self.assertAlmostEqual(reduced("sum", x, 32, "none"), float(x.sum()), places=5)


@triton.jit
def libdevice_kernel(x_ptr, y_ptr, out_ptr, n, NAME: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    y = tl.load(y_ptr + offs, mask=offs < n, other=1.0)
    if NAME == "tanh":
        z = libdevice.tanh(x)
    elif NAME == "erf":
        z = libdevice.erf(x)
    elif NAME == "exp":
        z = libdevice.exp(x)
    elif NAME == "expm1":
        z = libdevice.expm1(x)
    elif NAME == "log1p":
        z = libdevice.log1p(libdevice.abs(x))
    elif NAME == "rsqrt":
        z = libdevice.rsqrt(libdevice.abs(x))
    elif NAME == "pow":
        z = libdevice.pow(libdevice.abs(x), y)
    elif NAME == "atan2":
        z = libdevice.atan2(x, y)
    elif NAME == "fmod":
        z = libdevice.fmod(x, y)
    elif NAME == "hypot":
        z = libdevice.hypot(x, y)
    elif NAME == "copysign":
        z = libdevice.copysign(x, y)
    elif NAME == "rint":
        z = libdevice.rint(x)
    elif NAME == "round":
        z = libdevice.round(x)
    elif NAME == "trunc":
        z = libdevice.trunc(x)
    elif NAME == "floor":
        z = libdevice.floor(x)
    elif NAME == "cbrt":
        z = libdevice.cbrt(x)
    elif NAME == "tgamma":
        z = libdevice.tgamma(x)
    elif NAME == "isnan":
        z = libdevice.isnan(x)
    elif NAME == "isinf":
        z = libdevice.isinf(x)
    elif NAME == "signbit":
        z = libdevice.signbit(x)
    elif NAME == "ilogb":
        z = libdevice.ilogb(x)
    elif NAME == "remainder":
        z = libdevice.remainder(x, y)
    elif NAME == "scalar":
        z = x * libdevice.sqrt(2.0 * tl.program_id(0) + 4.0)
    elif NAME == "popc":
        z = libdevice.popc(x.to(tl.int32))
    else:
        z = x
    tl.store(out_ptr + offs, z, mask=offs < n)


def of_libdevice(name: str, x: torch.Tensor, y: torch.Tensor | None = None, dtype: torch.dtype | None = None) -> torch.Tensor:
    out = torch.zeros(x.numel(), dtype=dtype or x.dtype)
    libdevice_kernel[(1,)](x, x if y is None else y, out, x.numel(), NAME=name, BLOCK=triton.next_power_of_2(x.numel()))
    return out


class LibdeviceTest(unittest.TestCase):
    def setUp(self) -> None:
        generator = torch.Generator().manual_seed(11)
        self.x = 3 * torch.randn(500, generator=generator)
        self.y = 3 * torch.randn(500, generator=generator)

    def test_functions_agree_with_torch_in_float64(self) -> None:
        x, y = self.x.double(), self.y.double()
        expected = {
            "tanh": x.tanh(), "erf": x.erf(), "exp": x.exp(), "expm1": x.expm1(), "log1p": x.abs().log1p(), "rsqrt": x.abs().rsqrt(),
            "pow": x.abs().pow(y), "atan2": torch.atan2(x, y), "fmod": torch.fmod(x, y), "hypot": torch.hypot(x, y),
            "copysign": torch.copysign(x, y), "trunc": x.trunc(), "floor": x.floor(), "cbrt": torch.sign(x) * x.abs() ** (1 / 3),
            "scalar": x * 2.0,
        }
        for name, want in expected.items():
            with self.subTest(name):
                got = of_libdevice(name, self.x, self.y)
                self.assertTrue(torch.allclose(got.double(), want, rtol=3e-6, atol=1e-7), float((got - want).abs().max()))
            with self.subTest(f"{name} in float64"):
                if name != "scalar":
                    self.assertTrue(torch.allclose(of_libdevice(name, x, y), want, rtol=1e-12, atol=1e-14))

    def test_rounding_functions_differ_at_halves(self) -> None:
        x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, -0.75, 3.0])
        self.assertEqual(of_libdevice("rint", x).tolist(), [0, 2, 2, 0, -2, -2, 0, -1, 3])
        self.assertEqual(of_libdevice("round", x).tolist(), [1, 2, 3, -1, -2, -3, 0, -1, 3])

    def test_round_is_right_just_below_a_half_and_where_halves_end(self) -> None:
        x = torch.tensor([0.49999997, -0.49999997, 8388609.0, -8388609.0])
        self.assertEqual(of_libdevice("round", x).tolist(), [0.0, 0.0, 8388609.0, -8388609.0])

    def test_gamma_has_its_sign(self) -> None:
        x = torch.tensor([0.5, 5.0, -0.5, -1.5, -2.5])
        want = torch.tensor([math.gamma(v) for v in x.tolist()])
        self.assertTrue(torch.allclose(of_libdevice("tgamma", x), want, rtol=1e-5))

    def test_remainder_is_ieee(self) -> None:
        x, y = torch.tensor([5.0, -5.0, 7.5, 2.0]), torch.tensor([3.0, 3.0, 2.0, 4.0])
        self.assertEqual(of_libdevice("remainder", x, y).tolist(), [math.remainder(a, b) for a, b in zip(x.tolist(), y.tolist())])

    def test_exponents_are_exact(self) -> None:
        x = torch.tensor([1.0, 0.99999994, 2.0, 1.9999999, 8388607.5, 1024.0, 3e-5])
        want = [math.frexp(v)[1] - 1 for v in x.tolist()]
        self.assertEqual(of_libdevice("ilogb", x, dtype=torch.int32).tolist(), want)

    def test_predicates_are_integers(self) -> None:
        x = torch.tensor([1.0, -2.0, math.nan, math.inf, -math.inf, -0.0])
        self.assertEqual(of_libdevice("isnan", x, dtype=torch.int32).ne(0).tolist(), [False, False, True, False, False, False])
        self.assertEqual(of_libdevice("isinf", x, dtype=torch.int32).ne(0).tolist(), [False, False, False, True, True, False])
        self.assertEqual(of_libdevice("signbit", x, dtype=torch.int32).ne(0).tolist()[:2], [False, True])

    def test_bfloat16_goes_through_float32(self) -> None:
        x = self.x.to(torch.bfloat16)
        self.assertTrue(torch.equal(of_libdevice("tanh", x), x.float().tanh().to(torch.bfloat16)))

    def test_what_is_not_there_is_a_gap_and_no_silent_nothing(self) -> None:
        with self.assertRaises(Exception) as caught:
            of_libdevice("popc", self.x)
        chain: list[BaseException | None] = [caught.exception, caught.exception.__cause__, caught.exception.__context__]
        self.assertTrue(any(isinstance(item, interpreter_mends.InterpreterGap) for item in chain), chain)


COPY_BODY = """
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + 1)
"""


class ArgumentsTest(unittest.TestCase):
    def test_every_spelling_of_constexpr_is_a_constant(self) -> None:
        spellings = {
            "tl.constexpr": "", "'tl.constexpr'": "", "triton.language.constexpr": "", "constexpr": "from triton.language import constexpr\n",
            "language.constexpr": "from triton import language\n", "'constexpr'": "", "C": "from triton.language import constexpr as C\n",
            "tl.core.constexpr": "",
        }
        for annotation, header in spellings.items():
            for future in ("", "from __future__ import annotations\n"):
                if future and (annotation.startswith("'") or annotation == "C"):  # Triton itself goes by the text of an annotation.
                    continue
                with self.subTest(future + annotation):
                    # tl.arange takes constants only, so it fails unless BLOCK is one.
                    source = f"{header}@triton.jit\ndef kernel(x_ptr, out_ptr, BLOCK: {annotation}):\n{COPY_BODY}"
                    path_module = module_from(source) if not future else module_with_future(source)
                    x, out = torch.arange(8.0), torch.zeros(8)
                    path_module.kernel[(1,)](x, out, BLOCK=8)
                    self.assertEqual(out.tolist(), [1, 2, 3, 4, 5, 6, 7, 8])

    def test_a_constexpr_may_be_given_as_one_and_have_a_default(self) -> None:
        module = module_from(f"@triton.jit\ndef kernel(x_ptr, out_ptr, BLOCK: tl.constexpr = 8):\n{COPY_BODY}")
        x, out = torch.arange(8.0), torch.zeros(8)
        module.kernel[(1,)](x, out)
        self.assertEqual(float(out[7]), 8.0)
        module.kernel[(1,)](x, out.zero_(), tl.constexpr(8))
        self.assertEqual(float(out[7]), 8.0)

    def test_bool_arguments_are_booleans(self) -> None:
        module = module_from(
            "@triton.jit\ndef kernel(x_ptr, out_ptr, flag, BLOCK: tl.constexpr):\n    offs = tl.arange(0, BLOCK)\n"
            "    x = tl.load(x_ptr + offs)\n    if flag:\n        x = x * 10\n    tl.store(out_ptr + offs, tl.where(flag, x, -x))\n"
        )
        for flag, want in ((True, [0, 10, 20, 30]), (False, [0, -1, -2, -3])):
            out = torch.zeros(4)
            module.kernel[(1,)](torch.arange(4.0), out, flag, BLOCK=4)
            self.assertEqual(out.tolist(), want)

    def test_a_kernel_made_by_a_factory_sees_its_own_values(self) -> None:
        module = module_from(
            "def make(power, function):\n    @triton.jit\n    def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):\n        offs = tl.arange(0, BLOCK)\n"
            "        tl.store(out_ptr + offs, function(tl.load(x_ptr + offs)) * power)\n    return kernel\n\n"
            "@triton.jit\ndef double(x):\n    return x + x\n\n@triton.jit\ndef square(x):\n    return x * x\n\n"
            "first = make(3, double)\nsecond = make(5, square)\n"
        )
        x, out = torch.arange(4.0), torch.zeros(4)
        module.first[(1,)](x, out, BLOCK=4)
        self.assertEqual(out.tolist(), [0, 6, 12, 18])
        module.second[(1,)](x, out, BLOCK=4)
        self.assertEqual(out.tolist(), [0, 5, 20, 45])
        module.first[(1,)](x, out, BLOCK=4)
        self.assertEqual(out.tolist(), [0, 6, 12, 18])

    def test_integers_wrap_as_on_a_gpu(self) -> None:
        module = module_from(
            "@triton.jit\ndef kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):\n    offs = tl.arange(0, BLOCK)\n"
            "    x = tl.load(x_ptr + offs)\n    tl.store(out_ptr + offs, x * 1664525 + 1013904223)\n"
        )
        x = torch.tensor([1, 2**30, -(2**31), 12345], dtype=torch.int32)
        out = torch.zeros(4, dtype=torch.int32)
        module.kernel[(1,)](x, out, BLOCK=4)
        want = [((v * 1664525 + 1013904223 + 2**31) % 2**32) - 2**31 for v in x.tolist()]
        self.assertEqual(out.tolist(), want)

    def test_chained_assignment_makes_two_values(self) -> None:
        module = module_from(
            "@triton.jit\ndef kernel(out_ptr, BLOCK: tl.constexpr):\n    offs = tl.arange(0, BLOCK)\n    a = b = offs + 1\n    a += 10\n"
            "    tl.store(out_ptr + offs, a * 100 + b)\n"
        )
        out = torch.zeros(4, dtype=torch.int32)
        module.kernel[(1,)](out, BLOCK=4)
        self.assertEqual(out.tolist(), [1101, 1202, 1303, 1404])

    def test_a_grid_function_sees_the_arguments(self) -> None:
        module = module_from(f"@triton.jit\ndef kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):\n{COPY_BODY}")
        seen: list[Any] = []
        x, out = torch.arange(8.0), torch.zeros(8)
        module.kernel[lambda meta: (seen.append(meta["BLOCK"]), (1,))[1]](x, out, BLOCK=8)
        self.assertEqual(seen, [8])
        self.assertEqual(float(out[0]), 1.0)

    def test_a_loop_counts_as_written(self) -> None:
        module = module_from(
            "@triton.jit\ndef kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):\n    total = tl.zeros((BLOCK,), dtype=tl.float32)\n"
            "    for start in range(0, n, BLOCK):\n        offs = start + tl.arange(0, BLOCK)\n"
            "        total += tl.load(x_ptr + offs, mask=offs < n, other=0.0)\n    tl.store(out_ptr, tl.sum(total, axis=0))\n"
        )
        out = torch.zeros(1)
        module.kernel[(1,)](torch.arange(37.0), out, 37, BLOCK=8)
        self.assertEqual(float(out), 666.0)


class AutotuneTest(unittest.TestCase):
    SOURCE = (
        "@triton.autotune(configs=[triton.Config({'BLOCK': 4}), triton.Config({'BLOCK': 8}), triton.Config({'BLOCK': 16})], key=['n'])\n"
        "@triton.jit\ndef kernel(out_ptr, n, BLOCK: tl.constexpr):\n    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(out_ptr + offs, BLOCK, mask=offs < n)\n"
    )

    def test_each_trial_runs_its_own_configuration(self) -> None:
        module = module_from(self.SOURCE)
        choice = interpreter_mends.AutotuneChoice
        for index, block in ((0, 4), (1, 8), (2, 16), (3, 4)):
            choice.index, choice.used = index, []
            out = torch.zeros(20, dtype=torch.int32)
            module.kernel[lambda meta: (triton.cdiv(20, meta["BLOCK"]),)](out, 20)
            self.assertEqual(set(out.tolist()), {block})
            self.assertEqual(len(choice.used), 1)
            self.assertIn(str(block), choice.used[0])
        self.assertGreaterEqual(choice.most_configs, 3)
        choice.index = 0


def module_with_future(source: str) -> types.ModuleType:
    handle, path = tempfile.mkstemp(suffix=".py", dir=FOLDER)
    with os.fdopen(handle, "w") as file:
        file.write("from __future__ import annotations\nimport torch\nimport triton\nimport triton.language as tl\n" + source)
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class UnmendedTest(unittest.TestCase):
    def test_inline_assembly_is_a_gap(self) -> None:
        module = module_from(
            "@triton.jit\ndef kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):\n    offs = tl.arange(0, BLOCK)\n    x = tl.load(x_ptr + offs)\n"
            "    y = tl.inline_asm_elementwise('add.f32 $0, $1, $1;', '=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)\n"
            "    tl.store(out_ptr + offs, y)\n"
        )
        with self.assertRaises(Exception) as caught:
            module.kernel[(1,)](torch.arange(4.0), torch.zeros(4), BLOCK=4)
        item: BaseException | None = caught.exception
        chain = []
        while item is not None:
            chain.append(type(item).__name__)
            item = item.__cause__ or item.__context__
        self.assertIn("InterpreterGap", chain)


if __name__ == "__main__":
    unittest.main()
