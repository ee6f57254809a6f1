"""The program from end to end, one answer at a time: what it prints, and with which code it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import unittest

from front import ANSWER, EXAMPLES, PROBLEM, PROGRAM, WRONG, FrontTest, changed, descendants, run


class CommandsTest(FrontTest):
    def test_help_and_version(self) -> None:
        for arguments in (["--help"], ["-h"], ["help"]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 0)
            for command in ("verify", "rules"):
                self.assertIn(command, done.stdout)
        self.assertRegex(run("--version").stdout, r"^autotriton \d+\.\d+\.\d+\n$")
        self.assertEqual(run().returncode, 2)

    def test_an_unknown_command_is_named(self) -> None:
        done = run("verfy")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn("verfy", done.stderr)
        self.assertIn("--help", done.stderr)

    def test_rules_are_listed_and_explained(self) -> None:
        listed = run("rules", "list")
        self.assertEqual(listed.returncode, 0)
        for rule in ("no-jit-kernel", "kernel-not-launched", "torch-compute", "dynamic-code", "import-not-allowed", "name-rebound", "tampering", "device-read"):
            self.assertIn(rule, listed.stdout)
            explained = run("rules", "explain", rule)
            self.assertEqual(explained.returncode, 0)
            self.assertGreater(len(explained.stdout), 100)
        unknown = run("rules", "explain", "torch-compote")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("torch-compote", unknown.stderr)

    def test_rules_check_a_file(self) -> None:
        self.assertEqual(run("rules", "check", self.answer).returncode, 0)
        self.assertEqual(run("rules", "check", "-", stdin=ANSWER).returncode, 0)
        cheat = self.file("cheat.py", changed(("        return y", "        return torch.relu(x)")))
        done = run("rules", "check", cheat)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cheat.py:18:", done.stdout)
        self.assertIn("torch-compute", done.stdout)
        self.assertEqual(run("rules", "check", self.folder / "missing.py").returncode, 2)

    def test_torch_compute_can_be_reported_instead_of_refused(self) -> None:
        hybrid = self.file("hybrid.py", changed(("        return y", "        return torch.relu(y)")))
        self.assertEqual(run("rules", "check", hybrid).returncode, 1)
        done = run("rules", "check", hybrid, "--torch-compute", "report")
        self.assertEqual(done.returncode, 0)
        self.assertIn(": note torch-compute:", done.stdout)
        self.assertEqual(run("rules", "check", hybrid, "--torch-compute", "allow").returncode, 2)

    def test_findings_of_several_files_are_one_sarif_log(self) -> None:
        cheat = self.file("cheat.py", changed(("        return y", "        return torch.relu(x)")))
        done = run("rules", "check", self.answer, cheat, "--sarif")
        self.assertEqual(done.returncode, 1)
        log = json.loads(done.stdout)
        self.assertEqual(log["version"], "2.1.0")
        [found] = log["runs"]
        self.assertEqual(len(found["artifacts"]), 2)
        named = {result["ruleId"]: result for result in found["results"] if result["level"] == "error"}
        place = named["torch-compute"]["locations"][0]["physicalLocation"]
        self.assertEqual(place["region"], {"startLine": 18, "startColumn": 16})
        self.assertTrue(place["artifactLocation"]["uri"].endswith("cheat.py"))
        written = self.folder / "log.sarif"
        done = run("rules", "check", self.answer, "--sarif", "--out", written)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(json.loads(written.read_text())["runs"][0]["results"], [])

    def test_a_verdict_is_written_as_sarif_with_the_lines_of_the_reply(self) -> None:
        cheat = changed(("        return y", "        return torch.relu(x)"))
        reply = self.file("reply.md", f"Here it is:\n```python\n{cheat}```\n")
        written = self.folder / "verdict.sarif"
        done = run("verify", "--problem", self.problem, "--answer", reply, "--sarif", written)
        self.assertEqual(done.returncode, 1)
        results = json.loads(written.read_text())["runs"][0]["results"]
        lines = {result["ruleId"]: result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results}
        self.assertEqual(lines["torch-compute"], 20)
        self.assertEqual(run("verify", "--suite", self.folder, "--sarif", written).returncode, 2)

    def test_the_reference_of_verdicts_is_printed(self) -> None:
        done = run("verdict-reference")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("# Verdicts\n"))


class UsageTest(FrontTest):
    """Bad usage: exit 2, nothing on standard output, and a sentence that names the option."""

    def refused(self, word: str, *arguments: object) -> None:
        with self.subTest(word):
            done = self.verify(*map(str, arguments))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertIn(word, done.stderr)
            self.assertNotIn("internal error", done.stderr)
            self.assertNotIn("terminate called", done.stderr)

    def test_options_are_checked(self) -> None:
        pair = ["--problem", self.problem, "--candidate", self.answer]
        self.refused("--flibble", *pair, "--flibble")
        self.refused("not in this build", *pair, "--device", "cuda")
        self.refused("--device", *pair, "--device", "tpu")
        for budget in ("nonsense", "run", "run=", "run=fast", "run=-1", "run=0", "walk=3", "=3", "run=1e99", "run=nan", "run=inf"):
            self.refused("--budget", *pair, "--budget", budget)
        for seed in ("abc", "-1", "1.5", "99999999999999999999999"):
            self.refused("--seed", *pair, "--seed", seed)
        for trials in ("0", "-3", "65", "many"):
            self.refused("--trials", *pair, "--trials", trials)
        for target in ("sm_", "90", "sm_20", "sm_90x", "gfx942", ""):
            self.refused("--target", *pair, "--target", target)
        self.refused("--shapes", *pair, "--shapes", "large")
        self.refused("--jobs", "--jsonl", "x.jsonl", "--jobs", "-1")

    def test_one_thing_to_judge_is_demanded(self) -> None:
        self.refused("--problem")
        self.refused("--candidate", "--problem", self.problem)
        self.refused("--candidate", "--problem", self.problem, "--candidate", self.answer, "--answer", self.answer)
        self.refused("--problem", "--candidate", self.answer)
        self.refused("exactly one", "--problem", self.problem, "--candidate", self.answer, "--jsonl", "pairs.jsonl")
        self.refused("standard input", "--problem", "-", "--candidate", "-")


class FilesTest(FrontTest):
    def test_files_that_cannot_be_read_are_named(self) -> None:
        empty = self.file("empty.py", "")
        large = self.folder / "large.py"
        with open(large, "wb") as file:
            file.truncate(51_000_000)
        latin = self.file("latin.py", PROBLEM.replace("import torch\n", "# caf\xe9\nimport torch\n", 1).encode("latin-1"))
        unreadable = [self.folder / "missing.py", self.folder, large, latin, empty]
        if os.getuid() != 0:
            locked = self.file("locked.py", PROBLEM)
            locked.chmod(0)
            unreadable.append(locked)
        for path in unreadable:
            with self.subTest(f"problem {path.name}"):
                done = self.verify("--problem", path, "--candidate", self.answer, code=2)
                self.assertIn(path.name, done.stderr + done.stdout)
                self.assertNotIn("internal error", done.stderr)
        for path in (self.folder / "missing.py", self.folder, large):
            with self.subTest(f"candidate {path.name}"):
                done = self.verify("--problem", self.problem, "--candidate", path, code=2)
                self.assertIn(path.name, done.stderr)

    def test_a_problem_without_model_is_bad_input(self) -> None:
        for source in ("import torch\n", "class Model:\n    pass\n", "def get_inputs():\n    return []\n", "this is no python\n", "x = 1\n" * 1000):
            with self.subTest(source[:20]):
                done = self.verify("--problem", self.file("bad.py", source), "--candidate", self.answer, code=2)
                self.assertIn("bad", done.stderr + done.stdout)

    def test_a_crashing_reference_shows_the_end_of_its_traceback(self) -> None:
        cases = {
            "at import": PROBLEM + "\nraise OverflowError('too much of it')\n",
            "in forward": PROBLEM.replace("return torch.relu(x)", "raise OverflowError('too much of it')"),
            "in the constructor": PROBLEM.replace("    def forward", "    def __init__(self):\n        super().__init__()\n        raise OverflowError('too much of it')\n\n    def forward"),
            "in get_inputs": PROBLEM.replace("return [torch.randn(16, 33)]", "raise OverflowError('too much of it')"),
        }
        for what, source in cases.items():
            with self.subTest(what):
                verdict = self.verdict("--problem", self.file("crash.py", source), "--candidate", self.answer, code=2)
                self.assertEqual((verdict["verdict"], verdict["reason"], verdict["reward"]), ("error", "reference-failed", None))
                self.assertIn("OverflowError: too much of it", verdict["message"])
                self.assertRegex(verdict["message"], r"line \d+")

    def test_a_reference_that_leaves_is_bad_input_and_no_fault_of_ours(self) -> None:
        cases = {
            "exits": PROBLEM.replace("return torch.relu(x)", "raise SystemExit(0)"),
            "leaves at once": PROBLEM.replace("return torch.relu(x)", "import os; os._exit(0)"),
            "aborts": PROBLEM.replace("return torch.relu(x)", "import os; os.abort()"),
            "exits at import": PROBLEM + "\nraise SystemExit(3)\n",
        }
        for what, source in cases.items():
            with self.subTest(what):
                verdict = self.verdict("--problem", self.file("leaves.py", source), "--candidate", self.answer)
                self.assertEqual((verdict["verdict"], verdict["reason"]), ("error", "reference-failed"), verdict["message"])


class AnswersTest(FrontTest):
    def judged(self, text: str | bytes, *arguments: str) -> dict[str, object]:
        return self.verdict("--problem", self.problem, "--answer", "-", *arguments, stdin=text)

    def test_a_good_answer_is_accepted_in_every_way_to_hand_it_in(self) -> None:
        fenced = f"<think>\nA draft:\n```python\nclass ModelNew:\n    pass\n```\n</think>\nHere:\n```python\n{ANSWER}```\nDone.\n"
        ways: list[tuple[str, list[object], str | bytes | None]] = [
            ("a file", ["--problem", self.problem, "--candidate", self.answer], None),
            ("source on standard input", ["--problem", self.problem, "--candidate", "-"], ANSWER),
            ("a reply on standard input", ["--problem", self.problem, "--answer", "-"], fenced),
            ("the problem on standard input", ["--problem", "-", "--candidate", self.answer], PROBLEM),
            ("BOM and CRLF", ["--problem", self.problem, "--candidate", "-"], b"\xef\xbb\xbf" + ANSWER.replace("\n", "\r\n").encode()),
            ("an unclosed fence", ["--problem", self.problem, "--answer", "-"], f"```python\n{ANSWER}"),
            ("a confined machine demanded", ["--problem", self.problem, "--candidate", self.answer, "--require-sandbox"], None),
        ]
        for what, arguments, stdin in ways:
            with self.subTest(what):
                verdict = self.verdict(*map(str, arguments), "--trials", "1", code=0, stdin=stdin)
                self.assertEqual((verdict["verdict"], verdict["reason"], verdict["reward"], verdict["grade"]), ("accept", "all-evidence", 1.0, "cpu"))
                self.assertEqual((verdict["is_triton"], verdict["tests_pass"]), (True, True))
                self.assertEqual(verdict["sandbox"]["missing"], [])
                self.assertTrue(all(trial["pass"] for trial in verdict["trials"]))
                self.assertEqual(verdict["launches"][0]["kernel"], "relu_kernel")
                self.assertGreater(verdict["launches"][0]["compiled"]["registers"], 0)

    def test_replies_without_a_usable_answer_are_refused(self) -> None:
        cases: list[tuple[str | bytes, str]] = [
            ("", "empty-answer"),
            ("   \n\n", "empty-answer"),
            ("torch.relu is hard to beat, I would keep it.", "no-code"),
            (f"<think>\n```python\n{ANSWER}```\n</think>\nI give up.", "no-code"),
            (f"```python\n{ANSWER.replace('ModelNew', 'Model')}```", "entry-missing"),
            ("```python\n" + ANSWER.replace("def forward(self, x):", "def forward(self, x:") + "```", "syntax-error"),
            (f"```python\n{ANSWER}```\n".encode() + b"\xff\xfe\xfa", "not-text"),
            ("```python\n" + ANSWER + "#" * 2_000_000 + "\n```", "too-large"),
        ]
        for text, reason in cases:
            with self.subTest(reason):
                verdict = self.judged(text)
                self.assertEqual((verdict["verdict"], verdict["reason"], verdict["reward"]), ("reject", reason, 0.0), verdict["message"])

    def test_of_several_blocks_the_last_that_defines_the_entry_is_judged(self) -> None:
        verdict = self.judged(f"First:\n```python\n{ANSWER}```\nNo, better:\n```python\n{WRONG}```\n", "--trials", "1")
        self.assertEqual(verdict["reason"], "wrong-values")


class OutcomesTest(FrontTest):
    def test_the_readmes_examples(self) -> None:
        done = self.verify("--problem", EXAMPLES / "softmax.py", "--candidate", EXAMPLES / "answer.py", code=0)
        self.assertTrue(done.stdout.startswith("accept  all-evidence  (softmax)\n"), done.stdout)
        for line in ("kernel softmax_kernel", "kernel knock-out: the outputs became wrong", "torch knock-out: only glue ran", "storage ledger: every buffer accounted for"):
            self.assertIn(line, done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        done = self.verify("--problem", EXAMPLES / "softmax.py", "--candidate", EXAMPLES / "cheat.py", code=1)
        self.assertTrue(done.stdout.startswith("reject  torch-compute  (softmax)\n"), done.stdout)
        verdict = self.verdict("--problem", EXAMPLES / "softmax.py", "--candidate", EXAMPLES / "wrong.py", code=1)
        self.assertEqual(verdict["reason"], "wrong-values")
        self.assertEqual(self.verdict("--problem", EXAMPLES / "softmax.py", "--answer", EXAMPLES / "reply.md", code=0)["verdict"], "accept")

    def test_an_inconclusive_answer_ends_with_three_and_no_reward(self) -> None:
        degenerate = PROBLEM.replace("return torch.relu(x)", "return torch.zeros_like(x)")
        answer = changed(("tl.maximum(x, 0.0)", "x * 0.0"))
        verdict = self.verdict("--problem", self.file("zeros.py", degenerate), "--candidate", "-", stdin=answer, code=3)
        self.assertEqual((verdict["verdict"], verdict["reason"], verdict["reward"]), ("inconclusive", "task-degenerate", None))

    def test_a_budget_that_is_too_small_refuses(self) -> None:
        slow = changed(("        y = torch.empty_like(x)", "        y = torch.empty_like(x)\n        while True:\n            pass"))
        started = time.monotonic()
        verdict = self.verdict("--problem", self.problem, "--candidate", "-", "--budget", "run=1", stdin=slow, code=1)
        self.assertEqual(verdict["reason"], "run-timeout")
        self.assertLess(time.monotonic() - started, 30)

    def test_without_python_the_way_out_is_named(self) -> None:
        done = self.verify("--problem", self.problem, "--candidate", self.answer, code=2, AUTOTRITON_PYTHON="/nowhere/python")
        self.assertIn("/nowhere/python", done.stderr)
        done = self.verify("--problem", self.problem, "--candidate", self.answer, code=2, AUTOTRITON_PYTHON="", AUTOTRITON_CACHE=str(self.folder))
        self.assertIn("make setup", done.stderr)

    def test_a_reader_that_went_away_is_an_error_and_no_death(self) -> None:
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "verify", "--problem", self.problem, "--candidate", self.answer, "--trials", "1"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"standard output", done.stderr)


class ReplayTest(FrontTest):
    def trials(self, verdict: dict[str, object]) -> object:
        return [{key: trial[key] for key in ("seed", "inputs", "scaled", "max_abs_error", "failure", "pass")} for trial in verdict["trials"]]  # type: ignore[attr-defined, index]

    def test_a_seed_gives_the_same_trials_and_another_seed_others(self) -> None:
        arguments = ["--problem", str(self.problem), "--candidate", str(self.file("wrong.py", WRONG))]
        first = self.verdict(*arguments, "--seed", "42", code=1)
        self.assertEqual(first["environment"]["seed"], "42")
        self.assertEqual(self.trials(self.verdict(*arguments, "--seed", "42")), self.trials(first))
        self.assertNotEqual(self.trials(self.verdict(*arguments, "--seed", "43")), self.trials(first))

    def test_without_a_seed_every_run_has_its_own(self) -> None:
        arguments = ["--problem", str(self.problem), "--candidate", str(self.file("wrong.py", WRONG)), "--trials", "1"]
        seeds = {self.verdict(*arguments)["environment"]["seed"] for _ in range(3)}
        self.assertEqual(len(seeds), 3)

    def test_what_is_kept_replays_the_same_verdict(self) -> None:
        kept = self.folder / "kept"
        first = self.verdict("--problem", self.problem, "--candidate", self.file("wrong.py", WRONG), "--keep", kept, "--trials", "2", "--target", "sm_80", code=1)
        (case,) = list(kept.iterdir())
        self.assertEqual({path.name for path in case.iterdir()}, {"problem.py", "candidate.py", "verdict.json", "replay.sh"})
        self.assertEqual(json.loads((case / "verdict.json").read_text())["message"], first["message"])
        again = self.replayed(case)
        self.assertEqual(self.trials(again), self.trials(first))
        self.assertEqual((again["reason"], again["message"]), (first["reason"], first["message"]))

    def test_a_kept_reply_and_a_kept_function_replay_too(self) -> None:
        kept = self.folder / "kept"
        functions = "import torch\n\n\ndef other(x):\n    return x\n\n\ndef relu(x):\n    return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.randn(16, 33)]\n"
        reply = "```python\n" + WRONG.replace("class ModelNew(nn.Module):\n    def forward(self, x):", "def relu(x):").replace("        ", "    ") + "```\n"
        first = self.verdict("--problem", self.file("functions.py", functions), "--entry", "relu", "--answer", "-", "--keep", kept, "--trials", "1", stdin=reply, code=1)
        self.assertEqual(first["reason"], "wrong-values", first["message"])
        (case,) = list(kept.iterdir())
        self.assertEqual(self.trials(self.replayed(case)), self.trials(first))

    def test_an_accepted_answer_is_not_kept(self) -> None:
        kept = self.folder / "kept"
        self.verdict("--problem", self.problem, "--candidate", self.answer, "--keep", kept, "--trials", "1", code=0)
        self.assertFalse(kept.exists() and any(kept.iterdir()))

    def replayed(self, case: object) -> dict[str, object]:
        bin_folder = self.folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        (bin_folder / "autotriton").unlink(missing_ok=True)
        (bin_folder / "autotriton").write_text(f'#!/bin/sh\nexec "{PROGRAM}" "$@" --json\n')
        (bin_folder / "autotriton").chmod(0o755)
        done = subprocess.run(["sh", f"{case}/replay.sh"], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 1, done.stderr)
        return dict(json.loads(done.stdout))


class InterruptTest(FrontTest):
    def test_ctrl_c_ends_everything_with_130_whenever_it_comes(self) -> None:
        slow = self.file("slow.py", changed(("        y = torch.empty_like(x)", "        y = torch.empty_like(x)\n        while True:\n            pass")))
        for moment in ("at once", "while the workers start", "while the answer runs"):
            with self.subTest(moment):
                process = subprocess.Popen(
                    [PROGRAM, "verify", "--problem", self.problem, "--candidate", slow, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                deadline = time.monotonic() + 60
                wanted = {"at once": 0, "while the workers start": 1, "while the answer runs": 7}[moment]  # Processes below the front.
                while len(descendants(process.pid)) < wanted and time.monotonic() < deadline:
                    time.sleep(0.02)
                time.sleep(0.2)
                children = descendants(process.pid)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 130, err)
                self.assertEqual(out, "")
                deadline = time.monotonic() + 5
                while time.monotonic() < deadline and any(os.path.exists(f"/proc/{child}") for child in children):
                    time.sleep(0.02)
                self.assertFalse([child for child in children if os.path.exists(f"/proc/{child}")], "children are left")


if __name__ == "__main__":
    unittest.main()
