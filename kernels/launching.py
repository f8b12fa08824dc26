"""Launching a kernel again without looking at its arguments again.

Triton decides by forty arguments, one after the other, which compiled version fits, and that takes
the host longer than the GPU takes for a tensor of a small layer. In a training step few facts
decide, and they repeat: here the version is remembered by them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from triton.runtime import JITFunction

MOST_VERSIONS = 4096  # ever new shapes must not fill the memory
ALIGNMENT = 16  # bytes, that Triton compiles another version for
INT32_END = 1 << 31


@dataclass
class Launcher:
    """A kernel with its versions, by what decides among them."""

    kernel: JITFunction[Any]
    versions: dict[Hashable, Any] = field(default_factory=dict)

    def launch(
        self,
        grid: tuple[int],
        arguments: tuple[Any, ...],
        constants: dict[str, int],
        options: dict[str, Any],
        deciding: Hashable,
    ) -> None:
        """Launch the kernel.

        Args:
            arguments: all but the last ones, which are the constants.
            options: what Triton compiles with.
            deciding: what the device and all arguments' types, alignment and divisibility follow
                from.
        """
        key = deciding, *constants.values(), *options.values()
        version = self.versions.get(key)
        if version is not None:
            version[(*grid, 1, 1)](*arguments, *constants.values())
            return
        if len(self.versions) >= MOST_VERSIONS:
            self.versions.clear()
        # An interpreted kernel has no versions, and is started in this way each time.
        self.versions[key] = self.kernel[grid](*arguments, **constants, **options)


def layout_of(tensor: Tensor | None) -> Hashable:
    """What a version depends on of a tensor that a caller brought."""
    if tensor is None:
        return None
    aligned = tensor.data_ptr() % ALIGNMENT == 0
    return tensor.device, tensor.dtype, tensor.shape, tensor.stride(), aligned
