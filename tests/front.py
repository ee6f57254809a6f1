"""Runs the built program as a user would, and holds the answers that the end-to-end tests hand in."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("AUTOTRITON_PROGRAM", str(ROOT / "autotriton"))
EXAMPLES = ROOT / "examples"
CASES = ROOT / "tests" / "cases"

PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 33)]


def get_init_inputs():
    return []
"""

ANSWER = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""

WRONG = ANSWER.replace("tl.maximum(x, 0.0)", "tl.maximum(x, 0.1)")


def changed(*replacements: tuple[str, str]) -> str:
    """The good answer with each text, which must stand in it, replaced."""
    text = ANSWER
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def run(*arguments: str | Path, stdin: str | bytes | None = None, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end; output and errors are text, whatever bytes they hold."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], input=data if data is not None else b"", capture_output=True, timeout=timeout, env={**os.environ, **environment}
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def descendants(pid: int) -> set[int]:
    """Children of `pid`, theirs and so on, as /proc tells it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


class FrontTest(unittest.TestCase):
    """A test with a folder of its own that holds a problem and answers."""

    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="autotriton-test-")
        self.addCleanup(self._folder.cleanup)
        self.folder = Path(self._folder.name)
        self.problem = self.file("relu.py", PROBLEM)
        self.answer = self.file("answer.py", ANSWER)

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def verify(self, *arguments: str | Path, code: int | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        done = run("verify", *arguments, **options)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{done.args}\n{done.stdout}\n{done.stderr}")
        return done

    def verdict(self, *arguments: str | Path, code: int | None = None, **options: Any) -> dict[str, Any]:
        """The verdict of `verify --json`; standard output must hold that one object and nothing else."""
        done = self.verify(*arguments, "--json", code=code, **options)
        self.assertEqual(done.stdout.count("\n"), 1, f"{done.stdout}\n{done.stderr}")
        verdict = json.loads(done.stdout)
        self.assertEqual(verdict["schema"], "autotriton.verdict/1")
        self.assertEqual(done.returncode, {"accept": 0, "reject": 1, "inconclusive": 3}.get(verdict["verdict"], done.returncode))
        return dict(verdict)
