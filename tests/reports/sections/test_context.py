from __future__ import annotations

from reports.section import Code
from reports.sections import context


def test_commands_can_be_pasted_into_a_shell() -> None:
    command = ["bench.py", "--suite", "s", "--out", "my runs/a;b"]
    (part,) = context.reproduce([{"command": command}]).parts
    assert part == Code("python bench.py --suite s --out 'my runs/a;b'")


def test_environments_of_several_runs_stand_side_by_side() -> None:
    runs = [{"git": {"commit": "a"}, "gpus": [{"name": "X"}]}, {"python": "3.12", "none": None}]
    (table,) = context.environment(runs).parts
    lines = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}  # type: ignore[union-attr]
    assert lines["git.commit"] == ["a", "n/a"]
    assert lines["gpus.0.name"] == ["X", "n/a"]
    assert lines["python"] == ["n/a", "3.12"]


def test_without_environments_there_is_nothing_to_show() -> None:
    assert not context.environment([])
    assert not context.reproduce([])
