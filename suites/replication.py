"""replication: what committed rows say about a paper's claims, as docs/replication.md.

python -m suites.replication collect RUN [RUN ...]     run folders -> results/ufp4-replication
python -m suites.replication write                     rows -> docs/replication.md and README.md
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tabulate import tabulate

from suites.claims import (
    METRIC,
    NOT_RUN,
    STUDIES,
    Finding,
    Study,
    judge,
    load_study,
    runs_by_recipe,
)
from suites.collect import collect, write_summary
from suites.degradation import METRICS, NOT_RESOLVED, TAILS, SeedRows, compare_pair, is_known
from suites.experiment import ROOT
from suites.pretrain import Pretrain
from suites.rows import Row
from suites.store import read_run

RESULTS = ROOT / "results" / "ufp4-replication"
FROM_SCRATCH = ROOT / "results" / "ufp4-replication-from-scratch"  # recipes part at step 0
PAGE = ROOT / "docs" / "replication.md"
README = ROOT / "README.md"
DEPTH = ROOT / "results" / "ufp4-depth"  # of the suite depth, on a CPU
TABLE_MARKS = ("<!-- table -->\n", "<!-- /table -->\n")


def committed_rows() -> list[Row]:
    """All rows that the page is made of."""
    return [row for folder in (RESULTS, DEPTH) for row in read_run(folder).rows]


def rows_from_scratch() -> list[Row]:
    """The rows of an earlier study, in which recipes part at the first step."""
    return list(read_run(FROM_SCRATCH).rows)


def results_table(study: Study, runs: dict[str, SeedRows]) -> str:
    """Every recipe that was run: its degradation over the baseline beside the paper's."""
    baseline = next(iter(next(iter(runs.values())).values())).facts["baseline"]
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
        widths = [w for row in rows if (w := row.quantity("smallest_resolvable").value) is not None]
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


def page(rows: Sequence[Row], from_scratch: Sequence[Row] = ()) -> str:
    """docs/replication.md of the rows of a study, and of an earlier one without a common start."""
    study, runs = load_study(), runs_by_recipe(rows)
    claims = [judge(claim, runs) for claim in study.claims]
    first = next(iter(next(iter(runs.values())).values()))
    templates = Environment(
        loader=FileSystemLoader(STUDIES), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    ok = [row for seeds in runs.values() for row in seeds.values() if row.status == "ok"]
    return templates.get_template("ufp4.md.j2").render(
        config=first.config,
        facts=first.facts,
        values=first.values,
        tokens=first.config["steps"] * first.config["step_tokens"],
        runs=sum(map(len, runs.values())),
        diverged=sum(map(len, runs.values())) - len(ok),
        hours=sum(_seconds(row) for row in ok) / 3600,
        results=results_table(study, runs),
        outcome=outcome(claims),
        claims=findings_table(claims, "claim"),
        questions=findings_table([judge(claim, runs) for claim in study.questions], "question"),
        estimates=estimates_table(study, runs),
        starts=starts_table(study, runs, runs_by_recipe(from_scratch)),
        depth=depth_table(rows),
    )


def readme(text: str, rows: Sequence[Row]) -> str:
    """README's text with its first table made from the rows: pairs that have an interval."""
    opening, closing = TABLE_MARKS
    before, _, rest = text.partition(opening)
    _, found, after = rest.partition(closing)
    after = after if found else rest
    study, runs = load_study(), runs_by_recipe(rows)
    findings = [judge(claim, runs) for claim in (*study.claims, *study.questions)]
    table = findings_table([each for each in findings if _has_interval(each)], "claim or question")
    note = "Paired 95 % intervals, negative is better; all of it: [docs/replication.md]"
    return f"{before}{opening}{table}\n\n{note}(docs/replication.md)\n{closing}{after}"


def main(arguments: Sequence[str]) -> None:
    """Collect run folders, or write the page and the README's table."""
    parser = argparse.ArgumentParser(prog="python -m suites.replication", description=__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    tasks.add_parser("collect").add_argument("runs", nargs="+", type=Path)
    tasks.add_parser("write")
    options = parser.parse_args(arguments)
    if options.task == "collect":
        collect(options.runs, RESULTS, Pretrain())
        return
    for folder in (RESULTS, FROM_SCRATCH):
        write_summary(folder, Pretrain())
    rows = committed_rows()
    PAGE.write_text(page(rows, rows_from_scratch()))
    README.write_text(readme(README.read_text(), rows))


def _has_interval(finding: Finding) -> bool:
    return (
        finding.comparison is not None and finding.comparison.quantity("ci_low").value is not None
    )


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return str(tabulate(body, heads, tablefmt="github", disable_numparse=True))


def _costs(seeds: SeedRows) -> tuple[str, str]:
    """Median tokens per second and kilojoules of a recipe's runs."""
    medians = []
    for name in ("tokens_per_second", "energy_joules"):
        known = [v for row in seeds.values() if (v := row.quantity(name).value) is not None]
        medians.append(statistics.median(known) if known else None)
    speed, joules = medians
    return (
        "" if speed is None else f"{speed:,.0f}",
        "" if joules is None else f"{joules / 1000:.1f}",
    )


def _seconds(row: Row) -> float:
    return (row.quantity("step_seconds").value or 0.0) * row.config["steps"]


def _mean(rows: Sequence[Row], name: str) -> str:
    known = [value for row in rows if (value := row.quantity(name).value) is not None]
    return f"{statistics.fmean(known):.4f}" if known else ""


if __name__ == "__main__":
    main(sys.argv[1:])
