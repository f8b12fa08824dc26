"""A tiny experiment, and the front door that knows it: `python tests/tiny.py --suite FILE`.

Its cells do nothing but sleep, fail or diverge as their settings say, so that tests of the frame
are about the frame. Each cell that really runs leaves a line in `ran.txt` of the run folder.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pydantic import BaseModel, ConfigDict

import bench
from suites.catalog import EXPERIMENTS
from suites.experiment import Cell, Context, Selection
from suites.rows import Row, measured

SUITE = """\
name: tiny
summary: cells that do nothing
experiment: tiny
cpu: {{cells: 5, {settings}}}
cuda: {{cells: 5}}
"""


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    steps: int = 10


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cells: int = 5
    seconds: float = 0.0
    loss: float = 2.0
    failing: list[int] = []
    crashing: list[int] = []
    empty: list[int] = []
    diverging: list[int] = []
    training: Inner = Inner()


class Tiny:
    kind = "tiny"
    Settings = Settings

    def cells(self, settings: Settings, selection: Selection) -> list[Cell]:
        self.settings = settings
        seeds = selection.seeds or 1
        return [
            Cell("tiny", f"cell {index}", {"index": index, "loss": settings.loss, "seed": seed})
            for index in range(settings.cells)
            for seed in range(seeds)
        ]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        index = cell.config["index"]
        with (context.run_dir / "ran.txt").open("a") as file:
            file.write(f"{index}\n")
        context.progress(1, 2, "half")
        time.sleep(self.settings.seconds)
        if index in self.settings.failing:
            raise RuntimeError("out of\nluck")
        if index in self.settings.crashing:
            raise KeyError("a fault of ours")
        if index in self.settings.empty:
            return
        loss = math.nan if index in self.settings.diverging else cell.config["loss"] + index
        yield Row(
            kind="training",
            config={"recipe": f"r{index}", "seed": cell.config["seed"]},
            values={"validation_loss": measured(loss, "nats/token")},
        )

    def estimate_seconds(self, cell: Cell) -> float:
        return 1.0

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        return [Row(kind="comparison", facts={"rows": len(rows)})]


def write_suite(folder: Path, settings: str = "") -> Path:
    """Write the suite file, with more settings as YAML flow text."""
    path = folder / "tiny.yaml"
    path.write_text(SUITE.format(settings=settings))
    return path


EXPERIMENTS["tiny"] = "tests.tiny:Tiny"

if __name__ == "__main__":
    sys.exit(bench.main())
