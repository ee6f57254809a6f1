#!/usr/bin/env python3
"""Times the reward server from outside: rewards a second and latencies over HTTP, beside `autotriton verify --jsonl` on the same
answers, and the memory of the idle service.

    tools/measure_reward.py --program ./autotriton --jobs 2 --answers 60

Answers are the honest cases of tests/cases, made different by a comment so that no verdict is remembered.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases"


def honest_answers(names: list[str], count: int) -> list[dict[str, str]]:
    """`count` pairs of problem and candidate, each candidate unlike all others."""
    cases = []
    for name in names:
        header, source = (CASES / "honest" / f"{name}.case").read_text().split("\n---\n", 1)
        problem = re.search(r"^# problem: (\S+)", header, re.MULTILINE)
        if problem is None:
            sys.exit(f"{name}: no problem in its header")
        cases.append(((CASES / problem[1]).read_text(), source))
    pairs = []
    for index in range(count):
        problem_source, source = cases[index % len(cases)]
        pairs.append({"id": str(index), "problem": problem_source, "candidate": f"{source}\n# {index}\n"})
    return pairs


def memory_of(pid: int) -> tuple[float, int]:
    """MiB of a process and all below it, shared pages counted once (PSS), and their number."""
    tree, parents = [pid], {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
            parents[int(status.parent.name)] = int(fields[1])
        except (OSError, IndexError):
            continue  # It ended meanwhile.
    for process in tree:
        tree += [child for child, parent in parents.items() if parent == process]
    kib = 0
    for process in tree:
        try:
            kib += int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)[1])  # type: ignore[index]
        except OSError:
            continue
    return kib / 1024, len(tree)


def ask(url: str, pair: dict[str, str]) -> tuple[float, str]:
    begun = time.monotonic()
    request = urllib.request.Request(url + "/v1/verify", json.dumps(pair).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        verdict = json.load(reply)
    return time.monotonic() - begun, verdict["verdict"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "autotriton"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--answers", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="server and batch take turns this often")
    parser.add_argument("--cases", default="add_plain,softmax_row,rmsnorm_renamed,relu_cached_choice,layernorm_holder")
    options = parser.parse_args()
    pairs = honest_answers(options.cases.split(","), options.answers)
    server = subprocess.Popen(
        [options.program, "reward", "--port", "0", "--jobs", str(options.jobs), "--no-cache"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        ask(url, pairs[0])
        time.sleep(1)
        mib, processes = memory_of(server.pid)
        print(f"idle service: {mib:.0f} MiB (PSS) in {processes} processes")
        ratios = []
        for turn in range(options.rounds):
            begun = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(4 * options.jobs) as clients:
                answers = list(clients.map(lambda pair: ask(url, pair), pairs))
            served = time.monotonic() - begun
            wrong = sum(verdict != "accept" for _, verdict in answers)
            latencies = sorted(seconds for seconds, _ in answers)
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "pairs.jsonl"
                file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
                begun = time.monotonic()
                subprocess.run([options.program, "verify", "--jsonl", file, "--jobs", str(options.jobs), "--quiet", "--out", Path(folder) / "out"], check=True, stderr=subprocess.DEVNULL)
                batch = time.monotonic() - begun
            ratios.append(batch / served)
            p95 = latencies[min(len(latencies) - 1, int(0.95 * len(latencies)))]
            print(
                f"round {turn + 1}: {len(pairs) / served:.2f} rewards/s over HTTP ({4 * options.jobs} clients, median {statistics.median(latencies):.2f} s, p95 {p95:.2f} s, "
                f"{wrong} not accepted); verify --jsonl with its start {len(pairs) / batch:.2f}/s"
            )
        print(f"server's rate over the batch's: {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")
    finally:
        server.terminate()
        server.wait(120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
