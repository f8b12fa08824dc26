"""smoke: every part of the tool once, as small as it can be.

A suite of this kind is other experiments with settings of their own, run one after another; their
cells and rows are exactly what they would be in a suite of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from suites.catalog import EXPERIMENTS, load_experiment
from suites.experiment import Cell, Context, Experiment, Selection
from suites.rows import Row


class SmokeSettings(BaseModel):
    """Settings of each experiment by its kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parts: dict[str, dict[str, Any]]


class Smoke:
    """The experiment behind the suite `smoke`."""

    kind: ClassVar[str] = "smoke"
    Settings: ClassVar[type[BaseModel]] = SmokeSettings

    def __init__(self) -> None:
        self._parts: dict[str, Experiment] = {}

    def cells(self, settings: SmokeSettings, selection: Selection) -> list[Cell]:
        """The cells of all parts, each with the kind of its part.

        Raises:
            ValueError: an unknown part, or settings that its experiment refuses.
        """
        self._parts = {kind: _load_part(kind) for kind in settings.parts}
        return [
            cell
            for kind, part in self._parts.items()
            for cell in part.cells(_validate(kind, part, settings.parts[kind]), selection)
        ]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """As the cell's own experiment does."""
        return self._parts[cell.kind].run(cell, context)

    def estimate_seconds(self, cell: Cell) -> float:
        """As the cell's own experiment does."""
        return self._parts[cell.kind].estimate_seconds(cell)

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """What each part makes of the rows, of which it looks at the kinds that it knows."""
        return [row for part in self._parts.values() for row in part.derive(rows)]


def _load_part(kind: str) -> Experiment:
    known = [name for name in EXPERIMENTS if name != Smoke.kind]
    if kind not in known:
        raise ValueError(f"parts: unknown experiment '{kind}' (known: {', '.join(known)})")
    return load_experiment(kind)


def _validate(kind: str, part: Experiment, values: dict[str, Any]) -> BaseModel:
    try:
        return part.Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["parts", kind, *map(str, first["loc"])])
        raise ValueError(f"{where}: {first['msg']}") from error
