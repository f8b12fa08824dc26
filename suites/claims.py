"""Claims: what a paper says of its recipes, as pairs that are compared, and what runs say to it.

A claim is a pair of recipes and what is said of them ("better", "worse"), as data in
`studies/ufp4.yaml`. Its verdict follows from the paired comparison of the runs alone:

    replicated      resolved, and as the claim says         contradicted    resolved, the other way
    not resolved    the interval includes zero, or fewer than three pairs

A question is a pair without an expectation; its answer is the comparison's verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from formats.schema import Record
from formats.yamlfile import load_yaml
from suites.degradation import METRICS, NOT_RESOLVED, SeedRows, compare_pair, is_known
from suites.rows import Row

STUDIES = Path(__file__).parent / "studies"
METRIC, AVERAGED = METRICS[:2]
NOT_RUN = "not run"


class Line(Record):
    """A recipe of the study; `paper` holds published degradations over BF16, percent."""

    recipe: str
    setting: str
    paper: tuple[float, ...] = ()


class Claim(Record):
    """What is said, or asked, of a recipe in comparison with another."""

    claim: str
    recipe: str
    than: str
    where: str = ""
    expected: Literal["better", "worse"] | None = None


class Study(Record):
    """A paper's recipes, its claims, and the questions that it leaves open."""

    lines: tuple[Line, ...]
    claims: tuple[Claim, ...]
    questions: tuple[Claim, ...]


@dataclass(frozen=True)
class Finding:
    """A claim with the comparison that decides it (None: not run) and the verdict.

    `averaged` compares the same runs by the loss of their mean weights, as a second opinion.
    """

    claim: Claim
    comparison: Row | None
    averaged: Row | None
    verdict: str


def load_study() -> Study:
    """The claims of UFP4."""
    return load_yaml(STUDIES / "ufp4.yaml", Study)


def runs_by_recipe(rows: Iterable[Row]) -> dict[str, SeedRows]:
    """Training rows by recipe and seed."""
    runs: dict[str, SeedRows] = defaultdict(dict)
    for row in rows:
        if row.kind == "training":
            runs[str(row.config["recipe"])][int(row.config["seed"])] = row
    return dict(runs)


def judge(claim: Claim, runs: dict[str, SeedRows]) -> Finding:
    """The verdict on a claim, or the answer to a question."""
    if claim.recipe not in runs or claim.than not in runs:
        return Finding(claim, None, None, NOT_RUN)
    pair = runs[claim.recipe], runs[claim.than]
    comparison = compare_pair(*pair, METRIC)
    known = all(is_known(each, AVERAGED) for each in pair)
    averaged = compare_pair(*pair, AVERAGED) if known else None
    verdict = str(comparison.facts["verdict"])
    if claim.expected is not None and verdict != NOT_RESOLVED:
        verdict = "replicated" if verdict == claim.expected else "contradicted"
    return Finding(claim, comparison, averaged, verdict)
