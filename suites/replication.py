"""replication: what committed rows say about a paper's claims, as docs/replication.md.

    python -m suites.replication collect RUN [RUN ...]     run folders -> results/ufp4-replication
    python -m suites.replication write                     rows -> docs/replication.md and README.md

The claims are data (``claims``) and the page is a template in `studies`; no figure is typed in.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from suites.claims import STUDIES, Finding, judge, load_study, runs_by_recipe
from suites.collect import collect, write_summary
from suites.degradation import SeedRows
from suites.experiment import ROOT
from suites.fidelity_and_loss import BIAS, MEAN_SQNR, orders, qualities
from suites.pretrain import Pretrain
from suites.replication_tables import (
    FEWEST_TO_ORDER,
    baseline_of,
    depth_table,
    estimates_table,
    fidelity_table,
    findings_table,
    orders_table,
    outcome,
    results_table,
    starts_table,
)
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


def page(rows: Sequence[Row], from_scratch: Sequence[Row] = ()) -> str:
    """docs/replication.md of the rows of a study, and of an earlier one without a common start."""
    study, runs = load_study(), runs_by_recipe(rows)
    claims = [judge(claim, runs) for claim in study.claims]
    first = next(iter(next(iter(runs.values())).values()))
    templates = Environment(
        loader=FileSystemLoader(STUDIES), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    found = qualities(rows, runs, baseline_of(runs))
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
        fidelity=fidelity_table(found),
        orders=orders_table(found),
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
    note = (
        "Paired 95 % intervals, negative is better; all of it: "
        f"[docs/replication.md](docs/replication.md).{_order_in_short(rows, runs)}"
    )
    return f"{before}{opening}{table}\n\n{note}\n{closing}{after}"


def _order_in_short(rows: Sequence[Row], runs: dict[str, SeedRows]) -> str:
    found = qualities(rows, runs, baseline_of(runs))
    if len(found) < FEWEST_TO_ORDER:
        return ""
    by_noise, by_bias = (orders(found)[name] for name in (MEAN_SQNR, BIAS))
    return (
        f"\nRank correlation with the loss of {len(found)} recipes, from one step: "
        f"{by_noise:+.2f} of the"
        f"\nSQNR of their GEMMs, {by_bias:+.2f} of the distance of their gain from one."
    )


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


def _seconds(row: Row) -> float:
    return (row.quantity("step_seconds").value or 0.0) * row.config["steps"]


if __name__ == "__main__":
    main(sys.argv[1:])
