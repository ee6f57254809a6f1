"""Many hostile, attacking and honest answers in a row through one front: none may leave anything behind, and none may
change a neighbour's verdict.

As a test it judges about a hundred; `soak_test.py --count 2000` is the long form, with figures on standard output.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from front import CASES, PROGRAM, descendants

# Of a hundred. Most of what is hostile is judged twice, once without rules, for else the rules keep it from running.
SHARES = {"hostile": 30, "attack": 30, "honest": 40}
# Each holds its processor until a budget ends it.
LONG = {"loop_at_import", "loop_in_constructor_deaf", "loop_in_forward", "loop_in_kernel", "memory_bomb", "huge_output"}
PLACES = ("/tmp", "/dev/shm", "/var/tmp", str(Path.home()), str(Path.home() / ".cache"), str(Path.home() / ".triton"))


def things() -> set[str]:
    """What lies in the places where answers like to leave something. Root's jobs are another user, so that what other
    programs of root put there meanwhile is not theirs."""
    found = set()
    for place in PLACES:
        for name in os.listdir(place) if os.path.isdir(place) else []:
            path = os.path.join(place, name)
            if os.geteuid() != 0 or (os.path.lexists(path) and os.lstat(path).st_uid != 0):
                found.add(path)
    return found


def cgroups() -> set[str]:
    """Control groups of runs whose front (the number in the name) has ended: what another front uses is its own."""
    root = Path("/sys/fs/cgroup")
    found = {path for depth in ("*", "*/*", "*/*/*") for path in root.glob(f"{depth}/autotriton-*")}
    return {str(path) for path in found if not Path("/proc", path.name.split("-")[1]).exists()}


def quick(kind: str) -> list[Path]:
    """Cases of a kind that end soon."""
    listed = CASES.parent / f"quick_{kind}.txt"
    if not listed.exists():
        return sorted((CASES / kind).glob("*.case"))
    names = [line.split("#")[0].strip() for line in listed.read_text().splitlines()]
    return [CASES / kind / (name if name.endswith(".case") else f"{name}.case") for name in names if name]


def fill(folder: Path, count: int, seed: int) -> int:
    """Writes about `count` answers to judge into `folder`, in an order drawn by `seed`."""
    draw = random.Random(seed)
    (folder / "problems").symlink_to(CASES / "problems")
    run = folder / "run"
    run.mkdir()
    kinds = {kind: quick(kind) for kind in SHARES}
    # The long ones come once in two hundred answers each, and so at least once in a run that has the time.
    brief = [case for case in kinds["hostile"] if case.stem not in LONG]
    long = [case for case in kinds["hostile"] if case.stem in LONG]
    judged = number = 0
    while judged < count:
        kind = draw.choices(list(SHARES), list(SHARES.values()))[0]
        case = draw.choice(kinds[kind] if kind != "hostile" else long if draw.random() < 0.03 * len(long) / 6 else brief)
        text = case.read_text()
        (run / f"{number:05}-{kind}-{case.name}").write_text(text)
        number += 1
        judged += 2 if "skip-rules: yes" in text and "expect-unruled" in text else 1
    return judged


class Usage:
    """Memory and descriptors of the front and the servers, from time to time."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.samples: list[dict[str, float]] = []

    def of(self, pid: int) -> tuple[int, int]:
        rss = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return len(os.listdir(f"/proc/{pid}/fd")), int(rss[1]) if rss else 0

    def sample(self, done: int) -> None:
        try:
            servers = [pid for pid in descendants(self.pid) if self.is_server(pid)]
            front_files, front_rss = self.of(self.pid)
            of_servers = [self.of(pid) for pid in servers]
        except OSError:  # One ended meanwhile.
            return
        self.samples.append(
            {
                "done": done,
                "front_files": front_files,
                "front_kb": front_rss,
                "servers": len(servers),
                "server_files": max((files for files, _ in of_servers), default=0),
                "server_kb": max((rss for _, rss in of_servers), default=0),
            }
        )

    def is_server(self, pid: int) -> bool:
        """A server, not a job: its parent is the zygote or older."""
        generation = 0
        while pid not in (0, 1, self.pid) and generation < 10:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            generation += 1
        return generation <= 3

    def growth(self, what: str) -> tuple[float, float]:
        """Medians of the second and the last fifth: the first is warming up."""
        values = [sample[what] for sample in self.samples]
        fifth = max(1, len(values) // 5)
        return statistics.median(values[fifth : 2 * fifth] or values), statistics.median(values[-fifth:])


def soak(count: int, jobs: int, seed: int, extra: list[str]) -> list[str]:
    """Judges about `count` answers and returns what was wrong, as sentences."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="soak-of-autotriton-") as name:
        folder = Path(name)
        due = fill(folder, count, seed)
        own = [folder / part for part in ("cwd", "tmp", "home")]
        for part in own:
            part.mkdir()
        work, tmp, home = own
        cache = os.environ.get("AUTOTRITON_CACHE", str(Path.home() / ".cache" / "autotriton"))
        surroundings = {**os.environ, "TMPDIR": str(tmp), "HOME": str(home), "AUTOTRITON_CACHE": cache}
        before, groups = things(), cgroups()
        start = time.monotonic()
        verdicts: collections.Counter[str] = collections.Counter()
        done = 0
        with open(folder / "errors", "wb") as errors:
            process = subprocess.Popen(
                [PROGRAM, "verify", "--suite", folder / "run", "--jobs", str(jobs), "--budget", "load=10", "--budget", "run=60", *extra],
                stdout=subprocess.PIPE, stderr=errors, text=True, cwd=work, env=surroundings, start_new_session=True,
            )
            usage = Usage(process.pid)
            family: set[int] = set()
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(("ok ", "WRONG ")):
                    done += 1
                    kind = re.search(r"\d{5}-(\w+?)-", line)
                    verdicts[f"{kind[1] if kind else '?'} {line.split()[0]}"] += 1
                    family |= descendants(process.pid)
                    usage.sample(done)
                if line.startswith(("WRONG", "      ")):
                    wrong.append(line.rstrip()[:300])
            code = process.wait()
        seconds = time.monotonic() - start
        summary = (folder / "errors").read_text().strip().splitlines()[-1:]
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in family):
            time.sleep(0.05)
        left = [pid for pid in family if os.path.exists(f"/proc/{pid}")]
        for pid in left:
            command = Path(f"/proc/{pid}/cmdline").read_bytes() if os.path.exists(f"/proc/{pid}") else b""
            if b"fork_server.py" in command:  # A number that the system gave to someone else since is no process left.
                wrong.append(f"process {pid} is left")
                os.kill(pid, signal.SIGKILL)
        wrong += [f"left: {thing}" for thing in sorted(things() - before) if thing != str(folder)]
        wrong += [f"left in the {part.name} of the front: {thing.name}" for part in own for thing in part.iterdir()]
        wrong += [f"control group left: {group}" for group in sorted(cgroups() - groups)]
        if done != due:
            wrong.append(f"{done} of {due} answers have a verdict; exit code {code}")
        figures: dict[str, object] = {"answers": done, "seconds": round(seconds, 1), "jobs": jobs, "seed": seed, "verdicts": dict(sorted(verdicts.items()))}
        for what, unit, slack in (("front_files", "descriptors", 8), ("server_files", "descriptors", 8), ("front_kb", "KiB", 24_000), ("server_kb", "KiB", 24_000)):
            early, late = usage.growth(what)
            figures[what] = [early, late]
            if len(usage.samples) >= 50 and late > early + slack:
                wrong.append(f"{what} grew from {early} to {late} {unit}")
        print(json.dumps(figures), *summary, sep="\n", flush=True)
    return wrong


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="answers to judge (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=4, help="judged at once (default %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="of the order; it is printed")
    parser.add_argument("--without", default="", help="confinements to do without, as `autotriton verify` takes them")
    options = parser.parse_args(arguments)
    wrong = soak(options.count, options.jobs, options.seed, ["--without", options.without] if options.without else [])
    print(*wrong, sep="\n")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process: {peak} KiB; {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
