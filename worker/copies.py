"""Who rearranged the values that an answer returns: its kernels, or glue whose result kernels only copied.

`Buffer.moved` says how the values of a buffer came about: None where something computed them, `FRESH` where they come from
no input, "" where they are an input's as they were, else the glue operator that rearranged or rounded them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from ledger import Buffer, Ledger, tensors_of

FRESH = "(fresh)"


def joined(parts: Iterable[str | None]) -> str | None:
    """How values came about that are put together of `parts`."""
    found = FRESH
    for part in parts:
        if part is None:
            return None
        if part != FRESH and found in (FRESH, ""):
            found = part
    return found


def in_memory_order(tensor: torch.Tensor) -> torch.Tensor | None:
    """Its elements as they lie; None where it has gaps."""
    if any(size > 1 and step <= 0 for size, step in zip(tensor.shape, tensor.stride())):
        return None
    if 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride())) != tensor.numel():
        return None
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def is_copy(copy: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether the elements of both are equal one by one as they lie in memory, exactly or after a cast that keeps values
    but for rounding."""
    if copy.numel() != source.numel() or copy.numel() < 2:
        return False
    if copy.layout is not torch.strided or source.layout is not torch.strided:
        return False
    left, right = in_memory_order(copy), in_memory_order(source)
    if left is None or right is None:
        return False
    return _equal(left[:64], right[:64]) and _equal(left, right)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.dtype != right.dtype:
        if left.is_floating_point() or left.is_complex():
            right = right.to(left.dtype)
        elif right.is_floating_point() or right.is_complex():
            left = left.to(right.dtype)
        else:
            left, right = left.to(torch.int64), right.to(torch.int64)
    return bool(((left == right) | ((left != left) & (right != right))).all())


def same_bytes(result: torch.Tensor, source: torch.Tensor) -> bool:
    return result.dtype == source.dtype and Ledger.digest(result.untyped_storage()) == Ledger.digest(source.untyped_storage())


def moved_by(ledger: Ledger, name: str, group: str | None, given: list[torch.Tensor], result: Any) -> str | None:
    """What `Buffer.moved` is of the result of a glue operator."""
    in_place = name.endswith("_") and bool(given)
    if group in ("allocate", "constant", "random"):
        how: str | None = FRESH
    elif group in ("copy", "move"):
        sources = given[1:] if in_place else given
        found = [ledger.find(tensor) for tensor in sources if tensor.numel()]
        how = joined(buffer.moved if buffer is not None else None for buffer in found)
        alone = group == "copy" and len(sources) == 1 and isinstance(result, torch.Tensor)
        if how == "" and not (alone and same_bytes(result, sources[0])):
            how = name
    else:
        return None
    if in_place and given[0].numel() < Ledger.elements(given[0]):
        before = ledger.find(given[0])
        how = joined((before.moved if before is not None else None, how))
    return how


def handed_on(tensor: torch.Tensor, previous: Buffer | None, given: list[tuple[torch.Tensor, Buffer]]) -> str | None:
    """What `Buffer.moved` is of a buffer that a launch has stored to: that of the argument that it is now a copy of."""
    with torch._C.DisableTorchFunction():
        source = next((buffer for other, buffer in given if is_copy(tensor, other)), None)
    if source is None:
        return None
    whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    return source.moved if whole or previous is None else joined((previous.moved, source.moved))


def only_copied(ledger: Ledger, inputs: list[torch.Tensor], outputs: Any) -> str:
    """Says which glue operator made what is returned, where no kernel has made anything of it but a copy; else ""."""
    how = joined(_moved(ledger, tensor) for tensor in tensors_of(outputs) if tensor.numel())
    if not how or how == FRESH or any(_moved(ledger, tensor) is None for tensor in inputs if tensor.numel()):
        return ""
    return f"kernels only copied: `{how}` rearranged or rounded the values, and no kernel made another of them; do it in a kernel"


def _moved(ledger: Ledger, tensor: torch.Tensor) -> str | None:
    buffer = ledger.find(tensor)
    return buffer.moved if buffer is not None else None
