"""What `autotriton doctor` says of this machine, with everything and with parts left out."""

from __future__ import annotations

import json
import os
import unittest
from typing import Any

from front import FrontTest, run

NAMES = {
    "reading files", "writing files", "network", "signals", "other processes", "starting programs", "system calls",
    "privileges", "secrets", "memory", "file size", "folder size", "many processes", "outliving its end",
}  # fmt: skip


class DoctorTest(FrontTest):
    def diagnosis(self, *arguments: str, code: int) -> dict[str, Any]:
        done = run("doctor", "--json", *arguments, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        diagnosis: dict[str, Any] = json.loads(done.stdout)
        self.assertEqual(diagnosis["exit"], code)
        return diagnosis

    def states(self, diagnosis: dict[str, Any]) -> dict[str, str]:
        return {line["name"]: line["state"] for line in diagnosis["confinements"]}

    def test_every_confinement_holds_by_namespaces_or_by_what_takes_their_place(self) -> None:
        self.assertEqual(self.states(self.diagnosis(code=0)), dict.fromkeys(NAMES, "held"))

    def test_every_confinement_holds_by_landlock_alone(self) -> None:
        diagnosis = self.diagnosis("--without", "namespaces,cgroup", code=0)
        self.assertEqual(self.states(diagnosis), dict.fromkeys(NAMES, "held"))
        self.assertIn("landlock files", diagnosis["sandbox"]["jobs"]["obtained"])
        self.assertIn("pid namespace", diagnosis["sandbox"]["jobs"]["missing"])
        self.assertEqual(diagnosis["sandbox"]["jobs"]["open"], [])

    def test_without_either_root_runs_nothing_and_a_user_is_told_what_is_open(self) -> None:
        if os.geteuid() == 0:
            diagnosis = self.diagnosis("--without", "namespaces,landlock", code=1)
            self.assertIn("cannot be confined", diagnosis["failure"])
            self.assertEqual(diagnosis["confinements"], [])
            self.verify("--problem", self.problem, "--candidate", self.answer, "--without", "namespaces,landlock", code=4)
        else:
            diagnosis = self.diagnosis("--without", "namespaces,landlock", code=1)
            self.assertEqual(self.states(diagnosis)["reading files"], "not had")

    def test_landlock_is_enough_for_require_sandbox(self) -> None:
        verdict = self.verdict(
            "--problem", self.problem, "--candidate", self.answer, "--require-sandbox", "--trials", "1", "--without", "namespaces", code=0
        )
        self.assertIn("pid namespace", verdict["sandbox"]["missing"])

    def test_an_unknown_word_is_bad_input(self) -> None:
        done = run("doctor", "--without", "walls")
        self.assertEqual(done.returncode, 2)
        self.assertIn("namespaces, landlock and cgroup", done.stderr)


if __name__ == "__main__":
    unittest.main()
