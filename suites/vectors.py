"""Conformance vectors: inputs that tell quantisers apart, and the reference's answers, bit by bit.

Everything is deterministic integer or FP32 arithmetic: the same vectors on any machine, device and
version of torch. Most inputs have blocks whose scale is exactly 1, so that an element *is* its t
and ties are ties:

* one level: the block's amax is the grid's max, or the power of two in its top binade (the ceil
  rule of E8M0 reaches a scale of 1 with that one only);
* two levels: besides, one block of the tensor has an amax of smax * gmax, which makes S = 1.

`docs/conformance.md` describes the records that are written.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from formats import BlockFormat, Grid
from formats.scale import FLT_MAX

if TYPE_CHECKING:
    import torch

SCHEMA_VERSION = 1
SEED = 20606  # of the random inputs and of the draws; any number would do
RANDOM_TENSORS = 4
RANDOM_BLOCKS = 8
TINY = 2.0**-149
NAN_BITS = "7fc00000"
ANSWERS = ("tensor_scale", "scales", "codes", "decoded")


@dataclass(frozen=True)
class Inputs:
    """One tensor: a name that is unique in its format, and blocks of values side by side."""

    name: str
    blocks: list[list[float]]


def format_record(fmt: BlockFormat) -> dict[str, Any]:
    """The first line of a format's file: its name, digest and facts."""
    return {
        "record": "format",
        "schema_version": SCHEMA_VERSION,
        "format": fmt.name,
        "digest": fmt.digest,
        "facts": fmt.facts(),
        "source": fmt.source,
    }


def vectors(fmt: BlockFormat) -> Iterator[dict[str, Any]]:
    """All vectors of a quantised format: each input to nearest, then each stochastically."""
    for rounding in ("nearest", "stochastic"):
        for number, inputs in enumerate(_all_inputs(fmt)):
            yield _vector(fmt, inputs, rounding, number)


def _all_inputs(fmt: BlockFormat) -> Iterator[Inputs]:
    grid = fmt.element
    assert grid is not None
    for name, anchor in (("max", grid.max), ("binade", 2.0**grid.max_exponent)):
        for section, values in (("levels", grid.levels), ("ties", _around(grid.midpoints))):
            within = [value for value in values if abs(value) <= anchor]
            yield Inputs(f"{section}-{name}", _anchored(within, anchor, fmt))
    steps = [grid.max * (1.0 + k / 32.0) for k in range(33)]
    yield Inputs("scale-steps", [*_with_amaxes(steps, fmt), *_anchored([], grid.max, fmt)])
    yield Inputs("zero-tensor", _with_amaxes([0.0, -0.0], fmt))
    yield Inputs("zero-block", _with_amaxes([0.0, 1.0, -0.0], fmt))
    small = [TINY, 3 * TINY, 2.0**-140, 2.0**-126 - TINY, 2.0**-126, 2.0**-125]
    yield Inputs("subnormal", _with_amaxes(small, fmt))
    yield Inputs("underflow", _with_amaxes([1.0, 2.1e-6, 1e-5, 1e-3, 1e-30], fmt))
    yield Inputs("largest", _with_amaxes([3.0e38, 2.0**127, FLT_MAX, 1.0], fmt))
    yield Inputs("non-finite", _with_specials(fmt))
    for number in range(RANDOM_TENSORS):
        yield Inputs(f"random-{number}", _random_blocks(fmt, number))


def _around(values: Sequence[float]) -> list[float]:
    """Each value between its two FP32 neighbours."""
    return [near for v in values for near in (_next(v, -math.inf), v, _next(v, math.inf))]


def _next(value: float, towards: float) -> float:
    import numpy as np

    return float(np.nextafter(np.float32(value), np.float32(towards)))


def _anchored(values: Sequence[float], anchor: float, fmt: BlockFormat) -> list[list[float]]:
    """Blocks that begin with the anchor and hold the values, one more making S = 1."""
    room = max(1, math.prod(fmt.block) - 1)
    blocks = [[anchor, *values[at : at + room]] for at in range(0, max(1, len(values)), room)]
    if fmt.is_two_level and fmt.element is not None and fmt.scale is not None:
        blocks.append([fmt.scale.max * fmt.element.max])
    return blocks


def _with_amaxes(amaxes: Sequence[float], fmt: BlockFormat) -> list[list[float]]:
    """A block per amax: it, and fractions of it in both signs."""
    length = math.prod(fmt.block)
    return [[amax * (1.0 - k / length) * (-1.0) ** k for k in range(length)] for amax in amaxes]


def _with_specials(fmt: BlockFormat) -> list[list[float]]:
    """Ordinary blocks, some with a NaN or an infinity at their first or last place."""
    places = [(0, math.nan), (-1, math.nan), (0, math.inf), (-1, -math.inf)]
    blocks = _with_amaxes([1.0] * (2 * len(places) + 1), fmt)
    for number, (place, special) in enumerate(places):
        blocks[2 * number + 1][place] = special
    return blocks


def _random_blocks(fmt: BlockFormat, number: int) -> list[list[float]]:
    """Bell-shaped values (sums of four uniform 16-bit integers), blocks of different magnitude."""
    import torch

    from kernels import Draws

    length = math.prod(fmt.block)
    draws = Draws(seed=SEED, step=number, stream=1)
    bits = draws.bits16(RANDOM_BLOCKS, 4 * length, torch.device("cpu"))
    sums = (bits.view(RANDOM_BLOCKS, length, 4).sum(-1) - 2 * 65535).tolist()
    return [
        [math.ldexp(value, 3 * number * (block % 3) - 16) for value in row]
        for block, row in enumerate(sums)
    ]


def _vector(fmt: BlockFormat, inputs: Inputs, rounding: str, number: int) -> dict[str, Any]:
    from kernels import Draws
    from kernels.reference import Plan, quantize_reference

    x = _tensor(inputs.blocks, fmt)
    draws = Draws(seed=SEED, step=number) if rounding == "stochastic" else None
    found = quantize_reference(x, 1, Plan(fmt, draws))
    grid = found.grid
    record = {
        "record": "vector",
        "id": f"{fmt.name}/{rounding}/{inputs.name}",
        "format": fmt.name,
        "digest": fmt.digest,
        "rounding": rounding,
        "shape": list(x.shape),
        "input": float_bits(x),
        "tensor_scale": None if found.tensor_scale is None else float_bits(found.tensor_scale)[0],
        "scales": _scale_bits(found.scales),
        "codes": [f"{code:0{_digits(grid)}x}" for code in found.unpacked().flatten().tolist()],
        "decoded": float_bits(found.decoded()),
    }
    if draws is not None:
        rows, columns = x.shape
        bits = draws.bits16(rows, columns, x.device).flatten().tolist()
        record["random_bits"] = [f"{value:04x}" for value in bits]
    return record


def _tensor(blocks: list[list[float]], fmt: BlockFormat) -> torch.Tensor:
    """FP32 [block rows, blocks x block columns]: blocks beside each other, filled with zeros."""
    import torch

    height, width = fmt.block
    x = torch.zeros(len(blocks), height * width)
    for block, values in zip(x, blocks, strict=True):
        block[: len(values)] = torch.tensor(values, dtype=torch.float64).float()
    return x.view(-1, height, width).transpose(0, 1).reshape(height, -1)


def _digits(grid: Grid) -> int:
    return 1 if grid.bits <= 4 else 2


def float_bits(x: torch.Tensor) -> list[str]:
    """FP32 bit patterns, 8 hexadecimal digits each; every NaN is 7fc00000."""
    return [
        NAN_BITS if math.isnan(value) else struct.pack(">f", value).hex()
        for value in x.float().flatten().tolist()
    ]


def _scale_bits(scales: torch.Tensor) -> list[str]:
    """Stored scales: 2, 4 or 8 hexadecimal digits each."""
    digits = 2 * scales.element_size()
    if digits == 2:
        return [f"{byte:02x}" for byte in scales.flatten().tolist()]
    return [bits[:digits] for bits in float_bits(scales)]
