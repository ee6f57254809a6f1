"""Whether a truth value only decides if an exception is raised, as in `assert (x > 0).all()`: told by the bytecode around."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from ledger import Ledger, tensors_of

_ASSERT = torch._assert.__code__


def _raises(steps: list[dis.Instruction], at: int) -> bool:
    """Whether the code from `at` on makes an exception and raises it, with no other way out."""
    for step in steps[at : at + 64]:
        if step.opname == "RAISE_VARARGS":
            return True
        if "JUMP" in step.opname or step.opname.startswith(("RETURN", "STORE", "YIELD", "POP_TOP", "SEND", "FOR_ITER", "DELETE")):
            return False
    return False


def raises_where(frame: types.FrameType | None) -> bool | None:
    """The truth value that makes the answer raise where it is asked for one; None where it decides anything else."""
    while frame is not None and frame.f_globals.get("__name__") != "answer" and frame.f_code is not _ASSERT:
        frame = frame.f_back
    if frame is None:
        return None
    steps = list(dis.get_instructions(frame.f_code))
    at = next((index for index, step in enumerate(steps) if step.offset == frame.f_lasti), len(steps))
    while at < len(steps) and "JUMP" not in steps[at].opname:  # `.item()` and `bool()` stand before the jump.
        at += 1
        if at < len(steps) and "JUMP" not in steps[at].opname and steps[at].opname not in ("CACHE", "TO_BOOL", "NOP"):
            return None
    if at >= len(steps) or not steps[at].opname.startswith("POP_JUMP") or "NONE" in steps[at].opname:
        return None
    when = steps[at].opname.endswith("IF_TRUE")
    target = next((index for index, step in enumerate(steps) if step.offset == steps[at].argval), len(steps))
    jumping, going_on = _raises(steps, target), _raises(steps, at + 1)
    if jumping == going_on:
        return None
    return when if jumping else not when


class Checks:
    """Truth values that torch computed in one call of the entry point. They may decide that it raises, and nothing else."""

    def __init__(self, refuse: Callable[[Any, str], None]) -> None:
        self.failed = False  # One was not met: the call must end here.
        self._refuse = refuse
        self._made: dict[int, Any] = {}  # By storage: the operator.

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return bool(self._made) and Ledger.key(tensor) in self._made

    def made(self, result: Any, func: Any) -> None:
        self._made.update((Ledger.key(tensor), func) for tensor in tensors_of(result) if tensor.numel())

    def use(self, tensor: torch.Tensor) -> None:
        """It goes elsewhere."""
        func = self._made.pop(Ledger.key(tensor), None) if self._made else None
        if func is not None:
            self._refuse(func, "it computes")

    def ask(self, tensor: torch.Tensor) -> None:
        """The answer, some frames above, asks for it."""
        raises = raises_where(sys._getframe(1)) if tensor.numel() == 1 and tensor.dtype == torch.bool else None
        if raises is None:
            self.use(tensor)
        elif bool(tensor) == raises:
            self.failed = True
