"""The plan of a run: a suite with everything resolved and checked, before anything is written."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from formats import load_format, load_recipe
from suites.catalog import load_experiment, load_suite, resolve_settings
from suites.environment import choose_device, hardware_name
from suites.experiment import Cell, Experiment, Selection
from suites.store import check_out

logger = logging.getLogger(__name__)

RUNS = Path("runs")


@dataclass(frozen=True)
class Request:
    """What a user asked for, as typed; `device` is "auto", "cpu" or "cuda"."""

    suite: str
    formats: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    seeds: int | None = None
    assignments: tuple[str, ...] = ()
    device: str = "auto"
    out: Path | None = None


@dataclass(frozen=True)
class Plan:
    """What will be run, in which order, and where its results go."""

    suite: str
    experiment: Experiment
    selection: Selection
    settings: BaseModel
    cells: list[Cell]
    out: Path

    def config(self) -> dict[str, Any]:
        """What config.yaml holds."""
        return {
            "suite": self.suite,
            "experiment": self.experiment.kind,
            "profile": self.selection.device,
            "formats": list(self.selection.formats),
            "recipes": list(self.selection.recipes),
            "seeds": self.selection.seeds,
            "settings": self.settings.model_dump(mode="json"),
        }


def make_plan(request: Request) -> Plan:
    """Check every input and list the cells; what is quick to check comes first.

    Raises:
        ValueError: anything is wrong. Nothing has been written.
    """
    suite = load_suite(request.suite)
    for name in request.formats:
        load_format(name)
    for name in request.recipes:
        load_recipe(name)
    if request.seeds is not None and request.seeds < 1:
        raise ValueError(f"--seeds {request.seeds}: at least 1 seed is needed")
    if request.out is not None:
        check_out(request.out)
    device, reason = choose_device(request.device)
    out = request.out or RUNS / f"{suite.record.name}-{device}"
    check_out(out)

    experiment = load_experiment(suite.record.experiment)
    settings = resolve_settings(suite, experiment.Settings, device, request.assignments)
    selection = Selection(request.formats, request.recipes, request.seeds, device)
    cells = experiment.cells(settings, selection)
    if not cells:
        raise ValueError(f"suite '{suite.record.name}': this selection leaves no cell to run")
    logger.info("profile %s (%s), %d cells, into %s", device, reason, len(cells), out)
    hardware = hardware_name(device)
    cells = [replace(cell, hardware=hardware) for cell in cells]
    return Plan(suite.record.name, experiment, selection, settings, cells, out)
