"""Activity: the sequences of codes that make a circuit toggle.

A dot-product unit works along the contraction axis: at step t it takes block t of a row of the left
operand and block t of a row of the right one, with their two scales. A *stream* is such a sequence.
Two sources exist, and results name theirs: ``uniform`` draws every code with equal probability;
``training`` are the codes of the operands of a real training step (data/activity.json, captured by
``suites.capture``). How far they differ is a property of the grid and its block: E2M1 scaled per 16
uses its codes almost evenly, a uniform grid or a longer block leaves the large codes rare.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict

from formats import ScaleFormat
from hwmodels.codebook import CODE_BITS, CodeBook

SAMPLES = Path(__file__).parent / "data" / "activity.json"
SCALE_BINADES = 4  # uniform streams draw scales within this many binades around 1


@dataclass(frozen=True)
class Stream:
    """Codes (vectors x lanes) and stored scales (one per vector) of two operands."""

    source: str
    a: tuple[tuple[int, ...], ...]
    b: tuple[tuple[int, ...], ...]
    a_scales: tuple[int, ...]
    b_scales: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.a)


class Sample(BaseModel):
    """Packed codes of one recipe: two codes a byte, the even lane in the low nibble, base64.

    Scales are ``scale_bits`` wide, little-endian, whole bytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: str
    integers: tuple[int | None, ...]
    scale: str
    scale_bits: int
    lanes: int
    a: str
    b: str
    a_scales: str
    b_scales: str


class Samples(BaseModel):
    """The activity file: where the codes come from, and one sample per recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    samples: tuple[Sample, ...]


def uniform(book: CodeBook, scale: ScaleFormat, lanes: int, count: int, seed: int = 0) -> Stream:
    """Every used code with equal probability; scales within a few binades of 1."""
    random = Random(seed)

    def codes() -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(random.choices(book.used_codes, k=lanes)) for _ in range(count))

    def scales() -> tuple[int, ...]:
        low = (scale.bias - SCALE_BINADES) << scale.mantissa
        span = (2 * SCALE_BINADES) << scale.mantissa
        return tuple(low + random.randrange(span) for _ in range(count))

    return Stream("uniform", codes(), codes(), scales(), scales())


def training(book: CodeBook, scale: ScaleFormat, lanes: int) -> Stream | None:
    """The captured stream of a grid under a scale format and lane count; None if there is none."""
    for sample in _samples().samples:
        if (sample.integers, sample.scale, sample.lanes) == (book.integers, scale.name, lanes):
            return Stream(
                f"training ({sample.recipe})",
                _unpack_codes(sample.a, lanes),
                _unpack_codes(sample.b, lanes),
                _unpack_scales(sample.a_scales, sample.scale_bits),
                _unpack_scales(sample.b_scales, sample.scale_bits),
            )
    return None


def training_source() -> str:
    """Which training run the samples were captured from."""
    return _samples().source


def pack(recipe: str, book: CodeBook, scale: ScaleFormat, lanes: int, stream: Stream) -> Sample:
    """A stream in the form of the activity file."""
    return Sample(
        recipe=recipe,
        integers=book.integers,
        scale=scale.name,
        scale_bits=scale.bits,
        lanes=lanes,
        a=_pack_codes(stream.a),
        b=_pack_codes(stream.b),
        a_scales=_pack_scales(stream.a_scales, scale.bits),
        b_scales=_pack_scales(stream.b_scales, scale.bits),
    )


@cache
def _samples() -> Samples:
    return Samples.model_validate_json(SAMPLES.read_text())


def _pack_codes(rows: Sequence[Sequence[int]]) -> str:
    flat = [code for row in rows for code in row]
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return base64.b64encode(bytes(low | high << CODE_BITS for low, high in pairs)).decode()


def _unpack_codes(text: str, lanes: int) -> tuple[tuple[int, ...], ...]:
    flat = [code for byte in base64.b64decode(text) for code in (byte & 15, byte >> CODE_BITS)]
    return tuple(tuple(row) for row in _chunks(flat, lanes))


def _pack_scales(scales: Sequence[int], bits: int) -> str:
    data = b"".join(scale.to_bytes(bits // 8, "little") for scale in scales)
    return base64.b64encode(data).decode()


def _unpack_scales(text: str, bits: int) -> tuple[int, ...]:
    words = _chunks(base64.b64decode(text), bits // 8)
    return tuple(int.from_bytes(bytes(word), "little") for word in words)


def _chunks(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))
