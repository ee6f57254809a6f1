"""Every reject reason, each from a small answer: the message names a line, a rule or a trial, and what to change."""

from __future__ import annotations

import json
import subprocess
import unittest
from typing import Any

from front import ANSWER, PROBLEM, PROGRAM, FrontTest, changed, run

EMPTY = "        y = torch.empty_like(x)\n"
BODY = "    def forward(self, x):\n"

TRANSPOSE = PROBLEM.replace("return torch.relu(x)", "return x.t().contiguous()")
LAUNCH = "        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n"

# reason: (problem, answer, what the message must name besides the remedy of the reason)
REFUSALS: dict[str, tuple[str, str, str]] = {
    "import-raised": (PROBLEM, changed(("@triton.jit", "LIMIT = {}['missing']\n\n\n@triton.jit")), r"line 7: KeyError"),
    "construct-raised": (PROBLEM, changed((BODY, "    def __init__(self, width):\n        super().__init__()\n\n" + BODY)), r"TypeError: .*width"),
    "load-timeout": (PROBLEM, changed(("@triton.jit", "while True:\n    pass\n\n\n@triton.jit")), r"."),
    "run-raised": (PROBLEM, changed((EMPTY, "        y = torch.empty(x.shape[5])\n")), r"trial 1, line 16: IndexError"),
    "run-timeout": (PROBLEM, changed((EMPTY, EMPTY + "        while True:\n            pass\n")), r"trial 1"),
    "out-of-bounds": (PROBLEM, changed(("tl.store(y_ptr + offs,", "tl.store(y_ptr + offs * 100000000,")), r"trial 1"),
    "memory-exceeded": (PROBLEM, changed((EMPTY, EMPTY + "        z = torch.empty(1 << 36)\n")), r"trial 1"),
    "wrong-structure": (PROBLEM, changed(("        return y", "        return (y,)")), r"trial 1.*output is a tuple, expected a tensor"),
    "wrong-shape": (PROBLEM, changed(("        return y", "        return y.view(33, 16)")), r"trial 1.*\[33, 16\], expected \[16, 33\]"),
    "wrong-dtype": (PROBLEM, changed((EMPTY, "        y = torch.empty_like(x, dtype=torch.float64)\n")), r"trial 1.*dtype"),
    "wrong-values": (PROBLEM, changed(("tl.maximum(x, 0.0)", "tl.maximum(x, 0.01)")), r"trial 1.*at \[\d+, \d+\] is 0\.0099.*, expected 0\.0 .*of 528 elements"),
    "wrong-nonfinite": (PROBLEM, changed(("tl.maximum(x, 0.0)", "tl.log(x)")), r"trial 1.*at \[\d+, \d+\] is nan"),
    "input-mutated": (
        PROBLEM, changed(("    tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)", "    tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)\n    tl.store(x_ptr + offs, 7.0, mask=offs < n)")),
        r"trial 1.*input 0",
    ),
    "input-aliased": (PROBLEM.replace("return torch.relu(x)", "x.relu_()\n        return x.clone()"), changed((EMPTY, "        y = x\n")), r"trial 1.*input 0"),
    "compile-failed": (  # A value that changes its type in a loop: fine in Python, not in a compiler.
        PROBLEM,
        changed(
            ("    tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)", "    total = 0\n    for step in range(0, n // n):\n        total = total + x\n    tl.store(y_ptr + offs, tl.maximum(total, 0.0), mask=offs < n)"),
        ),
        r"relu_kernel",
    ),
    "target-limits": (PROBLEM, changed(("BLOCK=256)", "BLOCK=256, num_warps=64)")), r"relu_kernel.*sm_90"),
    "no-launch": (TRANSPOSE, changed((LAUNCH, "        if x.numel() < 0:\n    " + LAUNCH), ("        return y", "        return x.t().contiguous()")), r"trial \d+ ended without a launch"),
    "kernel-knockout": (TRANSPOSE, changed(("        return y", "        return x.t().contiguous()")), r"trial \d+ passed again"),
    "torch-knockout": (PROBLEM.replace("torch.relu(x)", "torch.relu(x) + x"), changed(("        return y", "        return sum([y, x], start=0)")), r"trial 1: torch operator `add"),
    "torch-compute": (PROBLEM, changed(("        return y", "        return torch.relu(x)")), r"line 18"),
    "no-jit-kernel": (PROBLEM, "import torch\nimport torch.nn as nn\nimport triton\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n", r"line \d+"),
    "kernel-not-launched": (PROBLEM, changed(("        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n", "")), r"line \d+"),
    "dynamic-code": (PROBLEM, changed((EMPTY, EMPTY + "        eval('1')\n")), r"line 17"),
    "import-not-allowed": (PROBLEM, changed(("import triton\n", "import triton\nimport subprocess\n")), r"line 4"),
    "name-rebound": (PROBLEM, changed(("@triton.jit", "triton.jit = lambda f: f\n\n\n@triton.jit")), r"line \d+"),
    "syntax-error": (PROBLEM, changed(("def forward(self, x):", "def forward(self, x:")), r"line 15, column \d+"),
    "entry-missing": (PROBLEM, ANSWER.replace("ModelNew", "Model"), r"ModelNew"),
    "empty-answer": (PROBLEM, "\n\n", r"."),
    "too-large": (PROBLEM, ANSWER + "#" * 1_500_000 + "\n", r"bytes"),
}

# Other reasons that are as right for the same answer (a rule may be faster than the run).
ALSO: dict[str, set[str]] = {
    "wrong-nonfinite": {"wrong-values"},
    "name-rebound": {"tampering"},
    "load-timeout": {"run-timeout"},
    "no-jit-kernel": {"kernel-not-launched"},
    "compile-failed": {"jit-body-not-triton"},
    "input-aliased": {"input-mutated"},
    "torch-knockout": {"torch-compute"},
    "kernel-knockout": {"kernel-not-launched", "output-not-from-kernel"},
    "no-launch": {"output-not-from-kernel"},
}


class RefusalsTest(FrontTest):
    """All answers in one run, since a start of the workers takes longer than most of them."""

    verdicts: dict[str, dict[str, Any]] = {}

    def setUp(self) -> None:
        super().setUp()
        if RefusalsTest.verdicts:
            return
        lines = [json.dumps({"id": reason, "problem": problem, "candidate": answer}) for reason, (problem, answer, _) in REFUSALS.items()]
        pairs = self.file("pairs.jsonl", "\n".join(lines) + "\n")
        done = run("verify", "--jsonl", pairs, "--trials", "2", "--quiet", "--jobs", "2", "--budget", "load=3", "--budget", "run=4", timeout=300)
        self.assertIn(done.returncode, (0, 2, 4), done.stderr)
        RefusalsTest.verdicts = {record["id"]: record for record in map(json.loads, done.stdout.splitlines())}

    def test_each_is_refused_for_its_reason(self) -> None:
        for reason in REFUSALS:
            verdict = self.verdicts[reason]
            with self.subTest(reason):
                self.assertEqual((verdict["verdict"], verdict["reward"]), ("reject", 0.0), f"{verdict['reason']}: {verdict['message']}")
                self.assertIn(verdict["reason"], {reason} | ALSO.get(reason, set()), verdict["message"])

    def test_each_message_says_where_and_what(self) -> None:
        for reason, (_, _, pattern) in REFUSALS.items():
            verdict = self.verdicts[reason]
            with self.subTest(reason):
                if verdict["reason"] == reason:
                    self.assertRegex(verdict["message"], "(?s)" + pattern)

    def test_each_message_says_what_to_change(self) -> None:
        remedies = self.remedies()
        for reason in REFUSALS:
            verdict = self.verdicts[reason]
            with self.subTest(reason):
                if verdict["stage"] == "rules":
                    self.assertTrue(any(f["level"] == "reject" and f["line"] > 0 for f in verdict["findings"]), verdict["findings"])
                    self.assertGreater(len(verdict["message"].partition(": ")[2].split()), 5, verdict["message"])
                else:
                    self.assertTrue(verdict["message"].endswith(remedies[verdict["reason"]]), verdict["message"])

    def test_a_refusal_after_a_run_shows_the_trial_that_failed(self) -> None:
        for reason in ("wrong-values", "wrong-shape", "wrong-dtype", "wrong-structure", "input-mutated", "run-raised", "out-of-bounds"):
            verdict = self.verdicts[reason]
            with self.subTest(reason):
                self.assertFalse(verdict["trials"][-1]["pass"])
                self.assertTrue(verdict["trials"][-1]["failure"])
                self.assertRegex(verdict["trials"][-1]["seed"], r"^\d+$")
                self.assertFalse(verdict["tests_pass"])

    def test_one_line_messages_have_no_half_sentences(self) -> None:
        for reason in REFUSALS:
            message = self.verdicts[reason]["message"]
            with self.subTest(reason):
                self.assertTrue(message.rstrip().endswith((".", "!", "?")), message)
                self.assertNotIn("..", message.replace("...", ""))

    def remedies(self) -> dict[str, str]:
        """As the reference page tells them."""
        page = subprocess.run([PROGRAM, "verdict-reference"], capture_output=True, text=True, check=True).stdout
        rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `") and line.count(" | ") >= 4]
        return {row[0].strip("| `"): row[4].removesuffix(" |") for row in rows}


if __name__ == "__main__":
    unittest.main()
