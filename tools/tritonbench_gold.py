#!/usr/bin/env python3
"""Runs TritonBench-G's gold files (each a kernel and its tests) whole in the confined interpreter, and tells which do not.

    git clone https://github.com/thunlp/TritonBench ../TritonBench
    tools/tritonbench_gold.py --checkout ../TritonBench --results gold.jsonl --table gold.md

Each file is a process of its own under `autotriton script`, so nothing of it runs outside of the sandbox. A run that was
interrupted goes on where it ended: files that have a line in --results are not run again.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
from typing import Any

FOLDER = pathlib.PurePath("data", "TritonBench_G_v1")
REASONS = {
    "import-raised": "raised",
    "load-timeout": "time",
    "out-of-bounds": "out of bounds",
    "crashed": "killed by a signal",
    "interpreter-gap": "beyond the interpreter",
    "memory-exceeded": "memory",
}


def read_results(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Results by file name; a line that was cut short is left out."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            result = json.loads(line)
        except ValueError:
            continue
        results[pathlib.PurePath(result["file"]).name] = result
    return results


def run_missing(program: str, files: list[pathlib.Path], results: pathlib.Path, seconds: float, jobs: int) -> int:
    """Runs what has no result yet; returns how many that were."""
    known = read_results(results)
    missing = [file for file in files if file.name not in known]
    if missing:
        whole = results.read_bytes() if results.exists() else b""
        with open(results, "ab") as out:
            if whole and not whole.endswith(b"\n"):
                out.write(b"\n")  # After a line that was cut short.
            out.flush()
            command = [program, "script", "--json", "--seconds", str(seconds), "--jobs", str(jobs), *map(str, missing)]
            code = subprocess.run(command, stdout=out, check=False).returncode
        if code not in (0, 1):
            sys.exit(f"{sys.argv[0]}: `{program} script` ended with code {code}; run this again to go on")
    return len(missing)


def table(results: dict[str, dict[str, Any]], names: list[str]) -> str:
    """The summary and the files that did not run clean, as Markdown."""
    known = [results[name] for name in names if name in results]
    ran = [result for result in known if result["outcome"] == "ran"]
    clean = [result for result in ran if not result["message"]]
    seconds = sum(result["seconds"] for result in known)
    lines = [
        f"{len(ran)} of {len(names)} files run whole, {len(clean)} of them with nothing to remark; {seconds:.0f} s of one core in all.",
        "",
    ]
    counts = collections.Counter(REASONS.get(r["outcome"], r["outcome"]) for r in known if r["outcome"] != "ran")
    lines += ["Not run: " + ", ".join(f"{count} {reason}" for reason, count in counts.most_common()) + ".", ""] if counts else []
    for title, chosen in (
        ("Not run", [result for result in known if result["outcome"] != "ran"]),
        ("Run whole, with a remark", [result for result in ran if result["message"]]),
    ):
        if chosen:
            lines += [f"| {title} | reason | seconds | what was said |", "|---|---|---|---|"]
        for result in chosen:
            said = " ".join(result["message"].split())[:160].replace("|", "\\|")
            name = pathlib.PurePath(result["file"]).name
            lines.append(f"| {name} | {REASONS.get(result['outcome'], result['outcome'])} | {result['seconds']:.1f} | {said} |")
        if chosen:
            lines.append("")
    absent = [name for name in names if name not in results]
    if absent:
        lines += ["Without a result: " + ", ".join(absent), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=pathlib.Path, required=True, help="a clone of github.com/thunlp/TritonBench")
    parser.add_argument("--program", default="build/release/src/cli/autotriton", help="the built program (%(default)s)")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="JSONL, one file a line; is continued")
    parser.add_argument("--table", type=pathlib.Path, help="Markdown; standard output if not given")
    parser.add_argument("--seconds", type=float, default=60, help="time a file may take (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="files at once (%(default)s)")
    options = parser.parse_args(arguments)
    files = sorted((options.checkout / FOLDER).glob("*.py"))
    if not files:
        parser.error(f"{options.checkout / FOLDER} holds no .py file; --checkout names a clone of TritonBench")
    run_missing(options.program, files, options.results, options.seconds, options.jobs)
    text = table(read_results(options.results), [file.name for file in files])
    if options.table:
        options.table.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
