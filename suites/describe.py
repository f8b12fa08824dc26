"""What `--describe` prints: a format or a recipe, with everything that follows from its few facts.

The table of codes is the meaning of a grid; the midpoints are where rounding to nearest turns. Gain
and SQNR are measured on 2^20 Gaussian numbers (seed 0), the distribution that arXiv:2606.20381 uses
for its closed forms.
"""

from __future__ import annotations

import math
from pathlib import Path

from tabulate import tabulate

from formats import (
    OPERANDS,
    BlockFormat,
    Recipe,
    list_formats,
    list_recipes,
    load_format,
    load_recipe,
)
from formats.grid import Grid
from formats.yamlfile import did_you_mean, read_document

LISTED_BITS = 4  # codes of wider elements are too many to read

GAUSSIAN_ROWS = 1024
GAUSSIAN_COLUMNS = 1024


def describe(name_or_path: str) -> str:
    """Text about the format and the recipe of this name, or about what a YAML file holds.

    Raises:
        ValueError: no such name (with the nearest one), or what is wrong with the file.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        holds_format = "element" in read_document(Path(name_or_path)).data
        if holds_format:
            return describe_format(load_format(name_or_path))
        return describe_recipe(load_recipe(name_or_path))
    formats = {entry.name for entry in list_formats()}
    recipes = {entry.name for entry in list_recipes()}
    if name_or_path not in formats | recipes:
        hint = did_you_mean(name_or_path, sorted(formats | recipes))
        raise ValueError(f"unknown format or recipe '{name_or_path}'{hint}")
    texts = [describe_format(load_format(name_or_path))] if name_or_path in formats else []
    texts += [describe_recipe(load_recipe(name_or_path))] if name_or_path in recipes else []
    return "\n\n".join(texts)


def describe_format(fmt: BlockFormat) -> str:
    """The facts of a format, its codes, and its fidelity on Gaussian data."""
    facts = [
        ("format", fmt.name),
        ("summary", fmt.summary),
        ("bits per element", f"{fmt.bits_per_element:g} (scales included)"),
    ]
    if fmt.element is not None and fmt.scale is not None:
        tensor_scale = " under an FP32 tensor scale" if fmt.tensor_scale else ""
        facts += [
            ("block", f"{fmt.block[0]} x {fmt.block[1]}, columns along the contraction"),
            ("scale", f"{fmt.scale.format.name}, rule {fmt.scale.rule}{tensor_scale}"),
            ("max", f"{fmt.element.max:g}"),
            ("uniform", "yes" if fmt.element.is_uniform else "no"),
            *_gaussian_facts(fmt),
        ]
    facts.append(("source", fmt.source))
    text = tabulate(facts, tablefmt="plain", disable_numparse=True)
    if fmt.element is None or fmt.element.bits > LISTED_BITS:
        return text
    return f"{text}\n\n{_codes(fmt.element)}"


def describe_recipe(recipe: Recipe) -> str:
    """The six operands of a recipe and what it keeps in high precision."""
    facts = [
        ("recipe", recipe.name),
        ("summary", recipe.summary),
        ("kept in high precision", ", ".join(recipe.keep) or "nothing"),
        ("first and last blocks kept", f"{recipe.keep_first:.0%} and {recipe.keep_last:.0%}"),
        ("source", recipe.source),
    ]
    lines = [
        (name, operand.format.name, operand.rounding, operand.hadamard or "none")
        for name, operand in ((name, recipe.operands[name]) for name in OPERANDS)
    ]
    table = tabulate(lines, ("operand", "format", "rounding", "Hadamard size"))
    return tabulate(facts, tablefmt="plain", disable_numparse=True) + "\n\n" + table


def _codes(grid: Grid) -> str:
    """Every code with its value, and the midpoint to the next higher level."""
    upper = dict(zip(grid.levels, grid.midpoints, strict=False))
    lines = [
        (code, f"{code:0{grid.bits}b}", "unused", "")
        if math.isnan(value)
        else (code, f"{code:0{grid.bits}b}", f"{value:g}", _text(upper.get(value + 0.0)))
        for code, value in enumerate(grid.decode_table)
    ]
    return tabulate(lines, ("code", "bits", "value", "midpoint above"), disable_numparse=True)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _gaussian_facts(fmt: BlockFormat) -> list[tuple[str, str]]:
    import torch

    from kernels import fidelity, quantize

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(GAUSSIAN_ROWS, GAUSSIAN_COLUMNS, generator=generator)
    found = fidelity(x, quantize(x, fmt).dequantize())
    return [
        ("gain on Gaussian data", f"{found.gain:.4f}"),
        ("SQNR on Gaussian data", f"{found.sqnr_db:.2f} dB"),
    ]
