#!/usr/bin/env python3
"""Writes the seeds of the fuzzer's targets from the cases and examples that the tests have: fuzz/corpus/<target>/seed-*.

What a fuzzer found lies beside them under other names and is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL, BUDGET = 3000, 110_000  # Bytes of one seed and of all seeds of a target.


def body(case: Path) -> str:
    """A case without its header."""
    return case.read_text(errors="replace").partition("\n---\n")[2]


def seeds() -> dict[str, list[bytes]]:
    cases = sorted((ROOT / "tests" / "cases").glob("*/*.case")) + sorted((ROOT / "src" / "rules" / "testdata").glob("*/*.case"))
    sources = [body(case).encode() for case in cases]
    problems = [path.read_bytes() for path in sorted((ROOT / "tests" / "cases" / "problems").glob("*.py"))]
    answers = [body(case).encode() for case in sorted((ROOT / "src" / "tasks" / "testdata" / "answers").glob("*.case"))]
    pairs = [
        json.dumps({"id": f"p{index}", "problem": problem.decode(), "candidate": "x = 1"}).encode() for index, problem in enumerate(problems[:12])
    ]
    tasks = [
        json.dumps({"task_id": f"t{index}", "reference": problem.decode(), "difficulty": index, "meta": {"a": [1]}}).encode()
        for index, problem in enumerate(problems[:12])
    ]
    golden = [line.encode() for line in (ROOT / "worker" / "testdata" / "records.jsonl").read_text().splitlines()]
    bodies = [json.dumps(record).encode() for record in RECORDS]
    frames = [b"".join(b"ATR1" + len(part).to_bytes(4, "little") + part for part in group) for group in ([b"{}"], [b"", b"[]"], bodies[:3], [b"x" * 300])]
    return {
        "source": sources,
        "answer": answers + sources[:20],
        "task_readers": problems[:25] + pairs + tasks + [b"\n".join(pairs[:4])],
        "frames": [bytes([piece]) + frame for piece in (0, 1, 7, 255) for frame in frames],
        "worker_records": [*bodies, b"\n".join(bodies), *golden],
    }


TENSOR = {"k": "tensor", "dtype": "float32", "shape": [2, 3], "stride": [3, 1], "offset": 0, "bytes": 24}
LEAF = {"dtype": "float32", "elements": 6, "max": 1.0, "rms": 0.5, "error": "nan"}
RECORDS: list[dict[str, object]] = [
    {"type": "loaded"},
    {"type": "progress", "done": 3},
    {"type": "failed", "phase": "run", "kind": "bounds", "message": "a load", "line": 3, "exception": "IndexError"},
    {"type": "constructed", "by_name": 1, "by_shape": 0, "unmatched": [{"name": "weight", "constant": True}]},
    {
        "type": "ran",
        "outputs": {"k": "tuple", "v": [TENSOR, {"k": "dict", "keys": [{"k": "str", "v": "a"}], "v": [{"k": "none"}]}, {"k": "int", "v": "3"}]},
        "inputs_after": {"k": "list", "v": [TENSOR]},
        "aliases": [0],
        "launches": [{"kernel": "k", "count": 1, "grid": [1, 1, 1]}],
        "violations": [{"reason": "torch-compute", "message": "m"}],
        "torch_ops": ["empty"],
        "configs": 1,
        "config": "",
    },
    {
        "type": "compiled",
        "kernels": [{"kernel": "k", "problem": "", "message": "", "shared_bytes": 16, "registers": 20, "local_bytes": 0}],
        "launched": ["k"],
        "error": "",
        "exception": "",
        "line": 0,
    },
    {"type": "opened", "variants": [{"name": "original", "elements": 6, "sizes": [[4, 2]]}]},
    {"type": "init", "arguments": [], "weights": [], "evaluation": True},
    {"type": "trial", "arguments": [TENSOR], "inputs": "plain", "shapes": [], "leaves": [LEAF], "exact": True, "aliases": []},
    {"type": "compared", "problem": "", "message": "", "leaves": [LEAF]},
    {"type": "shapes", "known": True, "arguments": [], "inputs": "plain"},
    {"type": "unusable", "reason": "reference-failed", "message": "m", "detail": ""},
]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "fuzz" / "corpus", help="folder that gets a folder a target (default: %(default)s)")
    options = parser.parse_args(arguments)
    for target, inputs in seeds().items():
        folder = options.into / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        left = BUDGET
        # Evenly spread over the list, so that each kind of case is there.
        chosen = inputs[:: max(1, sum(len(text) for text in inputs if len(text) <= SMALL) // BUDGET + 1)]
        for text in chosen:
            if len(text) > SMALL or len(text) > left:
                continue
            left -= len(text)
            (folder / f"seed-{hashlib.sha256(text).hexdigest()[:12]}").write_bytes(text)
        print(f"{target}: {len(list(folder.glob('seed-*')))} seeds, {BUDGET - left} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
