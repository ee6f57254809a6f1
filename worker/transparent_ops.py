"""torch.library's wrappers for operators of one's own, made transparent: what an answer wraps is called as it is, so that
the observers see what it does. Registering changes nothing of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Operator:
    """Stands for a registered operator: the function itself, and decorators that leave theirs alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", "operator")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def _leave(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return lambda function: function

    register_fake = register_kernel = register_autograd = register_vmap = register_torch_dispatch = _leave


def _operator(name: str, fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    return _Operator(fn) if fn is not None else _Operator


def install() -> None:
    library: Any = torch.library
    library.custom_op = library.triton_op = _operator
    library.wrap_triton = lambda kernel: kernel
