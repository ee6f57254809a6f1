#!/usr/bin/env python3
"""Tests of tritonbench_gold.py."""

import pathlib
import tempfile
import unittest

import tritonbench_gold

RAN = '{"file": "/x/a.py", "outcome": "ran", "message": "", "seconds": 1.5}\n'
LATE = '{"file": "/x/b.py", "outcome": "load-timeout", "message": "not finished in time", "seconds": 60.0}\n'


class TritonBenchGold(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.results = self.folder / "results.jsonl"

    def front(self, script: str) -> str:
        program = self.folder / "program"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)
        return str(program)

    def test_runs_only_what_has_no_result_and_drops_a_line_cut_short(self) -> None:
        self.results.write_text(RAN + '{"file": "/x/b.py", "outc')
        program = self.front(f"echo \"$@\" > {self.folder}/asked; echo '{LATE.strip()}'; exit 1\n")
        files = [pathlib.Path("/x/a.py"), pathlib.Path("/x/b.py")]
        self.assertEqual(tritonbench_gold.run_missing(program, files, self.results, 5, 2), 1)
        self.assertEqual((self.folder / "asked").read_text().split()[-1], "/x/b.py")
        self.assertEqual(set(tritonbench_gold.read_results(self.results)), {"a.py", "b.py"})
        self.assertEqual(tritonbench_gold.run_missing(program, files, self.results, 5, 2), 0)

    def test_a_program_that_fails_ends_the_run(self) -> None:
        with self.assertRaises(SystemExit):
            tritonbench_gold.run_missing(self.front("exit 2\n"), [pathlib.Path("/x/a.py")], self.results, 5, 1)

    def test_the_table_names_each_file_that_did_not_run_and_why(self) -> None:
        self.results.write_text(RAN + LATE)
        text = tritonbench_gold.table(tritonbench_gold.read_results(self.results), ["a.py", "b.py", "c.py"])
        self.assertIn("1 of 3 files run whole", text)
        self.assertIn("| b.py | time | 60.0 | not finished in time |", text)
        self.assertIn("Without a result: c.py", text)


if __name__ == "__main__":
    unittest.main()
