"""Judges the cases that a list names:  judge_cases.py PROGRAM CASES KIND LIST

LIST holds names of files in CASES/KIND, one a line, without `.case`. Ends as `autotriton verify --suite` does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def main(arguments: list[str]) -> int:
    if len(arguments) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    program, cases, kind, listed = arguments[0], Path(arguments[1]).resolve(), arguments[2], Path(arguments[3])
    names = [line.strip() for line in listed.read_text().splitlines() if line.strip() and not line.startswith("#")]
    missing = [name for name in names if not (cases / kind / f"{name}.case").exists()]
    if missing or not names:
        print(f"{listed}: not there: {', '.join(missing) or 'any name'}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="autotriton-cases-") as folder:
        chosen = Path(folder) / kind
        chosen.mkdir()
        (Path(folder) / "problems").symlink_to(cases / "problems")
        for name in names:
            (chosen / f"{name}.case").symlink_to(cases / kind / f"{name}.case")
        return subprocess.run([program, "verify", "--suite", str(chosen), "--jobs", "2"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
