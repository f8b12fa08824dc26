"""BlockFormat: an element, the block that shares a scale, the scale, and the tensor's scale.

All facts of a format are the fields below; whatever else is asked of it is derived. A format whose
element is None is high precision: nothing is quantised.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from formats.grid import Grid
from formats.scale import ScaleRule

HIGH_PRECISION_BITS = 16
TENSOR_SCALE_BYTES = 4


@dataclass(frozen=True)
class BlockFormat:
    """A number format for the operands of a GEMM.

    Attributes:
        block: (rows, columns) that share one scale; columns run along the contraction.
        tensor_scale: whether an FP32 scale of the whole tensor stands behind the block scales.
        gain: <x,Q(x)>/<x,x> under rounding to nearest, which decoded values are divided by; 1
            leaves them as they are. Stochastic rounding has no such bias and is left alone.
        path: the file that the format was read from.
    """

    name: str
    summary: str
    element: Grid | None
    block: tuple[int, int] = (1, 16)
    scale: ScaleRule | None = None
    tensor_scale: bool = False
    gain: float = 1.0
    source: str = ""
    path: Path | None = field(default=None, compare=False)

    @property
    def is_high_precision(self) -> bool:
        """Whether operands pass through unquantised."""
        return self.element is None

    @property
    def is_two_level(self) -> bool:
        """Whether block scales are relative to a scale of the tensor."""
        return self.tensor_scale

    def has_factor(self, stochastic: bool) -> bool:
        """Whether products take in a factor: the tensor's scale, the inverse of a gain, or both."""
        return self.is_two_level or (self.gain != 1.0 and not stochastic)

    @cached_property
    def is_exact_in_bf16(self) -> bool:
        """Whether element times stored block scale always fits BF16's 8 significant bits."""
        if self.element is None or self.scale is None or self.gain != 1.0:
            return self.element is None
        bits = self.scale.format.mantissa + 1 + _significant_bits(self.element)
        return self.scale.format.kind != "wide" and bits <= 8

    @property
    def bits_per_element(self) -> float:
        """Storage per element, its share of the block scale included (the tensor scale is not)."""
        if self.element is None or self.scale is None:
            return float(HIGH_PRECISION_BITS)
        return self.element.bits + self.scale.format.bits / math.prod(self.block)

    def storage_bytes(self, shape: tuple[int, int]) -> int:
        """Bytes of a (rows, columns) operand, padding to whole blocks and all scales included."""
        if self.element is None or self.scale is None:
            return math.prod(shape) * HIGH_PRECISION_BITS // 8
        blocks = math.prod(-(-size // edge) for size, edge in zip(shape, self.block, strict=True))
        element_bits = blocks * math.prod(self.block) * self.element.bits
        scale_bits = blocks * self.scale.format.bits
        return (element_bits + scale_bits) // 8 + (TENSOR_SCALE_BYTES if self.tensor_scale else 0)

    def facts(self) -> dict[str, Any]:
        """What determines the numerics, as plain JSON: neither name, summary, source nor path.

        Two formats with equal facts give bit-identical results.
        """
        if self.element is None or self.scale is None:
            return {"element": None}
        # Only this rule looks at more of an element than its values.
        even = {"mantissa_bits": self.element.mantissa_bits} if self.scale.rule == "even" else {}
        return {
            **even,
            "decode_table": [None if math.isnan(v) else v.hex() for v in self.element.decode_table],
            "block": list(self.block),
            "scale": self.scale.format.name,
            "rule": self.scale.rule,
            "headroom": self.scale.headroom,
            "tensor_scale": self.tensor_scale,
            "gain": self.gain,
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the facts (hex)."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)  # of facts worked out once: every launch looks its format up


def _significant_bits(grid: Grid) -> int:
    """Significant bits that the widest level needs."""
    numerators = [level.as_integer_ratio()[0] for level in grid.magnitudes if level]
    return max((n // (n & -n)).bit_length() for n in numerators)
