"""Many answers from a file of pairs: broken lines, interrupted runs, killed programs, full disks."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path
from typing import Any

from front import ANSWER, EXAMPLES, PROGRAM, WRONG, FrontTest, changed, descendants

CHEAT = changed(("        return y", "        return torch.relu(x)"))


class BatchTest(FrontTest):
    def setUp(self) -> None:
        super().setUp()
        self.pairs = self.folder / "pairs.jsonl"
        self.out = self.folder / "verdicts.jsonl"

    def write_pairs(self, *lines: dict[str, Any] | str | bytes) -> None:
        with open(self.pairs, "wb") as file:
            for line in lines:
                file.write(line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode())
                file.write(b"\n")

    def many(self, count: int) -> list[dict[str, str]]:
        return [{"id": f"a{index}", "problem": "relu.py", "candidate": (ANSWER, WRONG, CHEAT)[index % 3]} for index in range(count)]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, "verify", "--jsonl", self.pairs, "--out", self.out, "--jobs", "2", "--trials", "1", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """By id; every line must be whole, and no id twice."""
        lines = self.out.read_text().splitlines()
        records = [json.loads(line) for line in lines]
        twice = [name for name, count in collections.Counter(record["id"] for record in records).items() if count > 1]
        self.assertEqual(twice, [])
        return {record["id"]: record for record in records}

    def wait_for_verdicts(self, count: int, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.out.exists() and self.out.read_bytes().count(b"\n") >= count:
                return
            if process.poll() is not None:
                self.fail(f"ended too soon: {process.communicate()[1]}")
            time.sleep(0.01)
        self.fail("no verdicts in time")

    def assert_gone(self, children: set[int]) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(os.path.exists(f"/proc/{child}") for child in children):
            time.sleep(0.02)
        self.assertEqual([child for child in children if os.path.exists(f"/proc/{child}")], [], "processes are left")

    # -- lines -----------------------------------------------------------------------------------------------------------

    def test_the_examples_are_judged_in_one_run(self) -> None:
        done = self.verify("--jsonl", EXAMPLES / "pairs.jsonl", "--out", self.out, "--jobs", "2", "--trials", "1", code=0)
        self.assertEqual(done.stdout, "")
        verdicts = self.verdicts()
        self.assertEqual(len(verdicts), len((EXAMPLES / "pairs.jsonl").read_text().splitlines()))
        self.assertEqual(verdicts["softmax-answer"]["verdict"], "accept")
        self.assertEqual(verdicts["softmax-cheat"]["reason"], "torch-compute")
        self.assertEqual(verdicts["softmax-wrong"]["reason"], "wrong-values")
        self.assertEqual(verdicts["softmax-reply"]["verdict"], "accept")
        self.assertEqual(verdicts["no-code"]["reason"], "no-code")

    def test_broken_lines_are_named_and_the_rest_is_judged(self) -> None:
        self.write_pairs(
            {"id": "first", "problem": "relu.py", "candidate": CHEAT},
            '{"id": "torn", "problem": "relu.py", "candi',
            "",
            {"id": "no-answer", "problem": "relu.py"},
            {"id": "no-problem", "problem": "missing.py", "candidate": CHEAT},
            {"id": "bad-problem", "problem": "import torch\n\nclass Model:\n    pass\n", "candidate": CHEAT},
            b'{"id": "latin", "problem": "relu.py", "candidate": "caf\xe9"}',
            "[1, 2, 3]",
            {"id": "first", "problem": "relu.py", "candidate": CHEAT},
            {"problem": "relu.py", "candidate": CHEAT},
            {"id": "last", "problem": "relu.py", "candidate": ANSWER},
        )
        done = self.verify("--jsonl", self.pairs, "--out", self.out, "--jobs", "2", "--trials", "1", "--quiet", code=2)
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        self.assertEqual(len(lines), 10, "every line that is not blank has a verdict")
        named = {int(line["message"].split()[1]): line["reason"] for line in lines if line["verdict"] == "error"}
        self.assertEqual(
            named,
            {2: "line-unreadable", 4: "line-unreadable", 5: "problem-unreadable", 6: "problem-invalid", 7: "line-unreadable", 8: "line-unreadable", 9: "line-unreadable"},
        )
        judged = {line["id"]: line["verdict"] for line in lines if line["verdict"] != "error"}
        self.assertEqual(judged, {"first": "reject", "line-10": "reject", "last": "accept"})
        self.assertIn("7 bad input", done.stderr)
        for line in lines:
            if line["verdict"] == "error":
                self.assertIsNone(line["reward"])

    def test_verdicts_go_to_standard_output_and_nothing_else_does(self) -> None:
        self.write_pairs(*self.many(3))
        done = self.verify("--jsonl", self.pairs, "--trials", "1", code=0)
        self.assertEqual(sorted(json.loads(line)["id"] for line in done.stdout.splitlines()), ["a0", "a1", "a2"])

    def test_files_that_cannot_be_used_are_named(self) -> None:
        self.write_pairs(*self.many(1))
        for arguments, word in (
            (["--jsonl", self.folder / "missing.jsonl"], "missing.jsonl"),
            (["--jsonl", self.folder], self.folder.name),
            (["--jsonl", self.pairs, "--out", self.folder / "no" / "folder.jsonl"], "folder.jsonl"),
            (["--jsonl", self.pairs, "--out", self.folder], self.folder.name),
            (["--jsonl", self.pairs, "--tasks", self.folder / "tasks.jsonl"], "tasks.jsonl"),
        ):
            with self.subTest(word):
                done = self.verify(*arguments, code=2)
                self.assertIn(word, done.stderr)
                self.assertNotIn("internal error", done.stderr)

    def test_an_empty_file_is_judged_at_once(self) -> None:
        self.write_pairs()
        self.verify("--jsonl", self.pairs, "--out", self.out, code=0)
        self.assertEqual(self.out.read_text(), "")

    def test_what_is_no_file_of_verdicts_is_left_alone(self) -> None:
        self.write_pairs(*self.many(1))
        for name, content in (("notes.txt", b"my notes"), ("lines.txt", b"one\ntwo\n"), ("binary", b"\x00\xff\x01")):
            other = self.file(name, content)
            done = self.verify("--jsonl", self.pairs, "--out", other, code=2)
            self.assertIn(name, done.stderr)
            self.assertEqual(other.read_bytes(), content)
        before = self.pairs.read_bytes()
        self.verify("--jsonl", self.pairs, "--out", self.pairs, code=2)
        self.assertEqual(self.pairs.read_bytes(), before)

    def test_a_known_answer_is_not_judged_again_with_a_cache(self) -> None:
        self.write_pairs({"id": "a", "problem": "relu.py", "candidate": ANSWER}, {"id": "b", "problem": "relu.py", "candidate": WRONG})
        cache = self.folder / "cache.sqlite"
        self.verify("--jsonl", self.pairs, "--out", self.out, "--trials", "1", "--cache", cache, code=0)
        first = self.verdicts()
        self.out.unlink()
        done = self.verify("--jsonl", self.pairs, "--out", self.out, "--trials", "1", "--cache", cache, code=0, timeout=20)
        self.assertIn("2 of the verdicts stood in the cache", done.stderr)
        again = self.verdicts()
        for name in ("a", "b"):
            self.assertEqual((again[name]["verdict"], again[name]["reason"]), (first[name]["verdict"], first[name]["reason"]))
            self.assertEqual(again[name]["environment"]["cached"], "yes")

    # -- going on --------------------------------------------------------------------------------------------------------

    def test_a_line_that_was_mended_is_judged_and_one_that_was_not_still_counts(self) -> None:
        self.write_pairs({"id": "a", "problem": "missing.py", "candidate": CHEAT}, {"id": "b", "problem": "missing.py", "candidate": CHEAT})
        self.verify("--jsonl", self.pairs, "--out", self.out, "--quiet", code=2)
        self.write_pairs({"id": "a", "problem": "relu.py", "candidate": CHEAT}, {"id": "b", "problem": "missing.py", "candidate": CHEAT})
        self.verify("--jsonl", self.pairs, "--out", self.out, "--quiet", code=2)
        last = {record["id"]: record for record in map(json.loads, self.out.read_text().splitlines())}
        self.assertEqual((last["a"]["verdict"], last["b"]["reason"]), ("reject", "problem-unreadable"))

    def test_a_finished_run_does_nothing_the_second_time(self) -> None:
        self.write_pairs(*self.many(3))
        self.verify("--jsonl", self.pairs, "--out", self.out, "--trials", "1", code=0)
        before = self.out.read_bytes()
        done = self.verify("--jsonl", self.pairs, "--out", self.out, "--trials", "1", code=0, timeout=20)
        self.assertEqual(self.out.read_bytes(), before)
        self.assertIn("3 had a verdict already", done.stderr)

    def test_a_killed_front_loses_no_verdict_and_judges_none_twice(self) -> None:
        self.write_pairs(*self.many(18))
        process = self.start()
        self.wait_for_verdicts(5, process)
        children = descendants(process.pid)
        process.kill()
        process.communicate()
        self.assert_gone(children)
        finished = [line for line in self.out.read_text().split("\n")[:-1]]
        with open(self.out, "a") as file:
            file.write('{"schema":"autotriton.verdict/1","id":"a17","verd')  # As a kill in the middle of a write leaves it.
        process = self.start()
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.out.read_text().splitlines()[: len(finished)], finished)
        verdicts = self.verdicts()
        self.assertEqual(set(verdicts), {f"a{index}" for index in range(18)})
        self.right(verdicts)

    def right(self, verdicts: dict[str, dict[str, Any]]) -> None:
        for name, verdict in verdicts.items():
            self.assertEqual(verdict["reason"], ("all-evidence", "wrong-values", "torch-compute")[int(name[1:]) % 3], verdict["message"])

    def test_ctrl_c_keeps_what_is_finished_and_can_go_on(self) -> None:
        self.write_pairs(*self.many(18))
        process = self.start()
        self.wait_for_verdicts(3, process)
        children = descendants(process.pid)
        asked = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to the whole group.
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assertLess(time.monotonic() - asked, 10)
        self.assertIn("interrupted", err)
        self.assert_gone(children)
        finished = self.verdicts()
        self.assertGreaterEqual(len(finished), 3)
        self.assertLess(len(finished), 18)
        self.right(finished)
        process = self.start()
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(len(self.verdicts()), 18)
        self.right(self.verdicts())

    def test_ctrl_c_while_the_workers_start_is_130_as_well(self) -> None:
        self.write_pairs({"id": "a0", "problem": "relu.py", "candidate": ANSWER})
        process = self.start()
        deadline = time.monotonic() + 30
        while not descendants(process.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        children = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assert_gone(children)

    # -- our side fails --------------------------------------------------------------------------------------------------

    def test_killed_workers_are_started_anew_and_all_is_judged(self) -> None:
        self.write_pairs(*self.many(18))
        process = self.start()
        for verdicts, which in ((3, max), (7, min)):
            self.wait_for_verdicts(verdicts, process)
            children = descendants(process.pid)
            if process.poll() is None and children:
                os.kill(which(children), signal.SIGKILL)
        _, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0, err)
        verdicts = self.verdicts()
        self.assertEqual(len(verdicts), 18)
        self.right(verdicts)

    def test_an_error_of_ours_is_judged_again_by_the_next_run(self) -> None:
        self.write_pairs(*self.many(2))
        lost = {"schema": "autotriton.verdict/1", "id": "a0", "verdict": "error", "reason": "worker-lost"}
        self.out.write_text(json.dumps(lost) + "\n")
        self.verify("--jsonl", self.pairs, "--out", self.out, "--trials", "1", code=0)
        records = [json.loads(line) for line in self.out.read_text().splitlines()]
        self.assertEqual([record["reason"] for record in records if record["id"] == "a0"], ["worker-lost", "all-evidence"])

    def test_a_device_without_room_ends_the_run_with_a_sentence(self) -> None:
        self.write_pairs(*self.many(2))
        process = subprocess.run(
            ["prlimit", "--as=4000000000", PROGRAM, "verify", "--jsonl", self.pairs, "--out", "/dev/full", "--trials", "1"], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(process.returncode, 2, process.stderr[-500:])
        self.assertIn("/dev/full", process.stderr)
        self.assertIn("No space left", process.stderr)

    @unittest.skipIf(os.getuid() != 0, "only root mounts")
    def test_a_full_disk_keeps_whole_lines_only(self) -> None:
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("this machine does not let us mount")
        try:
            self.out = disk / "verdicts.jsonl"
            self.write_pairs(*self.many(30))
            process = self.start()
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 2, err)
            self.assertIn("No space left", err)
            self.assertTrue(self.out.read_text().endswith("\n"))
            self.right(self.verdicts())
            self.assertGreater(len(self.verdicts()), 1)
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_hostile_answer_does_not_disturb_its_neighbours(self) -> None:
        loop = changed(("        y = torch.empty_like(x)", "        y = torch.empty_like(x)\n        while True:\n            pass"))
        pairs: list[dict[str, Any]] = self.many(6)
        pairs.insert(2, {"id": "loop", "problem": "relu.py", "candidate": loop})
        pairs.insert(4, {"id": "crash", "problem": "relu.py", "candidate": changed(("tl.store(y_ptr + offs,", "tl.store(y_ptr + offs * 100000000,"))})
        self.write_pairs(*pairs)
        self.verify("--jsonl", self.pairs, "--out", self.out, "--jobs", "2", "--trials", "1", "--budget", "run=3", code=0)
        verdicts = self.verdicts()
        self.assertEqual(verdicts.pop("loop")["reason"], "run-timeout")
        self.assertEqual(verdicts.pop("crash")["reason"], "out-of-bounds")
        self.right(verdicts)


class TasksTest(FrontTest):
    def test_pairs_may_name_tasks_of_a_library(self) -> None:
        tasks = self.file("tasks.jsonl", json.dumps({"task_id": "relu", "kind": "module", "reference": Path(self.problem).read_text(), "entry_point": "Model"}) + "\n")
        pairs = self.file(
            "pairs.jsonl", json.dumps({"id": "known", "task_id": "relu", "candidate": ANSWER}) + "\n" + json.dumps({"id": "unknown", "task_id": "gelu", "candidate": ANSWER}) + "\n"
        )
        done = self.verify("--jsonl", pairs, "--tasks", tasks, "--trials", "1", "--quiet", code=2)
        verdicts = {record["id"]: record for record in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(verdicts["known"]["verdict"], "accept")
        self.assertEqual(verdicts["unknown"]["reason"], "problem-unreadable")
        self.assertIn("gelu", verdicts["unknown"]["message"])


if __name__ == "__main__":
    unittest.main()
