"""A fleet over a real Redis: workers killed at random, Redis killed once, answers that kill, drains and second runs."""

from __future__ import annotations

import collections
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path
from typing import Any

from front import ANSWER, PROGRAM, WRONG, FrontTest, changed, run

CHEAT = changed(("        return y", "        return torch.relu(x)"))
SEED = int(os.environ.get("FLEET_TEST_SEED", "20250711"))

Reply = str | int | None | list["Reply"]


class Redis:
    """A server of our own on a Unix socket, and commands to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        # Debian's redis-tools holds the server too, under the name of a program that it can also be.
        self.program = folder / "redis-server"
        self.program.symlink_to(shutil.which("redis-server") or "/usr/bin/redis-check-rdb")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis+unix://{self.socket}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.program, "--port", "0", "--unixsocket", self.socket, "--dir", self.folder, "--save", "", "--appendonly", "yes",
             "--appendfsync", "always", "--logfile", self.folder / "redis.log"],
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                if self.command("PING") == "PONG":
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("redis-server does not start; tools/setup.sh brings it")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def command(self, *words: str) -> Reply:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.socket))
            parts = [word.encode() for word in words]
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            with connection.makefile("rb") as file:
                return self._read(file)

    def _read(self, file: Any) -> Reply:
        line = file.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"$":
            return None if int(rest) < 0 else file.read(int(rest) + 2)[:-2].decode("utf-8", "replace")
        if kind == b"*":
            return None if int(rest) < 0 else [self._read(file) for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest.decode()

    def entries(self, stream: str) -> dict[str, dict[str, str]]:
        """Entry to its fields."""
        found = self.command("XRANGE", f"{{autotriton}}:{stream}", "-", "+")
        assert isinstance(found, list)
        entries: dict[str, dict[str, str]] = {}
        for entry in found:
            assert isinstance(entry, list) and isinstance(entry[1], list)
            fields = [str(field) for field in entry[1]]
            entries[str(entry[0])] = dict(zip(fields[::2], fields[1::2], strict=True))
        return entries

    def holders(self) -> dict[str, int]:
        """Entry to the process that holds it."""
        pending = self.command("XPENDING", "{autotriton}:items", "workers", "-", "+", "1000")
        held: dict[str, int] = {}
        for entry in pending if isinstance(pending, list) else []:
            assert isinstance(entry, list)
            held[str(entry[0])] = int(str(entry[1]).split(":")[-2])
        return held


class QueueFleetTest(FrontTest):
    def setUp(self) -> None:
        super().setUp()
        self.redis = Redis(self.folder)
        self.addCleanup(self.redis.kill)
        self.pairs = self.folder / "pairs.jsonl"
        self.out = self.folder / "verdicts.jsonl"
        self.workers: list[subprocess.Popen[str]] = []
        self.addCleanup(self.end_all)

    def end_all(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    def worker(self, *arguments: str) -> subprocess.Popen[str]:
        log = self.enterContext((self.folder / f"worker-{len(self.workers)}.log").open("w"))
        process = subprocess.Popen(
            [PROGRAM, "reward", "--queue", self.redis.url, "--jobs", "1", "--trials", "1", "--queue-lease", "2", *arguments],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )
        self.workers.append(process)
        return process

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        process = self.worker(*arguments)
        assert process.stdout is not None
        line = process.stdout.readline()
        self.assertIn("working for queue autotriton", line, self.logs())
        return process

    def producer(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [PROGRAM, "verify", "--jsonl", self.pairs, "--out", self.out, "--queue", self.redis.url],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def finish(self, producer: subprocess.Popen[str], code: int, seconds: float = 240) -> str:
        try:
            _, errors = producer.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            producer.kill()
            self.fail(f"not done in {seconds} s; {self.logs()}\n{producer.communicate()[1]}")
        self.assertEqual(producer.returncode, code, errors + self.logs())
        return errors

    def logs(self) -> str:
        return "\n".join(f"-- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self.folder.glob("worker-*.log")))

    def write_pairs(self, lines: list[dict[str, Any] | str]) -> None:
        self.pairs.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))

    def verdicts(self, path: Path | None = None) -> dict[str, dict[str, Any]]:
        """By id, none of which may come twice."""
        records = [json.loads(line) for line in (path or self.out).read_text().splitlines()]
        twice = [name for name, count in collections.Counter(record["id"] for record in records).items() if count > 1]
        self.assertEqual(twice, [])
        return {record["id"]: record for record in records}

    def wait_until(self, what: str, holds: Any, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if holds():
                return
            time.sleep(0.02)
        self.fail(f"not in time: {what}; {self.logs()}")

    def judged(self) -> int:
        return self.out.read_bytes().count(b"\n") if self.out.exists() else 0

    # ------------------------------------------------------------------------------------------------------------------

    def test_verdicts_are_those_of_an_undisturbed_run_whoever_is_killed(self) -> None:
        lines: list[dict[str, Any] | str] = [
            {"id": f"pair-{index}", "problem": "relu.py", "candidate": f"# {index}\n" + (CHEAT if index % 4 else (ANSWER, WRONG)[index % 8 // 4])}
            for index in range(40)
        ]
        lines[7] = {"id": "the-same-1", "problem": "relu.py", "candidate": ANSWER}
        lines[9] = {"id": "the-same-2", "problem": "relu.py", "candidate": ANSWER}
        lines[11] = "{no json"
        lines[13] = {"id": "a-reply", "problem": "relu.py", "answer": f"<think>so\n</think>\n```python\n{ANSWER}```\n"}
        lines[15] = {"id": "no-code", "problem": "relu.py", "answer": "I would rather not."}
        self.write_pairs(lines)
        alone = self.folder / "alone.jsonl"
        run("verify", "--jsonl", self.pairs, "--out", alone, "--jobs", "2", "--trials", "1", timeout=300)

        chance = random.Random(SEED)
        fleet = [self.started("--queue-tries", "20") for _ in range(3)]
        producer = self.producer()
        kills = 0
        for turn in range(6):
            step = self.judged()
            self.wait_until("a verdict", lambda step=step: self.judged() > step or producer.poll() is not None)
            if producer.poll() is not None:
                break
            time.sleep(chance.uniform(0, 0.4))
            if turn == 2:
                self.redis.kill()
                time.sleep(chance.uniform(0, 0.5))
                self.redis.start()
            # One that holds something, if there is one: that hurts most.
            holding = [place for place, worker in enumerate(fleet) if worker.pid in self.redis.holders().values()]
            place = chance.choice(holding or range(3))
            fleet[place].send_signal(signal.SIGKILL)
            kills += 1
            fleet[place] = self.worker("--queue-tries", "20")
        self.finish(producer, 2)  # One line is no JSON.
        self.assertGreaterEqual(kills, 3, "the fleet was too quick to be disturbed")

        expected, found = self.verdicts(alone), self.verdicts()
        self.assertEqual(len(found), len(lines))
        self.assertEqual(
            {name: (verdict["verdict"], verdict["reason"], verdict["reward"]) for name, verdict in found.items()},
            {name: (verdict["verdict"], verdict["reason"], verdict["reward"]) for name, verdict in expected.items()},
        )
        self.assertEqual(found["the-same-1"]["cost"], found["the-same-2"]["cost"])  # Equal work is done once.
        self.assertEqual(self.redis.entries("items"), {})
        self.assertEqual(self.redis.entries("dead"), {})
        self.assertEqual(self.redis.command("KEYS", "{autotriton}:result:*"), [])

    def test_an_answer_whose_workers_all_die_is_a_dead_letter_and_the_others_are_judged(self) -> None:
        self.write_pairs([
            {"id": "poison", "problem": "relu.py", "candidate": "# poison\n" + ANSWER},
            *({"id": f"good-{index}", "problem": "relu.py", "candidate": f"# {index}\n{ANSWER}"} for index in range(3)),
            {"id": "cheat", "problem": "relu.py", "candidate": CHEAT},
        ])
        fleet = [self.started(), self.started()]
        producer = self.producer()
        killed = 0
        deadline = time.monotonic() + 200
        while producer.poll() is None and time.monotonic() < deadline:
            poison = [entry for entry, fields in self.redis.entries("items").items() if "# poison" in fields["bytes"]]
            holders = self.redis.holders()
            for place, worker in enumerate(fleet):
                if worker.poll() is None and any(holders.get(entry) == worker.pid for entry in poison):
                    worker.send_signal(signal.SIGKILL)
                    worker.wait()
                    killed += 1
                    fleet[place] = self.worker()
            time.sleep(0.005)
        self.finish(producer, 4)
        self.assertEqual(killed, 3)
        verdicts = self.verdicts()
        self.assertEqual((verdicts["poison"]["verdict"], verdicts["poison"]["reason"]), ("error", "worker-lost"))
        self.assertIsNone(verdicts["poison"]["reward"])
        self.assertEqual([verdicts[f"good-{index}"]["verdict"] for index in range(3)], ["accept"] * 3)
        self.assertEqual(verdicts["cheat"]["reason"], "torch-compute")
        letters = list(self.redis.entries("dead").values())
        self.assertEqual([letter["tries"] for letter in letters], ["3"])
        self.assertIn("# poison", letters[0]["bytes"])
        # Run again, with nobody killing: a fault of ours is judged anew.
        self.finish(self.producer(), 0)
        last = {record["id"]: record for record in map(json.loads, self.out.read_text().splitlines())}
        self.assertEqual(last["poison"]["verdict"], "accept")

    def test_an_interrupted_run_goes_on_with_what_was_judged_meanwhile(self) -> None:
        self.write_pairs([{"id": f"a{index}", "problem": "relu.py", "candidate": f"# {index}\n{CHEAT}"} for index in range(200)])
        producer = self.producer()
        self.wait_until("all are in the queue", lambda: self.redis.command("XLEN", "{autotriton}:items") == 200)
        producer.send_signal(signal.SIGINT)
        self.finish(producer, 130)
        worker = self.started()
        self.wait_until("all are judged", lambda: self.redis.command("XLEN", "{autotriton}:items") == 0)
        worker.send_signal(signal.SIGKILL)
        self.assertIn("200 judged", self.finish(self.producer(), 0))  # With no worker left.
        self.assertEqual(len(self.verdicts()), 200)
        self.assertIn("200 had a verdict already", self.finish(self.producer(), 0))

    def test_a_drained_worker_finishes_what_it_began_and_leaves_the_rest(self) -> None:
        self.write_pairs([{"id": f"a{index}", "problem": "relu.py", "candidate": f"# {index}\n{ANSWER}"} for index in range(3)])
        worker = self.started()
        producer = self.producer()
        self.wait_until("it holds one", lambda: worker.pid in self.redis.holders().values())
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(60), 0, self.logs())
        self.assertEqual(self.redis.holders(), {})
        self.assertEqual(self.redis.command("XINFO", "CONSUMERS", "{autotriton}:items", "workers"), [])
        self.started()
        self.finish(producer, 0)
        self.assertEqual({verdict["verdict"] for verdict in self.verdicts().values()}, {"accept"})
        self.assertEqual(self.redis.entries("dead"), {})

    def test_workers_of_other_settings_and_options_that_are_the_workers_are_refused(self) -> None:
        self.started()
        other = self.worker("--profile", "format")
        self.assertEqual(other.wait(60), 2, self.logs())
        self.assertIn("profile format", self.logs())
        self.write_pairs([{"id": "a", "problem": "relu.py", "candidate": CHEAT}])
        done = self.verify("--jsonl", self.pairs, "--queue", self.redis.url, "--trials", "3", code=2)
        self.assertIn("--trials", done.stderr)
        done = self.verify("--jsonl", self.pairs, "--queue", "rediss://:hunter2@h", code=2)
        self.assertIn("TLS", done.stderr)
        self.assertNotIn("hunter2", done.stderr)


if __name__ == "__main__":
    unittest.main()
