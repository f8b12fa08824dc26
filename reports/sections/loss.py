"""Loss curves: the mean of all seeds with the range around it, and the validation points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.section import Figure, Json, Section
from reports.select import grouped, of_kind
from reports.style import Look, axis, in_panel, looks, panels, plain
from reports.table import Cell, Column, Table, significant, text_cell
from reports.tables import PATHS, TRAINING
from suites.rows import Row, Series

BINS = 120
PANELS = ("train_loss", "validation_loss")


@dataclass(frozen=True)
class Curve:
    """Many points condensed to at most BINS: per bin of x, the mean, smallest and largest y.

    ``points`` says how many there were; ``holes`` how many of them had no value.
    """

    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    points: int
    holes: int
    origin: str


def section(rows: Sequence[Row]) -> Section:
    """Curves of all recipes in one plot, and every run in a table."""
    found = (curves_figure(rows), TRAINING.table(rows), PATHS.table(rows))
    return Section(
        "loss",
        "Loss curves",
        "All recipes start from the same weights and see the same batches. Drag to zoom, "
        "double-click to return.",
        tuple(part for part in found if part),
        "--suite pretrain-small",
    )


def condense(series: Sequence[Series], origin: str, bins: int = BINS) -> Curve:
    """The curves of several seeds as one; holes (diverged steps) are counted and left out."""
    points = [(x, y) for one in series for x, y in zip(one.x, one.y, strict=True) if x is not None]
    kept = [(x, y) for x, y in points if y is not None]
    if not kept:
        return Curve([], [], [], [], len(points), len(points), origin)
    first, last = min(kept)[0], max(kept)[0]
    width = (last - first) / bins or 1.0
    filled: dict[int, list[tuple[float, float]]] = {}
    for x, y in kept:
        filled.setdefault(min(int((x - first) / width), bins - 1), []).append((x, y))
    groups = [filled[index] for index in sorted(filled)]
    heights = [[y for _, y in group] for group in groups]
    return Curve(
        [sum(x for x, _ in group) / len(group) for group in groups],
        [sum(ys) / len(ys) for ys in heights],
        [min(ys) for ys in heights],
        [max(ys) for ys in heights],
        len(points),
        len(points) - len(kept),
        origin,
    )


def curves_figure(rows: Sequence[Row]) -> Figure | None:
    """Training loss on the left, validation loss on the right, one look per recipe."""
    runs = grouped(of_kind(rows, "training"), "recipe")
    curves = {
        (recipe, name): condense(
            [row.series[name] for row in group if name in row.series],
            group[0].quantity("validation_loss").origin,
        )
        for (recipe,), group in runs.items()
        for name in PANELS
    }
    curves = {key: curve for key, curve in curves.items() if curve.x}
    if not curves:
        return None
    look = looks(rows)
    data = [
        trace
        for (recipe, name), curve in curves.items()
        for trace in _traces(recipe, curve, look[recipe], PANELS.index(name))
    ]
    unit = next(s.unit for row in of_kind(rows, "training") for s in row.series.values())
    layout = panels(
        ("training", "validation, second half (double-click: all)"),
        axis("step"),
        axis("loss", unit),
        height=440,
        share="",
    )
    _zoom_to_second_half(layout, [c for (_, name), c in curves.items() if name == PANELS[1]])
    drawn, points = (
        sum(len(curve.x) for curve in curves.values()),
        sum(curve.points for curve in curves.values()),
    )
    return Figure(
        "loss-curves",
        "Do the curves part, and by more than the seeds do?",
        "Training and validation loss over steps for each recipe: mean of all seeds and the range "
        "between the smallest and the largest.",
        data,
        layout,
        _end_table(curves),
        "Line: mean over seeds and over the steps of a bin. Band: smallest and largest value. "
        f"{drawn:,} bins drawn of {points:,} points; the rows hold every point.",
    )


def _zoom_to_second_half(layout: Json, curves: Sequence[Curve]) -> None:
    """Start the validation panel where curves differ by less than their descent."""
    if not any(len(curve.x) > 2 for curve in curves):
        return
    last = max(curve.x[-1] for curve in curves)
    shown = [
        value
        for curve in curves
        for x, low, high in zip(curve.x, curve.low, curve.high, strict=True)
        if x >= last / 2
        for value in (low, high)
    ]
    margin = 0.05 * (max(shown) - min(shown))
    layout["xaxis2"]["range"] = [last / 2, last * 1.02]
    layout["yaxis2"]["range"] = [min(shown) - margin, max(shown) + margin]


def _traces(recipe: str, curve: Curve, look: Look, panel: int) -> list[Json]:
    common = {"type": "scatter", "legendgroup": plain(recipe), **in_panel(panel)}
    band = {
        **common,
        "x": [*curve.x, *reversed(curve.x)],
        "y": [*curve.high, *reversed(curve.low)],
        "mode": "none",
        "fill": "toself",
        "fillcolor": look.shade(),
        "hoverinfo": "skip",
        "showlegend": False,
    }
    line = {
        **common,
        "x": curve.x,
        "y": curve.mean,
        "name": plain(recipe),
        "mode": "lines+markers" if panel else "lines",
        "line": look.line(),
        "marker": look.marker(size=7),
        "showlegend": not panel,
    }
    return [band, line]


def _end_table(curves: dict[tuple[str, str], Curve]) -> Table:
    """Where each drawn curve begins and ends."""
    columns = ("recipe", "curve", "first bin", "last bin", "smallest in it", "largest in it")
    lines = tuple(
        (
            text_cell(recipe),
            text_cell(
                f"{name.replace('_', ' ')}, {curve.points:,} points, {curve.holes:,} not finite"
            ),
            *(
                Cell(significant(value), value, curve.origin)
                for value in (curve.mean[0], curve.mean[-1], curve.low[-1], curve.high[-1])
            ),
        )
        for (recipe, name), curve in curves.items()
    )
    return Table("loss-curves", "The curves as drawn", tuple(map(Column, columns)), lines)
