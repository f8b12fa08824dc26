#!/usr/bin/env python3
"""Gridbench: which 4-bit number format should the next accelerator multiply, and at what cost?

    python bench.py --suite pretrain-small            the main job
    python bench.py --list                            suites, formats, recipes, devices
    python bench.py --describe nvfp4                  what follows from a format's or recipe's facts
    python bench.py --report RUN [RUN ...] -o out.html
    python bench.py --compare RUN_A RUN_B --fail-on 5%

Results go to stdout, everything else to stderr. Exit status: 0 ok, 1 a cell failed or a threshold
was passed, 2 usage or input error (nothing was written), 130 interrupted (finished cells are kept,
the same command goes on from there).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tabulate import tabulate

from formats import add_formats_dir, list_formats, list_recipes
from formats.yamlfile import did_you_mean
from suites.catalog import list_suites

if TYPE_CHECKING:
    from suites.plan import Plan
    from suites.rows import Row

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
LISTS = ("suites", "formats", "recipes", "devices")
SUITE_OPTIONS = (
    "format", "recipe", "seeds", "set", "device", "out", "dry_run", "show_config", "no_resume",
)  # fmt: skip
logger = logging.getLogger("bench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    try:
        options = parse_arguments(arguments)
        for folder in options.formats_dir:
            add_formats_dir(folder)
        return run_command(options)
    except ValueError as error:
        print(f"bench.py: error: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("interrupted: finished cells are kept; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what Python still holds back has no use.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        """Leave the usage text to --help."""
        raise ValueError(f"{message} (see --help)")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line as a namespace.

    Raises:
        ValueError: unknown options or values, or options that the task has no use for.
    """
    parser = Parser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_tasks(parser)
    add_suite_options(parser)
    add_report_options(parser)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = [name for action in parser._actions for name in action.option_strings]
        raise ValueError(f"unknown option '{unknown[0]}'{did_you_mean(unknown[0], known)}")
    for name in SUITE_OPTIONS if options.suite is None else ():
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} goes with --suite")
    if options.fail_on is not None and not options.compare:
        parser.error("--fail-on goes with --compare")
    if options.output is not None and not options.report:
        parser.error("-o goes with --report")
    return options


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """What to do: exactly one of these."""
    group = parser.add_argument_group("tasks")
    task = group.add_mutually_exclusive_group(required=True)
    add = task.add_argument
    add("--suite", metavar="NAME", help="run a suite: a name or a YAML file")
    add("--list", nargs="?", const="all", choices=("all", *LISTS), help="what exists")
    add("--describe", metavar="NAME", help="explain a format or recipe: a name or a YAML file")
    add("--report", nargs="+", metavar="RUN", type=Path, help="make a report from run folders")
    add("--compare", nargs=2, metavar=("A", "B"), type=Path, help="compare two run folders")
    add("--check", metavar="FILE", type=Path, help="check answers to the conformance vectors")


def add_suite_options(parser: argparse.ArgumentParser) -> None:
    """What a suite runs, and how."""
    add = parser.add_argument_group("options of --suite").add_argument
    add("--format", action="append", default=[], metavar="F", help="name or file; repeatable")
    add("--recipe", action="append", default=[], metavar="R", help="name or file; repeatable")
    add("--seeds", type=int, metavar="N", help="number of paired seeds")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="a setting, e.g. training.steps=500; repeatable")  # fmt: skip
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if any")
    add("--out", type=Path, metavar="DIR", help="run folder (default: runs/SUITE-DEVICE)")
    add("--dry-run", action="store_true", help="show the cells and their time, run nothing")
    add("--show-config", action="store_true", help="print the resolved settings, run nothing")
    add("--no-resume", action="store_true", help="run finished cells again")


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """The rest."""
    add = parser.add_argument_group("other options").add_argument
    add("--formats-dir", action="append", default=[], metavar="DIR",
        help="folder of formats, with recipes in its subfolder recipes; repeatable")  # fmt: skip
    add("-o", "--output", type=Path, metavar="FILE", help="of --report: .html, .md or .csv")
    add("--report-js", choices=("inline", "directory", "cdn"), default="inline",
        help="plotly.js inside the report (default), beside it, or from a network")  # fmt: skip
    add("--fail-on", type=percentage, metavar="P%",
        help="of --compare: status 1 if anything got worse by more than this")  # fmt: skip


def percentage(text: str) -> float:
    """Parse "5%" or "5" into 5.0."""
    value = float(text.removesuffix("%"))
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def run_command(options: argparse.Namespace) -> int:
    """Do the one thing that the options ask for."""
    if options.list:
        return show_lists(LISTS if options.list == "all" else (options.list,))
    if options.describe is not None:
        from suites.describe import describe

        print(describe(options.describe))
        return OK
    if options.report:
        return make_report(options.report, options.output, options.report_js)
    if options.compare:
        before, after = options.compare
        return compare(before, after, options.fail_on)
    if options.check:
        return check_answers(options.check)
    return run_suite(options)


def show_lists(kinds: Sequence[str]) -> int:
    """Print the names that exist, with a line each; a faulty file is shown with its fault."""
    from hwmodels.device import list_devices

    listings: dict[str, Callable[[], Sequence[Any]]] = {
        "suites": list_suites,
        "formats": list_formats,
        "recipes": list_recipes,
        "devices": list_devices,
    }
    for kind in kinds:
        entries = [
            (entry.name, f"broken: {entry.error}" if entry.error else entry.summary)
            for entry in listings[kind]()
        ]
        print(f"{kind}\n{tabulate(entries, tablefmt='plain')}\n")
    if tuple(kinds) == ("devices",):
        # Only when asked for devices alone: it takes torch, which takes seconds.
        from suites.paths import path_table

        print(path_table())
    return OK


def run_suite(options: argparse.Namespace) -> int:
    """Run a suite's cells into its run folder, then print its tables and write its report."""
    from suites.plan import Request, make_plan

    if int(os.environ.get("RANK", "0")) > 0:
        logger.info("rank %s: cells run in one process, rank 0", os.environ["RANK"])
        return OK
    request = Request(
        suite=options.suite,
        formats=tuple(options.format),
        recipes=tuple(options.recipe),
        seeds=options.seeds,
        assignments=tuple(options.set),
        device=options.device,
        out=options.out,
    )
    plan = make_plan(request)
    if options.show_config:
        import yaml

        print(yaml.safe_dump(plan.config(), sort_keys=False), end="")
    elif options.dry_run:
        show_plan(plan)
    else:
        rows = run_plan(plan, resume=not options.no_resume)
        failed = [row for row in rows if row.status == "failed"]
        if failed:
            logger.error("%d cells failed; the same command tries them again", len(failed))
            return FAILED
    return OK


def show_plan(plan: Plan) -> None:
    """Print the cells with their estimated time."""
    from suites.progress import format_seconds

    seconds = [plan.experiment.estimate_seconds(cell) for cell in plan.cells]
    labels = [cell.label for cell in plan.cells]
    lines = list(zip(labels, map(format_seconds, seconds), strict=True))
    print(tabulate(lines, ("cell", "estimate")))
    print(f"\n{len(lines)} cells, about {format_seconds(sum(seconds))}, into {plan.out}")


def run_plan(plan: Plan, resume: bool) -> list[Row]:
    """Run the plan and show its results; returns its rows."""
    from reports import terminal_tables, write_report
    from suites.environment import capture_environment
    from suites.experiment import Context
    from suites.runner import run_cells
    from suites.store import open_store

    device = plan.selection.device
    context = Context(device=device, profile=device, cache_dir=cache_dir(), run_dir=plan.out)
    with open_store(plan.out) as store:
        environment = capture_environment(device)
        store.write_config(plan.config())
        store.write_environment(environment)
        rows = run_cells(plan.experiment, plan.cells, store, context, resume)
    page = plan.out / "report.html"
    write_report(rows, [environment], page)
    print(f"{terminal_tables(rows)}\n\nreport: {page}")
    return rows


def cache_dir() -> Path:
    """What all runs share lies in $XDG_CACHE_HOME/gridbench, by default ~/.cache/gridbench."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gridbench"


def make_report(folders: Sequence[Path], output: Path | None, js: str) -> int:
    """Write a report from the rows of run folders; nothing is run."""
    from reports import merge, write_csv, write_markdown, write_report
    from suites.store import check_out, read_run

    if output is None and len(folders) > 1:
        raise ValueError("--report with several runs needs -o FILE")
    page = output or folders[0] / "report.html"
    if page.suffix not in (".html", ".md", ".csv"):
        raise ValueError(f"-o {page}: the name must end in .html, .md or .csv")
    runs = [read_run(folder) for folder in folders]
    rows = merge({str(run.folder): run.rows for run in runs})
    check_out(page.parent)
    page.parent.mkdir(parents=True, exist_ok=True)
    if page.suffix == ".html":
        write_report(rows, [run.environment for run in runs], page, js)
    else:
        (write_markdown if page.suffix == ".md" else write_csv)(rows, page)
    print(f"report: {page}")
    return OK


def compare(before: Path, after: Path, fail_on: float | None) -> int:
    """Print how run B differs from run A; status 1 if a worsening passes the threshold."""
    from suites.compare import compare_runs
    from suites.store import read_run

    comparison = compare_runs(read_run(before), read_run(after))
    for warning in comparison.warnings:
        logger.warning("warning: %s", warning)
    print(comparison.table())
    passed = [c for c in comparison.changes if fail_on is not None and c.exceeds(fail_on)]
    for change in passed:
        print(f"worse by more than {fail_on:g} %: {change.what} {change.metric}")
    return FAILED if passed else OK


def check_answers(answers: Path) -> int:
    """Check somebody's answers to the conformance vectors; status 1 if any is wrong."""
    from suites.conformance import check

    return check(answers)


if __name__ == "__main__":
    sys.exit(main())
