"""The functions of integrations/, called as the trainers call them, against a live server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import threading
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

from front import ANSWER, PROBLEM, ROOT, WRONG
from reward_server_test import REPLY, Server

# No answer to it can be judged: the reference fails.
BROKEN = PROBLEM.replace("torch.relu(x)", "torch.relu(x) + missing")


def load(name: str) -> Any:
    """As verl and slime load a file that they are pointed at."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "integrations" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RewardClientsTest(unittest.TestCase):
    server: ClassVar[Server]

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server("--jobs", "2", key="s3cret")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.end()

    def setUp(self) -> None:
        patch = mock.patch.dict(os.environ, {"AUTOTRITON_REWARD_URL": self.server.url + "/", "AUTOTRITON_API_KEY": "s3cret", "no_proxy": "*"})
        patch.start()
        self.addCleanup(patch.stop)

    def test_trl_gets_a_list_with_none_for_what_could_not_be_judged(self) -> None:
        # GRPOTrainer._calculate_rewards: keyword arguments, the data set's columns among them.
        rewards = load("trl_reward").triton_reward(
            prompts=["p"] * 3, completions=[REPLY, WRONG, REPLY], completion_ids=[[1], [2], [3]], label=[PROBLEM, PROBLEM, BROKEN],
            trainer_state=SimpleNamespace(global_step=0), log_extra=lambda *_: None, log_metric=lambda *_: None,
        )
        self.assertEqual(rewards, [1.0, 0.0, None])

    def test_trl_may_send_conversations(self) -> None:
        completions = [[{"role": "assistant", "content": REPLY}], [{"role": "assistant", "content": "I cannot."}]]
        rewards = load("trl_reward").triton_reward(prompts=[[{"role": "user", "content": "p"}]] * 2, completions=completions, ground_truth=[PROBLEM] * 2)
        self.assertEqual(rewards, [1.0, 0.0])

    def test_verl_gets_a_score_for_one_answer(self) -> None:
        # NaiveRewardManager: keyword arguments; newer ones add the router's address.
        score = load("verl_reward").compute_score(data_source="triton", solution_str=REPLY, ground_truth=PROBLEM, extra_info={"num_turns": None}, reward_router_address=None)
        self.assertEqual((score["score"], score["masked"], score["reason"]), (1.0, 0.0, "all-evidence"))

    def test_verl_is_not_given_a_zero_for_what_could_not_be_judged(self) -> None:
        module = load("verl_reward")
        with self.assertRaisesRegex(RuntimeError, "no reward: reference-failed"):
            module.compute_score("triton", REPLY, BROKEN, None)
        with mock.patch.dict(os.environ, {"AUTOTRITON_REWARD_MASKED": "0.25"}):
            score = module.compute_score("triton", REPLY, BROKEN, None)
        self.assertEqual((score["score"], score["masked"]), (0.25, 1.0))

    def test_a_masked_answer_of_a_verl_batch_has_no_advantage_in_its_group(self) -> None:
        module = load("verl_reward")
        verdicts = [{"reward": reward, "reason": "r"} for reward in (1.0, 0.0, None, None)]
        with mock.patch.object(module, "judge", return_value=verdicts):
            # BatchRewardManager.verify: keyword arguments.
            scores = module.compute_scores(data_sources=["d"] * 4, solution_strs=["s"] * 4, ground_truths=["a", "a", "a", "b"], extra_infos=[{}] * 4)
        self.assertEqual([score["score"] for score in scores], [1.0, 0.0, 0.5, 0.0])
        self.assertEqual([score["masked"] for score in scores], [0.0, 0.0, 1.0, 1.0])
        scores = module.compute_scores(data_sources=["d"] * 2, solution_strs=[REPLY, WRONG], ground_truths=[PROBLEM] * 2, extra_infos=[{}] * 2, anything=1)
        self.assertEqual([score["score"] for score in scores], [1.0, 0.0])

    def test_slime_drops_a_sample_without_a_reward(self) -> None:
        module = load("slime_reward")

        def sample(label: str) -> Any:
            return SimpleNamespace(label=label, prompt="p", response=REPLY, remove_sample=False)

        one = sample(PROBLEM)
        self.assertEqual(asyncio.run(module.reward(SimpleNamespace(), one)), 1.0)
        self.assertFalse(one.remove_sample)
        group = [sample(PROBLEM), sample(BROKEN)]
        self.assertEqual(asyncio.run(module.reward(SimpleNamespace(), group)), [1.0, 1.0])
        self.assertEqual([each.remove_sample for each in group], [False, True])

    def test_a_mistake_of_the_caller_is_an_error_with_its_reason(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "--tasks FILE"):
            load("trl_reward").triton_reward(prompts=["p"], completions=["c"], label=["unknown"])
        with mock.patch.dict(os.environ, {"AUTOTRITON_API_KEY": "wrong"}), self.assertRaisesRegex(RuntimeError, "API key"):
            load("trl_reward").triton_reward(prompts=["p"], completions=["c"], label=[PROBLEM])

    def test_a_busy_server_is_asked_again_after_as_long_as_it_says(self) -> None:
        body = b'{"results": [{"reward": 0.5}]}'
        answers = [
            b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            b"",  # Away.
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body,
        ]
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve() -> None:
                for answer in answers:
                    client, _ = listener.accept()
                    with client:
                        client.settimeout(5)
                        while b"answer" not in client.recv(65536):
                            pass
                        client.sendall(answer)

            thread = threading.Thread(target=serve)
            thread.start()
            began = time.monotonic()
            with mock.patch.dict(os.environ, {"AUTOTRITON_REWARD_URL": f"http://127.0.0.1:{listener.getsockname()[1]}"}):
                rewards = load("trl_reward").triton_reward(prompts=["p"], completions=["c"], label=["l"])
            thread.join()
        self.assertEqual(rewards, [0.5])
        self.assertGreaterEqual(time.monotonic() - began, 1)

    def test_each_hook_is_under_forty_lines(self) -> None:
        for path in sorted(Path(ROOT / "integrations").glob("*.py")):
            with self.subTest(path.name):
                self.assertLess(sum(1 for line in path.read_text().splitlines() if line.strip()), 40)

    def test_an_answer_that_is_right_is_worth_one_in_every_hook(self) -> None:
        verdicts = load("verl_reward").judge([{"label": PROBLEM, "answer": ANSWER}])
        self.assertEqual(verdicts[0]["reward"], 1.0)


if __name__ == "__main__":
    unittest.main()
