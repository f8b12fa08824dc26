"""Formats as the referee reads them, and ways to make more of them."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

from formats import BlockFormat, list_formats, load_format
from tests.numerics.referee import Facts

QUANTISED = tuple(
    entry.name for entry in list_formats() if not load_format(entry.name).is_high_precision
)


def facts_of(fmt: BlockFormat) -> Facts:
    """Plain facts: the table, the block, and names; nothing that the product derives."""
    assert fmt.element is not None and fmt.scale is not None
    table = tuple(None if math.isnan(v) else Fraction(v) for v in fmt.element.decode_table)
    return Facts(
        table,
        fmt.element.sign_magnitude,
        fmt.block,
        fmt.scale.format.name,
        fmt.scale.rule,
        Fraction(fmt.scale.headroom),
        fmt.tensor_scale,
        Fraction(fmt.gain),
        _mantissa(fmt.element.name, table),
    )


def _mantissa(name: str, table: tuple[Fraction | None, ...]) -> int:
    """Mantissa bits of a minifloat by its name, else as many as write the largest value."""
    if minifloat := re.fullmatch(r"e\d+m(\d+)", name):
        return int(minifloat[1])
    numerator = max(abs(value) for value in table if value is not None).numerator
    return len(f"{numerator:b}".rstrip("0")) - 1


def write_format(folder: Path, name: str = "mine", **facts: str) -> BlockFormat:
    """A format from YAML text per key, through the file that a user would write."""
    lines = {"name": name, "element": "e2m1", "block": "16", "scale": "{format: fp32}"} | facts
    path = folder / f"{name}.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return load_format(path)
