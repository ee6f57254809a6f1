"""An answer's module, its entry point, and what is told of a phase in which it failed."""

from __future__ import annotations

import importlib.util
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from protocol import PeerClosed, ProtocolError, Record, Unsupported

MODULE_NAME = "answer"

KINDS: dict[str, type[BaseException]] = {}  # The interpreter's own exceptions, by what they mean; an answer's namesakes are none.


class Failure(Exception):
    """The answer failed in a phase; `record` tells the front how."""

    def __init__(self, record: Record) -> None:
        super().__init__(record["message"])
        self.record = record


def failure_record(phase: str, error: BaseException, path: str) -> Record:
    """What happened, and the last line of the answer that it passed through."""
    kind = "exception"
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    if any(isinstance(item, KINDS["gap"]) for item in chain if "gap" in KINDS):
        kind = "gap"
    elif any(isinstance(item, KINDS["bounds"]) for item in chain if "bounds" in KINDS):
        kind = "bounds"
    elif isinstance(error, SystemExit):
        kind = "exit"
    elif isinstance(error, MemoryError) or "not enough memory" in str(error) or "can't allocate memory" in str(error):
        kind = "memory"
    elif isinstance(error, Unsupported):
        kind = "unsupported"
    line = 0
    for item in chain:
        for frame in traceback.extract_tb(item.__traceback__):
            if frame.filename == path and frame.lineno:
                line = frame.lineno
        if line:
            break
    if line == 0 and isinstance(error, SyntaxError):
        line = error.lineno or 0
    message = f"{type(error).__name__}: {error}"
    return {"type": "failed", "phase": phase, "kind": kind, "exception": type(error).__name__, "message": message[:1500], "line": line}


class Candidate:
    """The answer's module and what its entry point is."""

    def __init__(self, path: str, entry: str, kind: str) -> None:
        self.path = path
        self.entry = entry
        self.kind = kind
        self.module: types.ModuleType | None = None
        self.callable: Callable[..., Any] | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Failure, PeerClosed, ProtocolError):
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of the answer included
            raise Failure(failure_record(name, error, self.path)) from None

    def load(self) -> None:
        with self.phase("load"):
            spec = importlib.util.spec_from_file_location(MODULE_NAME, self.path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[MODULE_NAME] = module
            with torch.set_grad_enabled(self.kind == "script"):
                spec.loader.exec_module(module)
            self.module = module
            if self.kind == "script":  # Its calls stand in it: it has run.
                return
            found = getattr(module, self.entry, None)
            if not callable(found):
                raise NameError(f"the answer defines no `{self.entry}`")
            self.callable = found if self.kind == "function" else None

    def construct(self, arguments: list[Any], seed: int, evaluation: bool) -> torch.nn.Module | None:
        with self.phase("construct"):
            if self.kind == "function":
                return None
            torch.default_generator.manual_seed(seed)
            made = getattr(self.module, self.entry)(*arguments)
            if not callable(made):
                raise TypeError(f"`{self.entry}(...)` cannot be called")
            if evaluation and isinstance(made, torch.nn.Module):
                made.eval()
            self.callable = made
            return made if isinstance(made, torch.nn.Module) else None
