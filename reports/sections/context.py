"""What a sceptical reader asks next: method, limits, environment, how to run it again, terms."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports.section import Code, Section, Sentences, Terms
from reports.table import ORIGINS, Cell, Column, Table

METHOD = (
    "Every recipe starts from the same weights and sees the same batches in the same order; only "
    "what its matrix products go through differs. Seeds are paired, and intervals are of the "
    "paired differences.",
    "A format is emulated exactly: operands are quantised, dequantised and multiplied with FP32 "
    "accumulation, which equals what hardware with the format would compute up to the order of the "
    "sum. Where that is not so, the row says it.",
    "Gain, SQNR and relative error are taken against FP32 on the tensors of the run itself.",
    "Area, energy and time on other devices come from models whose constants carry a source. They "
    "are never put in one column with measurements.",
)
LIMITS = (
    "Models and budgets are small beside production runs. A difference that is not resolved here "
    "may exist, and one that is resolved may shrink or grow with scale.",
    "Speed and energy measured while a format is emulated say nothing about hardware that has it.",
    "Modelled area and energy are of arithmetic parts, not of a laid-out chip.",
    "Where this report condenses numbers (medians over layers, ranges over seeds) it says so; the "
    "result rows hold every single one.",
)
GLOSSARY = (
    ("E2M1", "4-bit float: sign, two exponent bits, one mantissa bit; magnitudes 0 to 6."),
    ("E1M2, INT4", "Evenly spaced 4-bit grids; E1M2 is symmetric INT4 times 1/4."),
    ("block scale", "A scale shared by a few neighbouring elements, 16 or 32 as a rule."),
    ("fprop, dgrad, wgrad", "A linear layer's three products: output, input and weight gradient."),
    ("gain", "<x, Q(x)> / <x, x>: the share of the signal that survives; 1 is unbiased."),
    ("SQNR", "Signal to quantisation noise ratio in decibels; 6 dB halve the error."),
    ("RHT", "Random Hadamard transform along the contraction axis: signs, then Hadamard."),
    ("stochastic rounding", "Rounding up or down at random so that the mean is right."),
    ("loss degradation", "Loss above the bf16 run of the same seed, in percent of that loss."),
    ("not resolved", "The interval includes zero: this budget cannot tell the two apart."),
    ("Pareto front", "The points that no other point beats in both quantities."),
    ("bits per byte", "Loss in a unit that does not depend on the tokenizer."),
)


def method() -> Section:
    """How the numbers came about and what they cannot say."""
    origins = tuple((f"{name}: {meaning}.",) for name, meaning in ORIGINS.items())
    return Section(
        "method",
        "Method and limits",
        "",
        (
            Sentences("Method", tuple((text,) for text in METHOD)),
            Sentences("Limits", tuple((text,) for text in LIMITS)),
            Sentences("Where numbers come from", origins),
        ),
    )


def environment(environments: Sequence[Mapping[str, Any]]) -> Section:
    """What the runs ran on, one column per run."""
    flat = [dict(_flatten(facts)) for facts in environments]
    keys = dict.fromkeys(key for facts in flat for key in facts if key != "command")
    runs = [f"run {i + 1}" for i in range(len(flat))] if len(flat) > 1 else ["value"]
    table = Table(
        "environment",
        "What this ran on",
        (Column("fact"), *map(Column, runs)),
        tuple((Cell(key), *(Cell(facts.get(key, "n/a")) for facts in flat)) for key in keys),
    )
    return Section("environment", "Environment", "", (table,) if table else (), "any suite")


def reproduce(environments: Sequence[Mapping[str, Any]]) -> Section:
    """The exact commands of the runs."""
    commands = [_command(facts["command"]) for facts in environments if facts.get("command")]
    parts = (Code("\n".join(commands)),) if commands else ()
    return Section(
        "reproduce",
        "How to reproduce",
        "The commands that made these rows, from the root of a checkout of the commit above. Cells "
        "that are already in the run folder are not run again.",
        parts,
        "any suite",
    )


def glossary() -> Section:
    """The words of this report."""
    return Section("glossary", "Glossary", "", (Terms(GLOSSARY),))


def _command(command: object) -> str:
    """A command as one shell line; a Python script is started by python."""
    words = [str(word) for word in command] if isinstance(command, list) else None
    line = shlex.join(words) if words else str(command)
    return f"python {line}" if words and words[0].endswith(".py") else line


def _flatten(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                yield from _flatten({str(index): item}, f"{name}.")
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
