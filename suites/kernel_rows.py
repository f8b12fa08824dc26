"""The row of a timed operation: roof, candidate, roof, and a guard against times too good."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from suites.experiment import Cell
from suites.rows import Quantity, Row, measured

if TYPE_CHECKING:
    from suites.kernel_cases import Case
    from suites.timing import Timing

# A copy is not the fastest way to move bytes: reads of what is in cache, or wider writes, may beat
# it a little. Anything faster than this share of its time did not do the work.
FLOOR = 0.8
# What decides a rival's cell and stands among the row's facts.
FACTS = ("version", "folder", "remark")


class Ratios(NamedTuple):
    """Names of the ratios to a roof: of which more is better, or less, is in the name."""

    device: str
    replayed: str
    wall: str


# By whether rates are compared, or times.
RATIOS = {
    True: Ratios("share_of_roof", "replayed_share", "eager_share"),
    False: Ratios("times_roof", "replayed_times", "eager_times"),
}


def check_floor(time_us: float, least_us: float, label: str) -> None:
    """Raise ValueError if a time is below what the roof says is possible."""
    if time_us < FLOOR * least_us:
        raise ValueError(
            f"{label}: {time_us:.1f} us is below the floor of {FLOOR * least_us:.1f} us that its "
            "bytes take at this machine's own copy rate: the work was not done, or not timed"
        )


def time_call(cell: Cell, case: Case, call: Callable[[Any], object]) -> Timing:
    """Time one of a case's calls on its inputs."""
    from suites.timing import measure

    return measure(call, case.inputs, case.device, cell.config["repeats"])


def timed_row(cell: Cell, case: Case, ours: Timing | None = None) -> Row:
    """Time roof, candidate, roof.

    Args:
        ours: the time of our own code, where the candidate is a rival's.

    Raises:
        ValueError: the candidate is too fast to be true.
    """
    before, candidate, after = (
        time_call(cell, case, call) for call in (case.roof, case.candidate, case.roof)
    )
    roof_us = (before.device_us + after.device_us) / 2
    roof_wall_us = (before.wall_us + after.wall_us) / 2
    names = RATIOS[case.rate]
    check_floor(candidate.device_us, case.least_share * roof_us, cell.label)
    values = {
        "time_us": measured(candidate.device_us, "us"),
        "spread": measured(candidate.spread_us / candidate.device_us, "1"),
        "wall_us": measured(candidate.wall_us, "us"),
        "roof_us": measured(roof_us, "us"),
        "roof_drift": measured(abs(after.device_us - before.device_us) / roof_us, "1"),
        names.device: measured(case.share(candidate.device_us, roof_us), "1", case.meaning),
        names.wall: measured(case.share(candidate.wall_us, roof_wall_us), "1", case.meaning),
        "bytes_per_second": measured(case.bytes_moved / candidate.device_us * 1e6, "B/s"),
    }
    if before.replayed_us is not None and after.replayed_us is not None:
        roof_replayed_us = (before.replayed_us + after.replayed_us) / 2
        values |= _replayed(candidate, case, roof_replayed_us)
    if ours is not None:
        values["times_ours"] = measured(candidate.device_us / ours.device_us, "1")
        values["times_ours_wall"] = measured(candidate.wall_us / ours.wall_us, "1")
    facts = {
        "path": case.path.name,
        "reason": case.path.reason,
        "roof": case.roof_name,
        "launches": "n/a" if candidate.launches is None else candidate.launches,
        "cache": "level 2 overwritten before each call" if case.device.type == "cuda" else "warm",
        **case.machine(),
    }
    return Row(kind="kernel", config=row_config(cell), values=values, facts=facts)


def _replayed(candidate: Timing, case: Case, roof_us: float) -> dict[str, Quantity]:
    """Wall time where the host launches nothing, and its ratio; or why there is none."""
    note = candidate.not_replayed or "replayed as CUDA graphs, the roof too"
    time_us = candidate.replayed_us
    ratio = None if time_us is None else case.share(time_us, roof_us)
    return {
        "replayed_us": Quantity(value=time_us, unit="us", origin="measured", note=note),
        RATIOS[case.rate].replayed: Quantity(value=ratio, unit="1", origin="measured", note=note),
    }


def row_config(cell: Cell) -> dict[str, Any]:
    """A cell's configuration as tables show it."""
    config = {name: value for name, value in cell.config.items() if name not in FACTS}
    config["shape"] = "x".join(map(str, config["shape"]))
    config.setdefault("format", config.get("recipe"))
    return config
