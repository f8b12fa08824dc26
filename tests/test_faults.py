"""docs/faults.md: every fault has a test, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = {row[1]: row[0] for row in re.finditer(r"^\| (B\d+) \|.*$", PAGE, re.MULTILINE)}


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_has_every_number_of_the_list() -> None:
    (listed,) = re.findall(r"about this job:\n((?:B\d+[ .\n]+)+)", PAGE)
    assert re.findall(r"B\d+", listed) == list(ROWS)
    assert len(ROWS) == 88


@pytest.mark.parametrize("fault", sorted(ROWS))
def test_every_fault_has_its_report_and_its_tests(fault: str) -> None:
    assert re.search(r"\]\(https://github\.com/[^)]+/(issues|pull)/\d+\)", ROWS[fault])
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", ROWS[fault])
    assert named
    for path, name in named:
        assert name in functions_of(path), f"{path} has no {name}"
        assert fault in name.split("_"), f"{name} does not carry {fault}"


def test_every_number_that_a_test_carries_is_a_fault() -> None:
    carried = {
        part
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in functions_of(path.relative_to(ROOT / "tests").as_posix())
        for part in name.split("_")
        if name.startswith("test_B") and re.fullmatch(r"B\d+", part)
    }
    assert carried <= set(ROWS)
