"""Records between the front and its workers, and how values and tensors travel in them.

A record is 8 bytes of header (the magic `ATR1`, then the body's length as a little-endian 32-bit number), a JSON object
with a `type`, and up to eight file descriptors that ride on the header. `src/execution/record.cpp` is this file's twin;
both are tested against the golden records in `worker/testdata/records.jsonl`.

Tensor bytes never stand in a record: they lie in a memory file whose descriptor the record carries, each tensor at an
`offset`. Nothing is ever unpickled.
"""

from __future__ import annotations

import array
import ctypes
import json
import mmap
import os
import socket
import struct
from typing import Any

import torch

MAGIC = b"ATR1"
HEADER = struct.Struct("<4sI")
MAX_BODY = 8 << 20
MAX_DESCRIPTORS = 8
ALIGNMENT = 64

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128 "
        "float8_e4m3fn float8_e5m2"
    ).split()
}
DTYPE_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}

Record = dict[str, Any]


class ProtocolError(Exception):
    """The peer sent something that is not a record of this protocol."""


class PeerClosed(Exception):
    """The peer closed its end between two records."""


class Unsupported(Exception):
    """A value that cannot travel between processes, with a sentence that says which."""


def encode(record: Record) -> bytes:
    """The bytes of `record`, header included."""
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    if len(body) > MAX_BODY:
        raise ProtocolError(f"a record of {len(body)} bytes is longer than {MAX_BODY}")
    return HEADER.pack(MAGIC, len(body)) + body


class Channel:
    """One end of a stream of records."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    def send(self, record: Record, descriptors: list[int] | None = None) -> None:
        data = encode(record)
        fds = descriptors or []
        if fds:
            sent = self._connection.sendmsg(
                [data[: HEADER.size]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            )
        else:
            sent = self._connection.send(data[: HEADER.size])
        self._connection.sendall(data[sent:])

    def receive(self) -> tuple[Record, list[int]]:
        """The next record and its descriptors, which the caller now owns."""
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
        header, ancillary, _, _ = self._connection.recvmsg(HEADER.size, space, socket.MSG_CMSG_CLOEXEC)
        if not header:
            raise PeerClosed()
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        header += self._exactly(HEADER.size - len(header))
        magic, length = HEADER.unpack(header)
        if magic != MAGIC or length > MAX_BODY:
            raise ProtocolError("not a record")
        record = json.loads(self._exactly(length))
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise ProtocolError("a record without a type")
        return record, list(descriptors)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._connection.recv(count - len(parts))
            if not part:
                raise ProtocolError("the peer closed inside a record")
            parts += part
        return bytes(parts)


class TensorWriter:
    """Lays tensors out in one run of bytes that `fill` or `write_into` then writes out."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, torch.Tensor]] = []
        self.size = 0

    def add(self, tensor: torch.Tensor) -> Record:
        """Plans room for `tensor` and returns its description. Strides are kept: the bytes are the span that they cover."""
        if tensor.dtype not in DTYPE_NAMES:
            raise Unsupported(f"a tensor of dtype {tensor.dtype}")
        if tensor.layout is not torch.strided:
            raise Unsupported(f"a tensor of layout {tensor.layout}")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        span = span_elements(tuple(tensor.shape), tuple(tensor.stride()))
        flat = torch.as_strided(tensor, (span,), (1,)) if span else tensor.reshape(0)
        offset = self.size
        length = span * tensor.element_size()
        self._parts.append((offset, flat))
        self.size = (offset + length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        return {
            "k": "tensor",
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "offset": offset,
            "bytes": length,
        }

    def write_into(self, descriptor: int, capacity: int | None = None) -> None:
        if capacity is not None and self.size > capacity:
            raise Unsupported(f"{self.size} bytes of tensors, where {capacity} are allowed")
        for offset, flat in self._parts:
            data = tensor_bytes(flat)
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], offset + done)

    def fill(self, descriptor: int) -> None:
        """Sizes the memory file `descriptor`, which the front made and will seal, and writes all tensors into it."""
        os.ftruncate(descriptor, max(self.size, 1))
        self.write_into(descriptor)


def span_elements(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    if any(size == 0 for size in shape):
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride))


def tensor_bytes(flat: torch.Tensor) -> memoryview:
    """A view of a one-dimensional contiguous tensor's bytes; the tensor must outlive it."""
    length = flat.numel() * flat.element_size()
    if length == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * length).from_address(flat.data_ptr())).cast("B")


class TensorReader:
    """Copies described tensors out of a memory file into memory of this process."""

    def __init__(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ) if size else None
        self._size = size

    def read(self, spec: Record, into: torch.Tensor | None = None) -> torch.Tensor:
        """The tensor that `spec` describes. With `into` (of the same dtype, shape and strides) its memory is rewritten."""
        dtype = DTYPES.get(spec.get("dtype", ""))
        shape, stride = tuple(spec["shape"]), tuple(spec["stride"])
        offset, length = spec["offset"], spec["bytes"]
        numbers = [*shape, *stride, offset, length]
        if dtype is None or len(shape) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
            raise ProtocolError("a tensor's description is malformed")
        span = span_elements(shape, stride)
        if length != span * dtype.itemsize or offset + length > self._size:
            raise ProtocolError("a tensor's description does not fit its memory file")
        flat = into if into is not None else torch.empty(span, dtype=dtype)
        if length:
            assert self._map is not None
            ctypes.memmove(flat.data_ptr(), (ctypes.c_char * length).from_buffer_copy(self._map, offset), length)
        return flat if into is not None else torch.as_strided(flat, shape, stride)

    def close(self) -> None:
        if self._map is not None:
            self._map.close()


def encode_value(value: Any, writer: TensorWriter, depth: int = 0) -> Record:
    """Describes a plain value: tensors, numbers, strings, None, dtypes, devices, and lists, tuples and dicts of them."""
    if depth > 16:
        raise Unsupported("values nested deeper than 16")
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise Unsupported(f"a tensor of class {type(value).__name__}")
        return writer.add(value)
    if value is None:
        return {"k": "none"}
    if type(value) is bool:
        return {"k": "bool", "v": value}
    if type(value) is int:
        return {"k": "int", "v": str(value)}
    if type(value) is float:
        return {"k": "float", "v": value.hex()}
    if type(value) is complex:
        return {"k": "complex", "re": value.real.hex(), "im": value.imag.hex()}
    if type(value) is str:
        return {"k": "str", "v": value}
    if isinstance(value, torch.dtype):
        return {"k": "dtype", "v": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"k": "device"}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"k": kind, "v": [encode_value(item, writer, depth + 1) for item in value]}
    if isinstance(value, dict):
        if not all(type(key) in (str, int) for key in value):
            raise Unsupported("a dict whose keys are not strings or integers")
        return {
            "k": "dict",
            "keys": [encode_value(key, writer, depth + 1) for key in value],
            "v": [encode_value(item, writer, depth + 1) for item in value.values()],
        }
    raise Unsupported(f"a value of class {type(value).__name__}")


def decode_value(spec: Record, reader: TensorReader) -> Any:
    kind = spec["k"]
    if kind == "tensor":
        return reader.read(spec)
    if kind == "none":
        return None
    if kind == "bool":
        return bool(spec["v"])
    if kind == "int":
        return int(spec["v"])
    if kind == "float":
        return float.fromhex(spec["v"])
    if kind == "complex":
        return complex(float.fromhex(spec["re"]), float.fromhex(spec["im"]))
    if kind == "str":
        return str(spec["v"])
    if kind == "dtype":
        return getattr(torch, spec["v"])
    if kind == "device":
        return torch.device("cuda", 0)
    if kind in ("list", "tuple"):
        items = [decode_value(item, reader) for item in spec["v"]]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        keys = [decode_value(key, reader) for key in spec["keys"]]
        return dict(zip(keys, (decode_value(item, reader) for item in spec["v"])))
    raise ProtocolError(f"a value of unknown kind {kind!r}")
