"""Elementwise work on a GPU as one kernel, through torch.compile.

Eager torch writes every intermediate of ``(x.float() * factor).to(x.dtype)`` to memory. A function
marked here is compiled for tensors on a GPU, once per process however many models use it, and runs
as written elsewhere. It may not break into several graphs: that would be a silent loss of speed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
# Every size of model and every grad mode is a variant of its own.
VARIANTS = 64


def compiled_on_gpu(dynamic: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for calls whose first argument is a tensor on a GPU.

    Args:
        dynamic: one kernel for all shapes, which is slower, instead of one per shape.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.cache
        def build() -> Callable[P, R]:
            return torch.compile(function, dynamic=dynamic, fullgraph=True)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            first = args[0]
            assert isinstance(first, Tensor)
            if not first.is_cuda or torch.compiler.is_compiling():
                return function(*args, **kwargs)
            with torch._dynamo.config.patch(recompile_limit=VARIANTS):
                return build()(*args, **kwargs)

        return call

    return decorate
