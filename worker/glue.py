"""What counts as glue: worker/glue.toml, which the rules read too."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tomllib
import torch


@dataclasses.dataclass(frozen=True)
class Glue:
    """The operators that may run inside the entry point, by group."""

    groups: dict[str, frozenset[str]]

    @staticmethod
    def load() -> Glue:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "glue.toml")
        with open(path, "rb") as file:
            return Glue({name: frozenset(names) for name, names in tomllib.load(file)["aten"].items()})

    def group_of(self, name: str) -> str | None:
        return next((group for group, names in self.groups.items() if name in names), None)


def reduction_factor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How many values of its first argument a sum or mean makes one."""
    if not args or not isinstance(args[0], torch.Tensor):
        return 1
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    if dims is None:
        return args[0].numel()
    if not isinstance(dims, (int, list, tuple)) or not all(isinstance(d, int) for d in ([dims] if isinstance(dims, int) else dims)):
        return 1
    if not isinstance(dims, int) and not dims:
        return args[0].numel()
    factor = 1
    for dim in [dims] if isinstance(dims, int) else dims:
        if -args[0].dim() <= dim < args[0].dim():
            factor *= args[0].shape[dim]
    return factor
