"""What emulation costs: each operation beside its roof in the same run, and rivals beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reports.section import Figure, Json, Section
from reports.select import of_kind, quantities
from reports.style import COLOURS, SYMBOLS, axis, plain
from reports.table import Table
from reports.tables import KERNEL_PATHS, KERNEL_TIMES, KERNELS, SHARES, TIMES
from suites.rows import Row

OURS = "Gridbench"
UNKNOWN_ROOF = "its roof"
WIDE = 20  # ratio of the largest to the smallest from which an axis is logarithmic


def section(rows: Sequence[Row]) -> Section:
    """Per roof a table of what matters and a figure, with all that was recorded behind it."""
    timed = of_kind(rows, "kernel")
    parts: list[Table | Figure | None] = []
    for roof, found in _by_roof(timed).items():
        meaning = _meaning(found)
        parts += [_compact(roof, meaning, found), _figure(roof, meaning, found)]
    parts.append(KERNEL_PATHS.table(timed))
    return Section(
        "kernels",
        "What emulation costs",
        "Times of this program's own kernels on the machine that ran, and of other projects' for "
        "the same operation. They are no times of hardware that has the format.",
        tuple(part for part in parts if part),
        "--suite kernels",
    )


def _by_roof(timed: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by what their operation is timed beside, which a rival that did not run cannot say."""
    known = {
        row.config["operation"]: str(row.facts["roof"]) for row in timed if "roof" in row.facts
    }
    groups: dict[str, list[Row]] = {}
    for row in timed:
        groups.setdefault(known.get(row.config["operation"], UNKNOWN_ROOF), []).append(row)
    return groups


def _meaning(found: Sequence[Row]) -> str:
    """What the ratio to the roof is, as the rows say."""
    known = [*quantities(found, SHARES[0]), *quantities(found, TIMES[0])]
    notes = [ratio.note for ratio in known if ratio.note]
    return notes[0] if notes else "ratio to the roof"


def _compact(roof: str, meaning: str, found: Sequence[Row]) -> Table:
    means = meaning[0].upper() + meaning[1:]
    view = replace(
        KERNEL_TIMES,
        id=f"kernels-{_slug(roof)}-times",
        title=f"Timed beside {roof}",
        note=f"{means}: by time on the device, by wall time of replayed graphs and of eager calls.",
    )
    return view.table(found)


def _figure(roof: str, meaning: str, found: Sequence[Row]) -> Figure | None:
    """None where nothing has a ratio."""
    drawn = [row for row in found if _ratio(row) is not None]
    ratios = [ratio for ratio in map(_ratio, drawn) if ratio is not None]
    if not ratios:
        return None
    scale = {"type": "log"} if max(ratios) > WIDE * min(ratios) else {"rangemode": "tozero"}
    who = dict.fromkeys((OURS, *map(_project, drawn)))
    layout = {
        "height": 150 + 24 * len({_line(row) for row in drawn}),
        "xaxis": axis(meaning, **scale),
        "yaxis": axis("", autorange="reversed"),
    }
    return Figure(
        f"kernels-{_slug(roof)}",
        f"How does each operation stand beside {roof}?",
        f"{meaning} of every timed operation, one mark per project.",
        [_marks(name, i, drawn) for i, name in enumerate(who)],
        layout,
        KERNELS.table(found),
    )


def _marks(name: str, index: int, drawn: Sequence[Row]) -> Json:
    chosen = [row for row in drawn if _project(row) == name]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "x": [_ratio(row) for row in chosen],
        "y": [plain(_line(row)) for row in chosen],
        "text": [plain(row.config.get("mode", "")) for row in chosen],
        "marker": {
            "color": COLOURS[index % len(COLOURS)],
            "symbol": SYMBOLS[index % len(SYMBOLS)],
            "size": 10,
        },
    }


def _project(row: Row) -> str:
    return str(row.config.get("rival", OURS))


def _line(row: Row) -> str:
    return " ".join(str(row.config.get(key, "")) for key in ("operation", "format", "shape"))


def _ratio(row: Row) -> float | None:
    known = row.values.get(SHARES[0]) or row.values.get(TIMES[0])
    return None if known is None else known.value


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())
