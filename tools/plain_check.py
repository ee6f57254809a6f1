"""The rival of bench/verify_bench: what a plain script does to judge one answer.

Starts Python, imports torch and Triton, runs the answer in the interpreter on five draws of the problem's inputs and
compares with allclose. No sandbox, no secret, no authorship, no compile.

usage: plain_check.py PROBLEM CANDIDATE        exit 0 if all draws match
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types

os.environ["TRITON_INTERPRET"] = "1"

import torch


def load(path: str, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    problem, candidate = load(arguments[0], "problem"), load(arguments[1], "candidate")
    reference, answer = problem.Model(*problem.get_init_inputs()), candidate.ModelNew(*problem.get_init_inputs())
    for seed in range(5):
        torch.manual_seed(seed)
        inputs = problem.get_inputs()
        if not torch.allclose(answer(*inputs), reference(*inputs), atol=1e-4, rtol=1e-4):
            return 1
    return 0


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main(sys.argv[1:]))
