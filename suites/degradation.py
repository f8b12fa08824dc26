"""Degradation: how much worse a recipe trains than another, and whether that is more than noise.

Seeds are paired: seed s of both recipes starts from the same weights and sees the same batches, so

    degradation_s = 100 * (loss_s / loss of the other recipe at s - 1)      percent

is free of most of what seeds differ in. Its mean gets Student's 95 % interval, whose half width is
the smallest mean difference that these seeds could have resolved. A verdict needs at least three
pairs and an interval without zero; anything less is "not resolved", which is a result and not a
failure. Verdicts are per pair and not corrected for how many pairs there are.

The metric decides how much of the noise is left. Beside the loss at the end there are that of the
tail's mean weights and means of the training loss over tails of several lengths: every recipe is
estimated alike, and the half widths of the intervals say which estimate resolves most.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

from suites.intervals import Interval, interval_of_mean
from suites.rows import ALL, Origin, Quantity, Row, emulated, known_values, measured

METRICS = ("validation_loss", "averaged_validation_loss", "tail_train_loss")
# Mean training loss over the last part of the steps, in percent; compared with the baseline only.
TAILS = {f"train_loss_last_{percent}_percent": percent for percent in (5, 10, 20, 40)}
FEWEST_SEEDS = 3
NOT_RESOLVED = "not resolved"

SeedRows = dict[int, Row]


def compare_recipes(rows: Iterable[Row]) -> list[Row]:
    """Comparison rows of every recipe against the baseline, and of every other pair of recipes."""
    runs: dict[str, SeedRows] = defaultdict(dict)
    for row in rows:
        if row.kind == "training":
            runs[str(row.config["recipe"])][int(row.config["seed"])] = row
    # The baseline goes first: in a pair, the earlier recipe is what the later one is compared with.
    order = sorted(runs, key=lambda recipe: not _is_baseline(runs[recipe]))
    pairs = list(combinations(order, 2))
    with_baseline = [(other, recipe) for other, recipe in pairs if _is_baseline(runs[other])]
    return [
        compare_pair(runs[recipe], runs[other], metric)
        for metric in (*METRICS, *TAILS)
        for other, recipe in (with_baseline if metric in TAILS else pairs)
        if is_known(runs[recipe], metric) and is_known(runs[other], metric)
    ]


def is_known(runs: SeedRows, metric: str) -> bool:
    """Whether all runs that ended well have the metric; rows of older versions may lack it."""
    return all(loss_of(row, metric) is not None for row in runs.values() if row.status == "ok")


def loss_of(row: Row, metric: str) -> float | None:
    """A loss of a training row, in nats per token: one of METRICS or of TAILS."""
    if metric not in TAILS:
        return row.quantity(metric).value
    curve = row.series["train_loss"].y if "train_loss" in row.series else []
    tail = curve[-max(1, len(curve) * TAILS[metric] // 100) :]
    known = [loss for loss in tail if loss is not None]
    return statistics.fmean(known) if known and len(known) == len(tail) else None


def _is_baseline(runs: SeedRows) -> bool:
    return any(row.facts["baseline"] == row.config["recipe"] for row in runs.values())


def compare_pair(runs: SeedRows, others: SeedRows, metric: str) -> Row:
    """One comparison row: the degradation of a recipe relative to another in a metric."""
    seeds = sorted(runs.keys() & others.keys())
    finished = [s for s in seeds if runs[s].status == others[s].status == "ok"]
    excesses = [_excess_percent(runs[s], others[s], metric) for s in finished]
    interval = interval_of_mean(excesses) if excesses else None
    verdict, reason = _verdict(runs, others, seeds, interval)
    recipe, baseline = (next(iter(each.values())).config["recipe"] for each in (runs, others))
    return Row(
        kind="comparison",
        config={"recipe": recipe, "baseline": baseline, "metric": metric},
        values=_quantities(interval, len(finished), _step_ratio(runs, others, finished)),
        facts={"verdict": verdict, "reason": reason},
    )


def _excess_percent(row: Row, other: Row, metric: str) -> float:
    loss, reference = loss_of(row, metric), loss_of(other, metric)
    assert loss is not None and reference is not None  # what is not known is not compared
    return 100 * (loss / reference - 1)


def _verdict(
    runs: SeedRows, others: SeedRows, seeds: Sequence[int], interval: Interval | None
) -> tuple[str, str]:
    """The verdict and, in a few words, what it rests on."""
    diverged = [s for s in seeds if runs[s].status == "diverged"]
    lost = [s for s in seeds if others[s].status == "diverged"]
    if seeds and len(diverged) == len(seeds) and not lost:
        return "worse", "diverged at every seed"
    if diverged or lost:
        return (
            NOT_RESOLVED,
            f"diverged at seeds {sorted({*diverged, *lost})}: the rest is a biased choice",
        )
    if interval is None or len(seeds) < FEWEST_SEEDS:
        return NOT_RESOLVED, f"paired seeds: {len(seeds)}, a verdict needs {FEWEST_SEEDS}"
    if not interval.excludes_zero:
        return NOT_RESOLVED, f"the 95 % interval over {len(seeds)} paired seeds includes zero"
    side = "above" if interval.mean > 0 else "below"
    verdict = "worse" if interval.mean > 0 else "better"
    return verdict, f"the 95 % interval over {len(seeds)} paired seeds lies {side} zero"


def _step_ratio(runs: SeedRows, others: SeedRows, seeds: Sequence[int]) -> float | None:
    ratios = []
    for seed in seeds:
        seconds = [each[seed].quantity("step_seconds").value for each in (runs, others)]
        if seconds[0] and seconds[1]:
            ratios.append(seconds[0] / seconds[1])
    return statistics.fmean(ratios) if ratios else None


def _quantities(
    interval: Interval | None, seeds: int, step_ratio: float | None
) -> dict[str, Quantity]:
    values = {
        "degradation_percent": emulated(interval.mean if interval else None, "%"),
        "seeds": measured(seeds, ""),
        "step_ratio": measured(step_ratio, "", "median step time over the other recipe's"),
    }
    ends = ("ci_low", "ci_high", "smallest_resolvable")
    if interval is None or seeds < FEWEST_SEEDS:
        return values | dict.fromkeys(ends, _unresolved("emulated"))
    numbers = (interval.low, interval.high, interval.half_width)
    return values | {
        name: emulated(number, "%") for name, number in zip(ends, numbers, strict=True)
    }


def _unresolved(origin: Origin) -> Quantity:
    note = f"needs {FEWEST_SEEDS} paired seeds"
    return Quantity(value=None, unit="%", origin=origin, status="not_resolved", note=note)


def summarise_fidelity(rows: Iterable[Row]) -> list[Row]:
    """Fidelity rows over all: means over layers, steps and seeds for each recipe and operand."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.kind == "fidelity":
            groups[row.config["recipe"], row.config["gemm"], row.config["operand"]].append(row)
    return [
        Row(
            kind="fidelity",
            config={
                "recipe": recipe, "seed": ALL, "step": ALL, "layer": ALL,
                "gemm": gemm, "operand": operand,
            },
            values=_mean_values(group),
        )
        for (recipe, gemm, operand), group in groups.items()
    ]  # fmt: skip


def is_single_output(row: Row) -> bool:
    """Whether a row is the fidelity of one GEMM's output, and no mean over layers."""
    is_output = row.kind == "fidelity" and row.config.get("operand") == "output"
    return is_output and row.config.get("layer") != ALL


def _mean_values(rows: Sequence[Row]) -> dict[str, Quantity]:
    means = {}
    for name, first in rows[0].values.items():
        known = known_values(rows, name)
        mean = statistics.fmean(known) if known else None
        means[name] = emulated(mean, first.unit, f"mean of {len(known)}" if known else None)
    return means
