"""The tables of a replication's page, each from the runs of its recipes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tabulate import tabulate

from suites.claims import METRIC, NOT_RUN, Finding, Study, judge
from suites.degradation import METRICS, NOT_RESOLVED, TAILS, SeedRows, compare_pair, is_known
from suites.fidelity_and_loss import GEMMS, Quality, orders
from suites.rows import Row, known_values

FEWEST_TO_ORDER = 5


def results_table(study: Study, runs: dict[str, SeedRows]) -> str:
    """Every recipe that was run: its degradation over the baseline beside the paper's."""
    baseline = baseline_of(runs)
    heads = (
        "recipe", "what it is", "seeds", "validation loss above BF16, %", "paper, %", "verdict",
        "tokens/s", "kJ",
    )  # fmt: skip
    body = []
    for line in study.lines:
        if line.recipe in runs:
            comparison = compare_pair(runs[line.recipe], runs[baseline], METRIC)
            paper = " / ".join(f"{figure:.2f}" for figure in line.paper)
            body.append((
                line.recipe, line.setting, count(comparison), interval(comparison), paper,
                comparison.facts["verdict"], *_costs(runs[line.recipe]),
            ))  # fmt: skip
    costs = _costs(runs[baseline])
    first = (baseline, "the baseline", str(len(runs[baseline])), "0", "0", "", *costs)
    return _table(heads, [first, *body])


def findings_table(findings: Sequence[Finding], head: str) -> str:
    """Claims or questions, one a line."""
    heads = (
        head, "in the paper", "compared", "difference, %", "of mean weights, %", "seeds", "verdict",
    )  # fmt: skip
    body = [
        (
            finding.claim.claim, finding.claim.where,
            f"{finding.claim.recipe} with {finding.claim.than}",
            interval(finding.comparison), interval(finding.averaged), count(finding.comparison),
            finding.verdict,
        )
        for finding in findings
    ]  # fmt: skip
    return _table(heads, body)


def estimates_table(study: Study, runs: dict[str, SeedRows]) -> str:
    """Half width of the interval of each estimate of the loss: what smoothing is worth."""
    pairs = [(c.recipe, c.than) for c in (*study.claims, *study.questions)]
    pairs = [(a, b) for a, b in dict.fromkeys(pairs) if a in runs and b in runs]
    body = []
    for metric in (*METRICS, *TAILS):
        known = [
            (a, b) for a, b in pairs if is_known(runs[a], metric) and is_known(runs[b], metric)
        ]
        rows = [compare_pair(runs[a], runs[b], metric) for a, b in known]
        widths = known_values(rows, "smallest_resolvable")
        if widths:
            resolved = sum(row.facts["verdict"] != NOT_RESOLVED for row in rows)
            body.append((
                metric.replace("_", " "), f"{statistics.median(widths):.3f}",
                f"{min(widths):.3f} to {max(widths):.3f}", f"{resolved} of {len(rows)}",
            ))  # fmt: skip
    return _table(("estimate", "smallest resolvable, median %", "range, %", "pairs resolved"), body)


def outcome(findings: Sequence[Finding]) -> list[tuple[str, list[str]]]:
    """Claims by verdict, those that say most first."""
    by_verdict: dict[str, list[str]] = {
        verdict: [] for verdict in ("replicated", "contradicted", NOT_RESOLVED, NOT_RUN)
    }
    for finding in findings:
        by_verdict[finding.verdict].append(finding.claim.claim)
    return [(verdict, claims) for verdict, claims in by_verdict.items() if claims]


def fidelity_table(found: Sequence[Quality]) -> str:
    """Loss, and gain and SQNR of GEMM outputs, of every recipe whose GEMMs were observed."""
    heads = (
        "recipe", "loss above BF16, %",
        *(f"gain, {gemm}" for gemm in GEMMS), *(f"SQNR, {gemm}, dB" for gemm in GEMMS),
    )  # fmt: skip
    body = [
        (
            each.recipe, f"{each.loss:+.2f}",
            *(f"{each.gain[gemm]:.4f}" for gemm in GEMMS),
            *(f"{each.sqnr[gemm]:.2f}" for gemm in GEMMS),
        )
        for each in found
    ]  # fmt: skip
    return _table(heads, body)


def orders_table(found: Sequence[Quality]) -> str:
    """How far each measure orders recipes as their losses do; "" for too few of them."""
    if len(found) < FEWEST_TO_ORDER:
        return ""
    body = [(name, f"{value:+.2f}") for name, value in orders(found).items()]
    return _table(("measured in one step", "rank correlation with loss"), body)


def starts_table(study: Study, runs: dict[str, SeedRows], scratch: dict[str, SeedRows]) -> str:
    """Pairs that both studies ran, by either; "" if there are none."""
    both = [
        (claim, one.comparison, other.comparison)
        for claim in (*study.claims, *study.questions)
        for one, other in [(judge(claim, runs), judge(claim, scratch))]
        if one.comparison and other.comparison
    ]
    heads = ("compared", "parting later, %", "seeds", "parting at the first step, %", "seeds")
    body = [
        (
            f"{claim.recipe} with {claim.than}",
            interval(later), count(later), interval(first), count(first),
        )
        for claim, later, first in both
    ]  # fmt: skip
    return _table(heads, body) if body else ""


def depth_table(rows: Iterable[Row]) -> str:
    """Gain of the deepest forward signal of each network beside the product law; "" if not run."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.kind == "depth" and str(row.config["direction"]).startswith("forward"):
            network, signal, recipe = (row.config[key] for key in ("network", "signal", "recipe"))
            groups[network, signal, recipe].append(row)
    body = []
    for names, group in groups.items():
        deepest = max(int(row.config["layer"]) for row in group)
        last = [row for row in group if row.config["layer"] == deepest]
        figures = ("gain", "predicted_gain", "cosine")
        body.append((*names, str(deepest), *(_mean(last, figure) for figure in figures)))
    heads = ("network", "signal", "recipe", "layer", "gain", "product law", "cosine")
    return _table(heads, body) if body else ""


def interval(comparison: Row | None) -> str:
    """Mean difference with its 95 % interval, percent."""
    if comparison is None:
        return ""
    mean, low, high = (
        comparison.quantity(name).value for name in ("degradation_percent", "ci_low", "ci_high")
    )
    if mean is None:
        return "diverged"
    return f"{mean:+.2f}" if low is None else f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"


def count(comparison: Row | None) -> str:
    """Number of paired seeds."""
    value = None if comparison is None else comparison.quantity("seeds").value
    return "" if value is None else f"{value:.0f}"


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return str(tabulate(body, heads, tablefmt="github", disable_numparse=True))


def _costs(seeds: SeedRows) -> tuple[str, str]:
    """Median tokens per second and kilojoules of a recipe's runs."""
    medians = []
    for name in ("tokens_per_second", "energy_joules"):
        known = known_values(seeds.values(), name)
        medians.append(statistics.median(known) if known else None)
    speed, joules = medians
    return (
        "" if speed is None else f"{speed:,.0f}",
        "" if joules is None else f"{joules / 1000:.1f}",
    )


def _mean(rows: Sequence[Row], name: str) -> str:
    known = known_values(rows, name)
    return f"{statistics.fmean(known):.4f}" if known else ""


def baseline_of(runs: dict[str, SeedRows]) -> str:
    """The recipe that losses are compared with."""
    return str(next(iter(next(iter(runs.values())).values())).facts["baseline"])
