"""The ways in which set-up fails: each ends with a sentence and leaves nothing half done. A stub stands for Python and pip."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).with_name("setup.sh")

# Stands for a python with torch: `-c` succeeds, `-m pip download … -d FOLDER …` does what the variable STUB says.
STUB = """#!/bin/sh
[ "$1" = -c ] && exit ${STUB_CHECK:-0}
while [ "$1" != -d ]; do shift; done
[ "$STUB" = offline ] && echo "no index" >&2 && exit 1
echo "not the file" > "$2/tree-sitter-0.23.2.tar.gz"
"""


class SetupTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.stub = self.folder / "python"
        self.stub.write_text(STUB)
        self.stub.chmod(0o755)
        self.cache = self.folder / "cache"

    def run_setup(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"AUTOTRITON_CACHE": str(self.cache), "AUTOTRITON_PYTHON": str(self.stub)} | variables
        return subprocess.run(
            [TOOL, *arguments], env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
        )

    def expect_failure(self, code: int, sentence: str, *arguments: str, **variables: str) -> None:
        result = self.run_setup(*arguments, **variables)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertIn(sentence, result.stderr)
        self.assertEqual(sorted(path.name for path in self.cache.glob("sources/*")), [])

    def test_an_unknown_option(self) -> None:
        self.expect_failure(2, "no option --lnit", "--lnit")

    def test_a_python_without_torch(self) -> None:
        self.expect_failure(1, "cannot be used", STUB_CHECK="1")

    def test_no_network(self) -> None:
        self.expect_failure(1, "pip could not bring tree-sitter==0.23.2", STUB="offline")

    def test_another_file_than_the_pinned_one(self) -> None:
        self.expect_failure(1, "is not the file that was expected", STUB="other")

    def test_a_cache_that_cannot_be_made(self) -> None:
        self.expect_failure(1, "cannot be made", AUTOTRITON_CACHE="/proc/autotriton")

    def test_what_is_complete_is_left_alone(self) -> None:
        for name in ("tree-sitter-0.23.2", "tree_sitter_python-0.23.6"):
            (self.cache / "sources" / name).mkdir(parents=True)
            (self.cache / "sources" / name / ".complete").touch()
        result = self.run_setup(STUB="offline")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("ready", result.stdout)


if __name__ == "__main__":
    unittest.main()
