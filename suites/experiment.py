"""What an experiment is: a kind of question, cut into cells that can be run one by one.

A *cell* is the unit of running, of resuming and of failing: one recipe at one seed, one format on
one distribution. Cells do not depend on each other and come in a fixed order. The frame
(`bench.py`, `catalog`, `store`) knows experiments only through the `Experiment` protocol below.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel

from suites.rows import Row

ROOT = Path(__file__).resolve().parent.parent
NUMERIC_PACKAGES = ("formats", "kernels", "suites", "hwmodels")
SOURCES = (".py", ".c")

Device = Literal["cpu", "cuda"]
Progress = Callable[[int, int, str], None]


@cache
def code_version() -> str:
    """Digest of the source files that can change a result; reports and tests are not among them."""
    digest = hashlib.sha256()
    for package in NUMERIC_PACKAGES:
        sources = [path for end in SOURCES for path in (ROOT / package).rglob(f"*{end}")]
        for path in sorted(sources):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Selection:
    """What the user narrowed the run to.

    `formats` and `recipes` hold names or paths as typed, checked to be loadable; empty means "as
    the settings say". `seeds` is the number of paired seeds, or None for the settings' own number.
    `device` is "cpu" or "cuda".
    """

    formats: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    seeds: int | None = None
    device: Device = "cpu"


@dataclass(frozen=True)
class Cell:
    """One independent piece of work.

    `label` is for people, `config` is everything that decides the result (JSON values), `digests`
    are the digests of the formats and recipes it uses. `hardware` is filled in by the frame.
    """

    kind: str
    label: str
    config: Mapping[str, Any]
    digests: tuple[str, ...] = ()
    hardware: str = ""

    @property
    def key(self) -> str:
        """Identity of the result: equal keys mean that running again would tell nothing new."""
        facts = [self.kind, dict(self.config), self.digests, self.hardware, code_version()]
        text = json.dumps(facts, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Context:
    """Where a cell runs.

    `device` is "cpu" or "cuda"; `profile` the name of the suite's profile. `cache_dir` is shared by
    all runs of a user (tokenised text), `run_dir` belongs to this run (checkpoints go under it,
    named by the cell's key). Call `progress(done, total, note)` as often as you like.
    """

    device: Device
    profile: str
    cache_dir: Path
    run_dir: Path
    progress: Progress = field(default=lambda done, total, note: None)


class Experiment(Protocol):
    """One kind of experiment. `Settings` are its knobs, each settable as `--set name=value`.

    User errors are ValueErrors of one line. Those that `cells` raises end the run before anything
    is written (exit status 2), so whatever can be checked early is checked there. A ValueError,
    RuntimeError, ArithmeticError, OSError or MemoryError from `run` fails that cell only.
    """

    kind: ClassVar[str]
    Settings: ClassVar[type[BaseModel]]

    def cells(self, settings: Any, selection: Selection) -> list[Cell]:
        """The cells in order; no torch work yet."""
        ...

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """The rows of one cell; at least one."""
        ...

    def estimate_seconds(self, cell: Cell) -> float:
        """A rough time for `--dry-run` and the progress bar."""
        ...

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Rows that need several cells at once: comparisons and verdicts."""
        ...
