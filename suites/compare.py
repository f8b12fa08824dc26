"""Comparison of two runs, A (before) and B (after), with their noise taken into account.

Rows are matched by kind and configuration; the seed is not part of the match, it pairs samples. A
change is the mean relative change from A to B in percent, turned so that *positive is worse*, and:

    worse, better   every seed agrees, as far as a 95 % interval of the paired changes can tell
    same            no change at all
    not resolved    the interval includes zero
    diverged        a number in A became NaN or infinite in B, which passes any threshold
    one sample      a single pair: how large the noise is, is not known
    n/a             a side lacks the number, or has no number to give
    hardware        times and energies of different hardware are not compared

A decibel counts as the error amplitude it stands for, 20 dB per decade; a gain by how far the
shrinkage |1 - gain| moved.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tabulate import tabulate

from suites.intervals import Interval, interval_of_mean
from suites.kernel_rows import RATIOS
from suites.rows import Quantity, Row
from suites.store import Run

Verdict = Literal[
    "worse", "better", "same", "not resolved", "diverged", "one sample", "n/a", "hardware"
]
Samples = Mapping[int, Quantity]
Group = tuple[str, str]

MOST_ALIKE = 12  # changes of one metric in rows of one kind that are all listed

HIGHER_IS_BETTER = {
    "bytes_per_second", "tokens_per_second", "utilisation", *RATIOS[True],
}  # fmt: skip
LOWER_IS_BETTER = {
    "bits_per_byte", "energy_joules", "joules_per_token", "peak_memory_gib", "relative_l2",
    "replayed_us", "step_seconds", "tail_train_loss", "time_us", "validation_loss", "wall_us",
    *RATIOS[False],
}  # fmt: skip
OF_THE_MACHINE = {
    "bytes_per_second", "energy_joules", "joules_per_token", "peak_memory_gib", "replayed_us",
    "step_seconds", "time_us", "tokens_per_second", "wall_us", *RATIOS[True], *RATIOS[False],
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """How one quantity changed from A to B; `worse_percent` is None where nothing can be said."""

    kind: str
    what: str
    metric: str
    before: float | None
    after: float | None
    unit: str
    worse_percent: Interval | None
    verdict: Verdict

    def exceeds(self, percent: float) -> bool:
        """Whether this is a worsening beyond a threshold that noise does not explain."""
        if self.verdict == "diverged":
            return True
        if self.worse_percent is None or self.verdict not in ("worse", "one sample"):
            return False
        return self.worse_percent.mean > percent

    def line(self) -> tuple[str, ...]:
        """The change as a line of the table."""
        percent = width = "n/a"
        if self.worse_percent is not None:
            percent = f"{self.worse_percent.mean:+.2f}"
            known = math.isfinite(self.worse_percent.half_width)
            width = f"{self.worse_percent.half_width:.2f}" if known else "unknown"
        numbers = (_show(self.before), _show(self.after), self.unit, percent, width)
        return (self.what, self.metric, *numbers, self.verdict)


@dataclass(frozen=True)
class Comparison:
    """All changes, and what a reader must know before believing them."""

    changes: tuple[Change, ...]
    warnings: tuple[str, ...]

    def table(self) -> str:
        """The changes as a terminal table; of many alike, the worst and a count of the rest."""
        header = ("what", "metric", "A", "B", "unit", "worse by %", "+-", "verdict")
        alike: dict[tuple[str, str], list[Change]] = {}
        for change in self.changes:
            alike.setdefault((change.kind, change.metric), []).append(change)
        lines = []
        for (kind, metric), changes in alike.items():
            shown = changes if len(changes) <= MOST_ALIKE else _worst(changes)
            lines += [change.line() for change in shown]
            if len(shown) < len(changes):
                lines.append((f"{kind}: {len(changes) - len(shown)} more", metric, *6 * ("...",)))
        return tabulate(lines, header, disable_numparse=True)


def compare_runs(before: Run, after: Run) -> Comparison:
    """Compare two run folders.

    Raises:
        ValueError: they share no configuration, so that there is nothing to compare.
    """
    one, other = _by_config(before.rows), _by_config(after.rows)
    shared = [group for group in one if group in other]
    if not shared:
        raise ValueError(f"{before.folder} and {after.folder} have no configuration in common")
    warnings = _warnings(before, after, len(one) - len(shared), len(other) - len(shared))
    same_hardware = _hardware(before) == _hardware(after)
    names = _names({group: one[group][0] for group in shared})
    changes = [
        _change(names[group], metric, one[group], other[group], same_hardware)
        for group in shared
        for metric in _metrics(one[group], other[group])
    ]
    return Comparison(tuple(changes), tuple(warnings))


def _by_config(rows: Iterable[Row]) -> dict[Group, list[Row]]:
    """Rows by kind and configuration without its seed."""
    groups: dict[Group, list[Row]] = {}
    for row in rows:
        config = {name: value for name, value in row.config.items() if name != "seed"}
        groups.setdefault((row.kind, json.dumps(config, sort_keys=True)), []).append(row)
    return groups


def _names(examples: Mapping[Group, Row]) -> dict[Group, str]:
    """A name for each group: its kind, and what sets it apart from the others of its kind."""
    names = {}
    for group, row in examples.items():
        rivals = [other.config for other in examples.values() if other.kind == row.kind]
        apart = [
            f"{name}={value}"
            for name, value in row.config.items()
            if name != "seed" and any(rival.get(name) != value for rival in rivals)
        ]
        names[group] = " ".join([row.kind, *apart])
    return names


def _metrics(one: Sequence[Row], other: Sequence[Row]) -> list[str]:
    """The quantities that have a better and a worse, in order of appearance."""
    names = dict.fromkeys(name for row in (*one, *other) for name in row.values)
    directed = HIGHER_IS_BETTER | LOWER_IS_BETTER | {"gain", "sqnr_db"}
    return [name for name in names if name in directed]


def _change(
    what: str, metric: str, one: Sequence[Row], other: Sequence[Row], same_hardware: bool
) -> Change:
    before, after = _samples(one, metric), _samples(other, metric)
    unit = next((q.unit for q in (*before.values(), *after.values()) if q.unit), "")
    facts = (one[0].kind, what, metric, _mean(before), _mean(after), unit)
    if metric in OF_THE_MACHINE and not same_hardware:
        return Change(*facts, None, "hardware")
    pairs = [(before[seed], after[seed]) for seed in before if seed in after]
    if any(a.status == "ok" and b.status == "diverged" for a, b in pairs):
        return Change(*facts, None, "diverged")
    worse = [_worse_percent(metric, a.value, b.value) for a, b in pairs]
    known = [percent for percent in worse if percent is not None]
    if not known:
        return Change(*facts, None, "n/a")
    interval = interval_of_mean(known)
    return Change(*facts, interval, _verdict(interval, len(known)))


def _samples(rows: Sequence[Row], metric: str) -> Samples:
    """One quantity by seed; rows without a seed count as seed 0."""
    return {row.config.get("seed", 0): row.quantity(metric) for row in rows}


def _worse_percent(metric: str, before: float | None, after: float | None) -> float | None:
    """Relative change in percent, positive for worse; None when there is nothing to relate."""
    if before is None or after is None:
        return None
    if metric == "sqnr_db":
        return 100 * (math.pow(10, (before - after) / 20) - 1)
    if metric == "gain":
        return 100 * (abs(1 - after) - abs(1 - before))
    if before == 0:
        return 0.0 if after == 0 else None
    change = 100 * (after - before) / abs(before)
    return -change if metric in HIGHER_IS_BETTER else change


def _verdict(interval: Interval, samples: int) -> Verdict:
    if interval.mean == 0 and (samples == 1 or interval.half_width == 0):
        return "same"
    if samples == 1:
        return "one sample"
    if not interval.excludes_zero:
        return "not resolved"
    return "worse" if interval.mean > 0 else "better"


def _mean(samples: Samples) -> float | None:
    values = [quantity.value for quantity in samples.values() if quantity.value is not None]
    return sum(values) / len(values) if values else None


def _hardware(run: Run) -> Any:
    return run.environment.get("hardware", "n/a")


def _warnings(before: Run, after: Run, only_before: int, only_after: int) -> list[str]:
    warnings = []
    if _hardware(before) != _hardware(after):
        warnings.append(
            f"different hardware: A {_hardware(before)}, B {_hardware(after)}; "
            "times and energies are not compared"
        )
    versions = [sorted({row.schema_version for row in run.rows}) for run in (before, after)]
    if versions[0] != versions[1]:
        warnings.append(f"schema versions differ: A {versions[0]}, B {versions[1]}; gaps read n/a")
    if only_before or only_after:
        warnings.append(f"without a partner: {only_before} only in A, {only_after} only in B")
    return warnings


def _show(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.5g}"


def _worst(changes: Sequence[Change]) -> list[Change]:
    """The few changes for the worse that are largest."""
    known = [change for change in changes if change.worse_percent is not None]
    known.sort(key=lambda change: -change.worse_percent.mean if change.worse_percent else 0.0)
    return known[:MOST_ALIKE]
