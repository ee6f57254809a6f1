"""Keeps torch from importing all of torch._dynamo (a second and 100 MB) for its `disable` alone.

Many of torch's Python functions are wrapped so that their first call imports torch._dynamo just to exclude themselves
from tracing. In a process that never traces, excluding is a no-op. Anything else that is asked of torch._dynamo gets
the real one.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any

import torch

NAME = "torch._dynamo"


class _Light(types.ModuleType):
    def disable(self, function: Any = None, recursive: bool = True, **options: Any) -> Any:
        return function if function is not None else lambda wrapped: wrapped

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(), name)


def _real() -> types.ModuleType:
    if isinstance(sys.modules.get(NAME), _Light):
        del sys.modules[NAME]
        vars(torch).pop("_dynamo", None)
    return importlib.import_module(NAME)


def remove() -> None:
    """Puts the real one within reach again: code that traces, such as torch.library.triton_op, needs it whole."""
    if isinstance(sys.modules.get(NAME), _Light):
        del sys.modules[NAME]
        vars(torch).pop("_dynamo", None)


def install() -> None:
    if NAME not in sys.modules:
        light = _Light(NAME)
        light.__path__ = [os.path.join(os.path.dirname(torch.__file__), "_dynamo")]  # Submodules still import, from where they are.
        sys.modules[NAME] = light
        torch._dynamo = light
