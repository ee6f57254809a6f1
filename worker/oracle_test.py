"""The oracle, asked record by record as the front asks it, with outputs that a candidate's process might send."""

from __future__ import annotations

import os
import signal
import socket
import traceback
import unittest
from typing import Any

import oracle
import torch
import warm_up
from protocol import Channel, PeerClosed, Record, TensorReader, TensorWriter, decode_value, encode_value

PROBLEM = """
import torch

def forward(x, y):
    return {output}

def get_inputs():
    return [torch.randn(20, 30), torch.randn(20, 30)]
"""


def setUpModule() -> None:
    """As the fork server does, so that no child pays for first uses."""
    torch.set_num_threads(1)
    warm_up.shapes()
    warm_up.reference()


class Asked:
    """An oracle in a process of its own: it sets alarms, which only a main thread may."""

    def __init__(self, source: str, kind: str = "function", entry: str = "forward") -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                ours.close()
                oracle.serve(Channel(theirs))
                code = 0
            except BaseException:  # noqa: BLE001 - this child must not run on in the tests of its parent
                traceback.print_exc()
            finally:
                os._exit(code)
        theirs.close()
        self.socket = ours
        ours.settimeout(60)
        self.channel = Channel(ours)
        self.source, self.kind, self.entry = source, kind, entry

    def ask(self, record: Record, descriptors: list[int] | None = None) -> Record:
        self.channel.send(record, descriptors)
        return self.channel.receive()[0]

    def open(self) -> Record:
        return self.ask(
            {"type": "open", "source": self.source, "kind": self.kind, "entry": self.entry, "run_seconds": 5.0, "max_elements": 60000, "shapes": "original"}
        )

    def trial(self, inputs: str = "plain") -> tuple[Record, Any]:
        """The oracle's record of trial 0, and the arguments."""
        memory = os.memfd_create("weights")
        assert self.ask({"type": "init", "variant": "original", "seed": "1", "weight_seed": "2"}, [memory])["type"] == "init"
        memory = os.memfd_create("inputs")
        record = self.ask({"type": "trial", "variant": "original", "index": 0, "inputs": inputs, "seed": "3", "run_seed": "4"}, [memory])
        if record["type"] != "trial":
            return record, None
        reader = TensorReader(memory)
        arguments = [decode_value(spec, reader) for spec in record["arguments"]]
        reader.close()
        return record, arguments

    def compare(self, value: Any, leaves: int = 1, change: dict[str, Any] | None = None) -> Record:
        writer = TensorWriter()
        spec = encode_value(value, writer)
        spec.update(change or {})
        memory = os.memfd_create("outputs")
        writer.fill(memory)
        return self.ask(
            {"type": "compare", "index": 0, "subject": "candidate", "tolerances": [[1e-4, 1e-4]] * leaves, "outputs": spec, "inputs_after": None}, [memory]
        )

    def close(self) -> None:
        self.socket.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class OracleTest(unittest.TestCase):
    def asked(self, source: str, kind: str = "function", entry: str = "forward") -> Asked:
        one = Asked(source, kind, entry)
        self.addCleanup(one.close)
        return one

    def ready(self, output: str) -> tuple[Asked, Any]:
        one = self.asked(PROBLEM.replace("{output}", output))
        self.assertEqual(one.open()["type"], "opened")
        _, arguments = one.trial()
        return one, arguments


class ComparisonTest(OracleTest):
    def test_right_outputs_match_and_wrong_ones_do_not(self) -> None:
        one, (x, y) = self.ready("x * y + 1")
        right = one.compare(x * y + 1)
        self.assertEqual((right["structure"], right["inputs"], right["leaves"][0]["bad"]), ("", "", 0))
        self.assertEqual(one.compare(x * y)["leaves"][0]["bad"], 600)

    def test_nested_dicts_may_come_in_another_order(self) -> None:
        one, (x, y) = self.ready("({'a': {'p': x + y, 'q': x - y}, 'b': x}, [y])")
        given = ({"b": x, "a": {"q": x - y, "p": x + y}}, [y])
        record = one.compare(given, leaves=4)
        self.assertEqual([leaf["bad"] for leaf in record["leaves"]], [0, 0, 0, 0], record)
        swapped = ({"b": x, "a": {"q": x + y, "p": x - y}}, [y])
        self.assertGreater(sum(leaf["bad"] for leaf in one.compare(swapped, leaves=4)["leaves"]), 0)

    def test_a_real_output_for_a_complex_one_is_a_dtype_and_no_crash(self) -> None:
        one, (x, y) = self.ready("torch.complex(x, y)")
        self.assertEqual(one.compare(x)["leaves"][0]["problem"], "dtype")
        self.assertEqual(one.compare(torch.complex(x, y))["leaves"][0]["bad"], 0)


class HostileOutputsTest(OracleTest):
    def test_descriptions_that_do_not_fit_never_end_the_oracle(self) -> None:
        changes: list[dict[str, Any]] = [
            {"dtype": "float65"}, {"dtype": "__class__"}, {"offset": 1 << 40}, {"bytes": 1 << 40}, {"shape": [1 << 20, 1 << 20], "stride": [0, 0], "bytes": 4},
            {"shape": [1 << 40, 1 << 40], "stride": [0, 0], "bytes": 4}, {"shape": [20, 30], "stride": [0, 0], "bytes": 4}, {"k": "dtype", "v": "no_such_dtype"},
            {"k": "float", "v": "one"}, {"k": "int", "v": "1" * 4000}, {"k": "int", "v": "x"}, {"k": "complex", "re": "x", "im": "y"}, {"k": "dtype", "v": "nn"},
        ]
        for change in changes:
            with self.subTest(str(change)[:60]):
                one, (x, y) = self.ready("x + y")
                try:
                    record = one.compare(x + y, change=change)
                except (PeerClosed, ConnectionError):
                    self.fail("the oracle ended")
                self.assertIn(record["type"], ("compared", "unusable", "malformed"), record)
                if record["type"] == "compared":
                    self.assertTrue(record["structure"] or record["leaves"][0]["problem"] or record["leaves"][0]["bad"], record)


class UnusableTasksTest(OracleTest):
    def test_a_reference_that_leaves_or_fails_is_told(self) -> None:
        for output, reason in (("1 / 0", "reference-failed"), ("exit(0)", "reference-failed"), ("torch.rand(3)", "task-degenerate")):
            with self.subTest(output):
                one = self.asked(PROBLEM.replace("{output}", output))
                record = one.open()
                if record["type"] == "opened":
                    record, _ = one.trial()
                self.assertEqual((record["type"], record.get("reason")), ("unusable", reason))

    def test_a_reference_that_never_ends_is_too_large(self) -> None:
        one = self.asked("import torch\n\ndef forward(x):\n    while True:\n        x = x + 1\n\ndef get_inputs():\n    return [torch.zeros(3)]\n")
        one.channel.send({"type": "open", "source": one.source, "kind": "function", "entry": "forward", "run_seconds": 0.5, "max_elements": 1000, "shapes": "original"})
        record = one.channel.receive()[0]
        if record["type"] == "opened":
            record, _ = one.trial()
        self.assertEqual((record["type"], record["reason"]), ("unusable", "task-too-large"))


class TrialTest(OracleTest):
    def test_statistics_describe_the_outputs(self) -> None:
        one, _ = self.ready("(x + y, x > y, 3)")
        record, (x, y) = one.trial()
        first, second, third = record["leaves"]
        self.assertEqual((first["path"], first["count"], first["floating"], first["dtype"]), ("output[0]", 600, True, "float32"))
        self.assertAlmostEqual(first["rms"], float((x + y).double().square().mean().sqrt()), places=6)
        self.assertEqual((second["dtype"], second["floating"]), ("bool", False))
        self.assertEqual(third["kind"], "an int")

    def test_every_kind_of_inputs_is_made_or_said_to_be_plain(self) -> None:
        one, _ = self.ready("x + y")
        plain, (x, _) = one.trial()
        self.assertEqual(plain["inputs"], "plain")
        for kind in ("scaled", "shifted", "heavy-tailed", "half-zero"):
            record, (other, _) = one.trial(kind)
            self.assertEqual(record["inputs"], kind)
            self.assertFalse(torch.equal(other, x))

    def test_inputs_that_leave_the_references_domain_are_not_used(self) -> None:
        one = self.asked("import torch\n\ndef forward(x):\n    return torch.log(x)\n\ndef get_inputs():\n    return [torch.rand(20, 30) + 0.5]\n")
        one.open()
        record, _ = one.trial("shifted")
        self.assertEqual(record["inputs"], "plain")


if __name__ == "__main__":
    unittest.main()
