"""`autotriton script`: files of kernels and their calls, run whole and confined."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from front import PROGRAM

HEADER = """import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs), mask=offs < n)


def copy(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


"""
FILES = {
    "runs.py": "x = torch.randn(128, device='cuda', requires_grad=True)\nassert torch.equal(copy(x.detach()), x)\n",
    "strays.py": "copy(torch.zeros(65, device='cuda'))\n",
    "raises.py": "assert copy(torch.zeros(64, device='cuda')).sum() == 1, 'no one'\n",
    "loops.py": "while True:\n    pass\n",
    "asks.py": "import pathlib\npathlib.Path('/root/written').write_text('x')\n",
}


class ScriptTest(unittest.TestCase):
    def test_each_file_runs_or_has_a_reason(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, body in FILES.items():
                paths.append(Path(folder, name))
                paths[-1].write_text(HEADER + body)
            done = subprocess.run([PROGRAM, "script", "--json", "--seconds", "20", "--jobs", "2", *paths], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 1, done.stderr)
        results = {Path(result["file"]).name: result for result in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(set(results), set(FILES))
        self.assertEqual((results["runs.py"]["outcome"], results["runs.py"]["message"]), ("ran", ""))
        self.assertEqual(results["strays.py"]["outcome"], "ran")
        self.assertEqual(results["strays.py"]["message"], "outside of every tensor: 63 elements of loads")
        self.assertEqual(results["raises.py"]["outcome"], "import-raised")
        self.assertEqual(results["raises.py"]["message"], "line 18: AssertionError: no one")
        self.assertEqual(results["loops.py"]["outcome"], "load-timeout")
        self.assertEqual(results["asks.py"]["outcome"], "import-raised")
        self.assertFalse(Path("/root/written").exists())

    def test_a_file_that_is_not_there_is_bad_input(self) -> None:
        done = subprocess.run([PROGRAM, "script", "/nowhere/x.py"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/x.py", done.stderr)


if __name__ == "__main__":
    unittest.main()
