"""The grids on a number line, each level with the bin of values that round to it."""

from __future__ import annotations

from collections.abc import Sequence

from reports.section import Figure, Json, Section
from reports.select import of_kind
from reports.style import Look, axis, looks, plain
from reports.table import Column, Table, text_cell
from reports.tables import CONFORMANCE
from suites.rows import Row

SHADES = (0.45, 0.2)


def section(rows: Sequence[Row]) -> Section:
    """All grids in one plot, and the vectors that say how to round to them."""
    found = [row for row in of_kind(rows, "grid") if len(row.facts.get("levels") or ()) > 1]
    # Every cell that involves a format says what its grid is.
    found = list({(str(row.config), tuple(row.facts["levels"])): row for row in found}.values())
    figure = grid_figure(found, looks(rows)) if found else None
    return Section(
        "grids",
        "The grids",
        "A block's scale maps its largest magnitude to the end of the grid. A wide bin means a "
        "large error there; a level off the middle of its bin pulls values to one side.",
        tuple(part for part in (figure, CONFORMANCE.table(rows)) if part),
        "--suite hardware",
    )


def grid_figure(found: Sequence[Row], look: dict[str, Look]) -> Figure:
    """The upper half of every grid, drawn to the same end."""
    data = [
        trace for row in found for trace in _number_line(row, look[str(row.config.get("format"))])
    ]
    return Figure(
        "grids",
        "Where do the levels lie, and what rounds to them?",
        "Number line of each format's magnitudes from zero to its largest, with rounding bins.",
        data,
        {
            "height": 90 + 62 * len(found),
            "showlegend": False,
            "barmode": "overlay",
            "bargap": 0.55,
            "xaxis": axis("magnitude as a share of the largest", range=[-0.02, 1.02]),
            "yaxis": axis("", autorange="reversed"),
        },
        grid_table(found),
        "Marks: levels, with their values. Bands: what rounds to a level, ties aside.",
    )


def _number_line(row: Row, look: Look) -> list[Json]:
    """Bins as bars, levels as marks; negative levels mirror these or are in the table."""
    end = max(row.facts["levels"])
    levels = [level for level in row.facts["levels"] if level >= 0]
    inner = [middle for middle in row.facts.get("midpoints", []) if middle > 0]
    edges = [0.0, *inner[-(len(levels) - 1) :], end]
    name = plain(row.config.get("format"))
    bins = {
        "type": "bar",
        "orientation": "h",
        "y": [name] * len(levels),
        "base": [low / end for low in edges[:-1]],
        "x": [(high - low) / end for low, high in zip(edges, edges[1:], strict=False)],
        "marker": {
            "color": look.colour,
            "opacity": [SHADES[i % 2] for i in range(len(levels))],
            "line": {"width": 0},
        },
        "hovertext": [
            f"{low:g} to {high:g} rounds to {level:g}"
            for low, high, level in zip(edges, edges[1:], levels, strict=False)
        ],
        "hoverinfo": "text",
    }
    marks = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [level / end for level in levels],
        "y": [name] * len(levels),
        "text": [f"{level:g}" for level in levels],
        "textposition": "top center",
        "marker": {"symbol": "line-ns", "size": 20, "line": {"color": look.colour, "width": 3}},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    return [bins, marks]


def grid_table(found: Sequence[Row]) -> Table:
    """Every grid's facts and levels."""
    columns = ("format", "codes", "largest", "bits per element", "levels")
    lines = tuple(
        (
            text_cell(row.config.get("format")),
            *(text_cell(row.facts.get(name)) for name in ("codes", "max", "bits_per_element")),
            text_cell(", ".join(f"{level:g}" for level in row.facts["levels"])),
        )
        for row in found
    )
    return Table("grids", "The grids", tuple(map(Column, columns)), lines)
