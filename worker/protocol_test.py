"""Records and values between processes, against the golden records that src/execution/channel_test.cpp reads too."""

from __future__ import annotations

import array
import json
import math
import os
import socket
import threading
import unittest
from typing import Any

import protocol
import torch
from protocol import (
    Channel,
    PeerClosed,
    ProtocolError,
    TensorReader,
    TensorWriter,
    Unsupported,
    decode_value,
    encode_value,
)

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata", "records.jsonl")


def golden(state: str) -> list[dict[str, str]]:
    with open(GOLDEN, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [record for record in records if record.get("state", "good") == state]


def pair() -> tuple[socket.socket, Channel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    theirs.settimeout(20)
    return ours, Channel(theirs)


def received(bytes_: bytes) -> Any:
    """What a channel makes of `bytes_` followed by the end of the stream."""
    peer, channel = pair()
    sender = threading.Thread(target=lambda: (peer.sendall(bytes_), peer.close()))
    sender.start()
    try:
        return channel.receive()[0]
    finally:
        sender.join()
        channel._connection.close()


class GoldenRecordsTest(unittest.TestCase):
    def test_records_are_encoded_to_the_golden_bytes(self) -> None:
        records = golden("good")
        self.assertGreaterEqual(len(records), 7)
        for record in records:
            with self.subTest(record["name"]):
                self.assertEqual(protocol.encode(json.loads(record["body"])).hex(), record["bytes"])

    def test_the_golden_bytes_are_decoded_to_the_records(self) -> None:
        for record in golden("good"):
            with self.subTest(record["name"]):
                self.assertEqual(received(bytes.fromhex(record["bytes"])), json.loads(record["body"]))

    def test_a_length_is_four_bytes_the_lowest_first(self) -> None:
        body = '{"type":"' + "x" * (0x012345 - 11) + '"}'
        self.assertEqual(protocol.encode(json.loads(body)), b"ATR1\x45\x23\x01\x00" + body.encode())

    def test_what_is_no_record_is_refused(self) -> None:
        for record in golden("malformed"):
            with self.subTest(record["name"]), self.assertRaises(ProtocolError):
                received(bytes.fromhex(record["bytes"]))

    def test_an_end_between_records_is_not_an_error_of_the_protocol(self) -> None:
        for record in golden("closed"):
            with self.subTest(record["name"]), self.assertRaises(PeerClosed):
                received(bytes.fromhex(record["bytes"]))


class ChannelTest(unittest.TestCase):
    def test_a_record_that_comes_byte_by_byte_is_whole(self) -> None:
        peer, channel = pair()
        data = protocol.encode({"type": "slow", "text": "ä" * 50})

        def drip() -> None:
            for index in range(len(data)):
                peer.send(data[index : index + 1])

        sender = threading.Thread(target=drip)
        sender.start()
        record, descriptors = channel.receive()
        sender.join()
        self.assertEqual(record, {"type": "slow", "text": "ä" * 50})
        self.assertEqual(descriptors, [])

    def test_two_records_in_one_packet_come_one_after_the_other(self) -> None:
        peer, channel = pair()
        peer.sendall(protocol.encode({"type": "first"}) + protocol.encode({"type": "second"}))
        self.assertEqual(channel.receive()[0]["type"], "first")
        self.assertEqual(channel.receive()[0]["type"], "second")

    def test_descriptors_arrive_with_the_record_that_they_were_sent_with(self) -> None:
        peer, channel = pair()
        files = [os.memfd_create(f"file{index}") for index in range(protocol.MAX_DESCRIPTORS)]
        for index, file in enumerate(files):
            os.write(file, bytes([index]))
        Channel(peer).send({"type": "plain"})
        Channel(peer).send({"type": "with"}, files)
        Channel(peer).send({"type": "plain"})
        counts = []
        contents = []
        for _ in range(3):
            _, descriptors = channel.receive()
            counts.append(len(descriptors))
            contents += [os.pread(descriptor, 1, 0) for descriptor in descriptors]
            for descriptor in descriptors:
                self.assertFalse(os.get_inheritable(descriptor))
                os.close(descriptor)
        for file in files:
            os.close(file)
        self.assertEqual(counts, [0, protocol.MAX_DESCRIPTORS, 0])
        self.assertEqual(contents, [bytes([index]) for index in range(protocol.MAX_DESCRIPTORS)])

    def test_a_body_without_a_type_or_that_is_no_object_is_refused(self) -> None:
        for body in (b"{}", b"[]", b"3", b'{"type":3}', b'{"type":null}', b'"type"'):
            with self.subTest(body), self.assertRaises(ProtocolError):
                received(protocol.HEADER.pack(protocol.MAGIC, len(body)) + body)

    def test_a_record_over_the_limit_is_not_sent(self) -> None:
        with self.assertRaises(ProtocolError):
            protocol.encode({"type": "x" * protocol.MAX_BODY})

    def test_a_number_that_json_does_not_have_is_not_sent(self) -> None:
        for value in (math.nan, math.inf):
            with self.assertRaises(ValueError):
                protocol.encode({"type": "x", "value": value})

    def test_more_descriptors_than_allowed_never_reach_the_caller(self) -> None:
        peer, channel = pair()
        files = [os.memfd_create("file") for _ in range(protocol.MAX_DESCRIPTORS + 3)]
        data = protocol.encode({"type": "many"})
        peer.sendmsg([data[:8]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
        peer.sendall(data[8:])
        try:
            _, descriptors = channel.receive()
            self.assertLessEqual(len(descriptors), protocol.MAX_DESCRIPTORS)
            for descriptor in descriptors:
                os.close(descriptor)
        except ProtocolError:
            pass  # Refusing is as good as dropping.
        for file in files:
            os.close(file)


def through_memory(value: Any) -> Any:
    """`value` written into a memory file, described, and read again."""
    writer = TensorWriter()
    spec = json.loads(json.dumps(encode_value(value, writer)))
    memory = os.memfd_create("values")
    writer.fill(memory)
    reader = TensorReader(memory)
    try:
        return decode_value(spec, reader)
    finally:
        reader.close()
        os.close(memory)


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""


class ValuesTest(unittest.TestCase):
    def test_every_dtype_travels_bit_by_bit(self) -> None:
        for name, dtype in protocol.DTYPES.items():
            with self.subTest(name):
                raw = torch.randint(0, 2 if dtype is torch.bool else 256, (6 * dtype.itemsize,), dtype=torch.uint8)
                tensor = raw.view(dtype).reshape(2, 3)
                back = through_memory(tensor)
                self.assertEqual(back.dtype, dtype)
                self.assertEqual(tuple(back.shape), (2, 3))
                self.assertEqual(bits(back), bits(tensor))

    def test_nan_payloads_infinities_and_signed_zeros_survive(self) -> None:
        raw = torch.tensor([0x7FC01234, -0x00800000, 0x7F800000, -(1 << 31), 0, 1], dtype=torch.int32)
        self.assertEqual(bits(through_memory(raw.view(torch.float32))), bits(raw))

    def test_strides_survive(self) -> None:
        base = torch.arange(24.0).reshape(4, 6)
        for tensor in (base, base.t(), base[:, ::2], base[1:, 2:], base[0].expand(5, 6), base[:, :1].expand(4, 7), torch.tensor(3.0)):
            with self.subTest(shape=tuple(tensor.shape), stride=tensor.stride()):
                back = through_memory(tensor)
                self.assertEqual(back.stride(), tensor.stride())
                self.assertTrue(torch.equal(back, tensor))

    def test_a_view_does_not_carry_what_stands_before_it(self) -> None:
        writer = TensorWriter()
        writer.add(torch.arange(100.0)[90:])
        self.assertLess(writer.size, 100 * 4)

    def test_empty_tensors_keep_their_shape(self) -> None:
        for shape in ((0,), (3, 0), (0, 5, 2)):
            back = through_memory(torch.zeros(shape))
            self.assertEqual(tuple(back.shape), shape)

    def test_a_conjugated_tensor_arrives_with_its_values(self) -> None:
        tensor = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, -4.0])).conj()
        self.assertTrue(torch.equal(through_memory(tensor), tensor.resolve_conj()))

    def test_plain_values_keep_value_and_class(self) -> None:
        values: list[Any] = [
            None, True, False, 0, -1, 2**63, -(2**200), 0.0, -0.0, 0.1, 5e-324, math.inf, -math.inf, 1 + 2j, "", "ä\n", torch.float16,
            [], (), {}, [1, [2.5, ("x", None)]], {"a": (1,), 3: [True]},
        ]
        for value in values:
            with self.subTest(repr(value)):
                back = through_memory(value)
                self.assertEqual(repr(back), repr(value))
                self.assertIs(type(back), type(value))
        self.assertTrue(math.isnan(through_memory(math.nan)))

    def test_bool_and_int_are_told_apart(self) -> None:
        self.assertIs(through_memory(True), True)
        self.assertEqual(type(through_memory(1)), int)

    def test_a_dict_keeps_the_order_of_its_keys(self) -> None:
        self.assertEqual(list(through_memory({"z": 1, "a": 2, "m": 3})), ["z", "a", "m"])

    def test_what_cannot_travel_is_named(self) -> None:
        class Own(torch.Tensor):
            pass

        deep: list[Any] = []
        for _ in range(20):
            deep = [deep]
        cases: list[tuple[Any, str]] = [
            (object(), "object"), ({1.5: 1}, "keys"), (torch.zeros(2).as_subclass(Own), "Own"), (torch.zeros(2, 2).to_sparse(), "layout"), (deep, "deep"),
            (lambda: 0, "function"),
        ]
        for value, word in cases:
            with self.subTest(word), self.assertRaisesRegex(Unsupported, word):
                encode_value(value, TensorWriter())


class HostileDescriptionsTest(unittest.TestCase):
    """What a candidate's process might say of its outputs."""

    def setUp(self) -> None:
        self.memory = os.memfd_create("outputs")
        os.ftruncate(self.memory, 64)
        self.reader = TensorReader(self.memory)
        self.good = {"k": "tensor", "dtype": "float32", "shape": [4, 4], "stride": [4, 1], "offset": 0, "bytes": 64}

    def tearDown(self) -> None:
        self.reader.close()
        os.close(self.memory)

    def test_the_proper_description_is_read(self) -> None:
        self.assertEqual(tuple(self.reader.read(self.good).shape), (4, 4))

    def test_descriptions_that_do_not_fit_are_refused(self) -> None:
        changes: list[dict[str, Any]] = [
            {"dtype": "float65"}, {"dtype": "__class__"}, {"shape": [4]}, {"shape": [-4, 4]}, {"stride": [4, -1]}, {"offset": -1}, {"offset": 1},
            {"offset": 64}, {"bytes": 60}, {"bytes": 68}, {"shape": [4, 5]}, {"stride": [5, 1]}, {"shape": [1 << 40, 4]}, {"shape": [True, 4]},
            {"shape": [4.0, 4]}, {"offset": "0"}, {"bytes": 1 << 62, "shape": [1 << 60, 1]},
        ]
        for change in changes:
            with self.subTest(str(change)), self.assertRaises(ProtocolError):
                self.reader.read({**self.good, **change})

    def test_a_tensor_read_is_a_copy(self) -> None:
        tensor = self.reader.read(self.good)
        os.pwrite(self.memory, b"\x01" * 64, 0)
        self.assertTrue(bool((tensor == 0).all()))

    def test_an_unknown_kind_of_value_is_refused(self) -> None:
        with self.assertRaises(ProtocolError):
            decode_value({"k": "pickle", "v": "gASV"}, self.reader)

    def test_outputs_over_the_capacity_are_refused(self) -> None:
        writer = TensorWriter()
        writer.add(torch.zeros(1000))
        with self.assertRaises(Unsupported):
            writer.write_into(self.memory, 64)


if __name__ == "__main__":
    unittest.main()
