"""`autotriton reward` as trainers meet it: every protocol over a live server, what goes wrong, and how it ends."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, ClassVar

from front import ANSWER, PROBLEM, PROGRAM, ROOT, WRONG, changed, descendants

CHEAT = changed(("        return y", "        return torch.relu(x)"))
REPLY = f"<think>Easy.</think>\nHere it is:\n```python\n{ANSWER}```\n"
DIFFERENT = iter(range(10**6))


def fresh(code: str = ANSWER) -> str:
    """The same answer as a text that no one has sent before."""
    return f"{code}\n# {next(DIFFERENT)}\n"


class Server:
    """A live server, ended when its test is."""

    def __init__(self, *arguments: str, key: str = "", **environment: str) -> None:
        self.key = key
        self.log = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the server.
        self.process = subprocess.Popen(
            [PROGRAM, "reward", "--port", "0", "--trials", "1", *arguments], stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, "AUTOTRITON_API_KEY": key, **environment}, start_new_session=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(r"listening on http://127\.0\.0\.1:(\d+)", line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"{line!r}: {self.text()}")
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def text(self) -> str:
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 120) -> tuple[int, Any, http.client.HTTPMessage]:
        """Status, body (JSON where it is some), headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
            connection.request(method, path, raw, {**own, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            try:
                return response.status, json.loads(text), response.headers
            except ValueError:
                return response.status, text.decode(), response.headers
        finally:
            connection.close()

    def post(self, path: str, body: Any, **more: Any) -> Any:
        status, answer, _ = self.ask("POST", path, body, **more)
        assert status == 200, (status, answer)
        return answer

    def verify(self, code: str, **more: Any) -> Any:
        return self.post("/v1/verify", {"problem": PROBLEM, "candidate": code, **more})

    def metric(self, name: str) -> float:
        _, text, _ = self.ask("GET", "/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def wait_for(self, condition: Any, seconds: float = 30) -> None:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"it did not come to it\n{self.text()}")
            time.sleep(0.02)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()
        return self.process.returncode


class RewardServerTest(unittest.TestCase):
    server: ClassVar[Server]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="autotriton-test-")
        tasks = Path(cls.folder.name) / "tasks.jsonl"
        tasks.write_text(json.dumps({"task_id": "relu", "reference": PROBLEM}) + "\n")
        cls.server = Server("--jobs", "2", "--tasks", str(tasks), "--queue-limit", "64", key="s3cret")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.end()
        cls.folder.cleanup()

    def test_openrlhf_gets_a_reward_for_each_query(self) -> None:
        prompt = "<|user|>\nWrite a relu in Triton, and nothing that is not needed.<|assistant|>\n"
        answer = self.server.post("/get_reward", {
            "query": [prompt + REPLY + "<|im_end|>", prompt + WRONG, prompt + CHEAT],
            "prompts": [prompt] * 3,
            "labels": [PROBLEM, "relu", json.dumps({"reference": PROBLEM})],
        })
        self.assertEqual(answer["rewards"], [1.0, 0.0, 0.0], answer)
        self.assertEqual(answer["scores"], answer["rewards"])
        self.assertEqual(answer["reasons"][0], "all-evidence")
        self.assertEqual(answer["extra_logs"]["accepted"], [1.0, 0.0, 0.0])

    def test_an_example_in_the_prompt_is_not_the_models_answer(self) -> None:
        prompt = f"Here is an example:\n```python\n{ANSWER}```\nNow you."
        answer = self.server.post("/get_reward", {"query": [prompt, prompt + " I cannot."], "prompts": [prompt] * 2, "labels": ["relu"] * 2})
        self.assertEqual(answer["rewards"], [0.0, 0.0], answer)
        self.assertEqual(answer["reasons"], ["empty-answer", "no-code"])

    def test_slime_gets_a_number(self) -> None:
        self.assertEqual(self.server.post("/reward", {"prompt": "…", "response": REPLY, "label": "relu"}), 1.0)
        whole = self.server.post("/reward?as=object", {"prompt": "…", "response": WRONG, "label": {"reference": PROBLEM}})
        self.assertEqual((whole["score"], whole["reason"]), (0.0, "wrong-values"))

    def test_kernelgym_evaluates_and_gives_results_later(self) -> None:
        task = {"task_id": "k1", "reference_code": PROBLEM, "kernel_code": ANSWER, "backend": "triton", "num_correct_trials": 5, "num_perf_trials": 100,
                "timeout": 120, "priority": "normal", "entry_point": "Model", "is_valid": False, "verbose_errors": True, "reference_backend": None}
        good = self.server.post("/evaluate", task)
        self.assertEqual((good["status"], good["compiled"], good["correctness"], good["decoy_kernel"]), ("completed", True, True, False))
        self.assertEqual(self.server.ask("GET", "/status/k1")[1]["status"], "completed")
        self.assertEqual(self.server.ask("GET", "/results/k1")[1], good)
        batch = self.server.post("/evaluate/batch", {"batch_id": "b", "tasks": [{**task, "task_id": "k2", "kernel_code": CHEAT}, {**task, "task_id": "k3", "kernel_code": WRONG}]})
        self.assertEqual([result["correctness"] for result in batch["results"]], [False, False])
        self.assertEqual([result["decoy_kernel"] for result in batch["results"]], [True, False])
        self.assertEqual(self.server.ask("GET", "/results/none")[0], 404)

    def test_verify_gives_the_whole_verdict(self) -> None:
        verdict = self.server.post("/v1/verify", {"id": "mine", "task_id": "relu", "answer": REPLY})
        self.assertEqual((verdict["verdict"], verdict["reward"], verdict["id"], verdict["task_id"]), ("accept", 1.0, "mine", "relu"))
        self.assertEqual([launch["kernel"] for launch in verdict["launches"]], ["relu_kernel"])
        results = self.server.post("/v1/verify/batch", {"items": [{"problem": PROBLEM, "candidate": CHEAT, "id": 1}, {"label": "relu", "answer": "no"}, {"label": "unknown", "answer": "no"}]})["results"]
        self.assertEqual([result["reward"] for result in results], [0.0, 0.0, None])
        self.assertEqual(results[2]["reason"], "problem-unreadable")

    def test_equal_requests_at_once_are_judged_once(self) -> None:
        code = fresh()
        before = self.server.metric("autotriton_judge_seconds_count")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            verdicts = list(pool.map(lambda _: self.server.verify(code), range(8)))
        self.assertEqual({verdict["reward"] for verdict in verdicts}, {1.0})
        self.assertLess(self.server.metric("autotriton_judge_seconds_count") - before, 8)
        self.assertGreater(self.server.metric("autotriton_coalesced_total"), 0)

    def test_what_is_not_judged_in_time_is_null(self) -> None:
        _, answer, _ = self.server.ask("POST", "/get_reward", {"query": [fresh()], "prompts": [""], "labels": ["relu"]}, {"X-Request-Timeout": "0.05"})
        self.assertEqual((answer["rewards"], answer["reasons"]), ([None], ["deadline"]))
        self.assertEqual(self.server.verify(fresh(), deadline_seconds=0.05)["reason"], "deadline")

    def test_without_the_key_nothing_is_judged(self) -> None:
        for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": ""}):
            status, answer, _ = self.server.ask("POST", "/v1/verify", {"problem": PROBLEM, "candidate": ANSWER}, headers)
            self.assertEqual((status, answer["error"]["code"]), (401, "invalid_api_key"))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        connection.request("GET", "/health")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        self.assertNotIn("s3cret", self.server.text())

    def test_requests_that_are_wrong_say_what_is(self) -> None:
        for body, word in ((b"{", "no JSON"), (b"[]", "no JSON object"), ({"answer": "a"}, "exactly one"), ({"problem": "/etc/passwd", "answer": "a"}, "problem")):
            status, answer, _ = self.server.ask("POST", "/v1/verify", body)
            self.assertEqual(status, 400, body)
            self.assertIn(word, answer["error"]["message"])
        self.assertEqual(self.server.ask("GET", "/v1/verify")[0], 405)
        self.assertEqual(self.server.ask("GET", "/nothing")[0], 404)

    def test_a_body_over_the_limit_is_refused_unread(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        connection.putrequest("POST", "/v1/verify")
        connection.putheader("Content-Length", str(1 << 30))
        connection.putheader("Authorization", "Bearer s3cret")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 413)
        connection.close()

    def test_two_hundred_connections_at_once_are_served(self) -> None:
        body = json.dumps({"query": ["no code"], "prompts": [""], "labels": ["relu"]}).encode()
        request = b"POST /get_reward HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer s3cret\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        sockets = [socket.create_connection(("127.0.0.1", self.server.port), timeout=60) for _ in range(200)]
        for one in sockets:
            one.sendall(request)
        for one in sockets:
            with one, one.makefile("rb") as file:
                self.assertIn(b" 200 ", file.readline())

    def test_metrics_and_health_tell_what_goes_on(self) -> None:
        self.server.verify(ANSWER)
        _, text, headers = self.server.ask("GET", "/metrics")
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        for name in ("http_requests_total", "http_request_seconds_bucket", "verdicts_total", "queue_waiting", "judging", "reward_bucket", "judge_seconds_sum"):
            self.assertIn(f"autotriton_{name}", text)
        _, health, _ = self.server.ask("GET", "/health")
        self.assertEqual((health["status"], health["jobs"], health["profile"]), ("healthy", 2, "paper"))

    def test_the_readmes_curl_call_works(self) -> None:
        readme = (ROOT / "README.md").read_text()
        found = re.search(r"^python3 -c [^\n]*\n[^\n]*curl -s localhost:9000/get_reward -d @-$", readme, re.M)
        assert found, "README.md shows a curl call"
        command = found[0].replace("localhost:9000", f"-H 'Authorization: Bearer s3cret' 127.0.0.1:{self.server.port}")
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
        self.assertEqual(json.loads(done.stdout)["rewards"], [1.0], done.stderr)


class RewardServerEndsTest(unittest.TestCase):
    def start(self, *arguments: str, jobs: int = 1) -> Server:
        server = Server("--jobs", str(jobs), *arguments)
        self.addCleanup(server.end)
        return server

    def background(self, server: Server, count: int, **more: Any) -> list[concurrent.futures.Future[Any]]:
        """Asks for `count` different answers at once, each in a request of its own."""
        pool = concurrent.futures.ThreadPoolExecutor(count)
        self.addCleanup(pool.shutdown)
        return [pool.submit(server.ask, "POST", "/v1/verify", {"problem": PROBLEM, "candidate": fresh(), **more}) for _ in range(count)]

    def test_a_full_queue_refuses_whole_batches_and_says_when_to_come_back(self) -> None:
        server = self.start("--queue-limit", "2")
        running = self.background(server, 3)
        server.wait_for(lambda: server.metric("autotriton_queue_waiting") >= 1)
        items = [{"problem": PROBLEM, "candidate": fresh()} for _ in range(2)]
        status, answer, headers = server.ask("POST", "/v1/verify/batch", {"items": items})
        self.assertEqual((status, answer["error"]["code"]), (429, "queue_full"))
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        self.assertEqual(server.ask("POST", "/v1/verify/batch", {"items": items * 2 + [{"problem": PROBLEM, "candidate": fresh()}]})[0], 413)
        self.assertTrue(all(future.result()[0] in (200, 429) for future in running))

    def test_a_signal_lets_what_was_taken_be_judged_and_takes_nothing_new(self) -> None:
        server = self.start()
        running = self.background(server, 3)
        server.wait_for(lambda: server.metric("autotriton_queue_waiting") + server.metric("autotriton_judging") == 3)
        # As a terminal does: to the whole group.
        os.killpg(server.process.pid, signal.SIGINT)
        server.wait_for(lambda: server.ask("GET", "/health")[0] == 503)
        self.assertEqual(server.ask("GET", "/health")[1]["status"], "draining")
        status, answer, headers = server.ask("POST", "/v1/verify", {"problem": PROBLEM, "candidate": fresh()})
        self.assertEqual((status, answer["error"]["code"]), (503, "draining"))
        self.assertIn("Retry-After", headers)
        self.assertEqual([future.result()[1]["reward"] for future in running], [1.0] * 3)
        self.assertEqual(server.process.wait(30), 0)

    def test_a_second_signal_ends_at_once_and_leaves_no_process(self) -> None:
        server = self.start()
        self.background(server, 2)
        server.wait_for(lambda: server.metric("autotriton_judging") == 1)
        children = descendants(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for(lambda: server.ask("GET", "/health")[0] == 503)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(10), -signal.SIGTERM)
        server.wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))

    def test_killed_workers_never_make_a_reward_of_zero(self) -> None:
        server = self.start(jobs=2)
        stop = threading.Event()

        def kill_now_and_then() -> None:
            while not stop.wait(1.0):
                for child in sorted(descendants(server.process.pid))[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)

        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        try:
            running = self.background(server, 4)
            rewards = [future.result()[1]["reward"] for future in running]
        finally:
            stop.set()
            killer.join()
        self.assertTrue(all(reward in (1.0, None) for reward in rewards), rewards)
        self.assertEqual(server.verify(fresh())["reward"], 1.0, server.text())

    def test_work_of_a_client_that_went_away_is_not_begun(self) -> None:
        server = self.start()
        running = self.background(server, 1)
        server.wait_for(lambda: server.metric("autotriton_judging") == 1)
        gone = socket.create_connection(("127.0.0.1", server.port))
        body = json.dumps({"items": [{"problem": PROBLEM, "candidate": fresh()} for _ in range(5)]}).encode()
        gone.sendall(b"POST /v1/verify/batch HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        server.wait_for(lambda: server.metric("autotriton_queue_waiting") == 5)
        gone.close()
        running[0].result()
        server.wait_for(lambda: server.metric("autotriton_queue_waiting") + server.metric("autotriton_judging") == 0)
        self.assertLessEqual(server.metric("autotriton_judge_seconds_count"), 2)

    def test_a_unix_socket_is_served_and_removed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reward.sock"
            server = self.start("--unix", str(path))
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                self.assertIn(b" 200 ", client.makefile("rb").readline())
            server.end()
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
