"""The look of all figures: colours, markers, axes, panels.

Colours are Okabe and Ito's, told apart with any colour vision; every name also has a marker of its
own and a dash, so that no plot depends on colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from reports.section import Json
from reports.select import baselines, names
from suites.rows import Row

NEUTRAL = "#808891"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B8A800")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
GAP = 0.06
LEAST_SPAN = 0.1  # of an axis that does not start at zero, as a share of the largest value


@dataclass(frozen=True)
class Look:
    """How one name is drawn, everywhere in a report."""

    colour: str
    symbol: str
    dash: str

    def marker(self, filled: bool = True, size: int = 9) -> Json:
        """A marker; an open one for the lesser of two states."""
        symbol = self.symbol if filled else f"{self.symbol}-open"
        line = {"color": self.colour, "width": 0 if filled else 2}
        return {"color": self.colour, "symbol": symbol, "size": size, "line": line}

    def line(self, width: float = 2) -> Json:
        """A line in this look."""
        return {"color": self.colour, "dash": self.dash, "width": width}

    def shade(self) -> str:
        """The colour at a quarter of its strength, for bands."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},0.22)"


def looks(rows: Iterable[Row]) -> dict[str, Look]:
    """A look for every recipe and format in the rows; baselines are grey.

    Recipes and formats are numbered apart, since they meet in no figure; a format with the name of
    a recipe looks like it.
    """
    kept = list(rows)
    neutral = baselines(kept)
    recipes, formats = (
        [name for name in names(kept, key) if name not in neutral] for key in ("recipe", "format")
    )
    numbered = dict(zip(recipes, _all_looks(), strict=False))
    shared = {name: numbered[name] for name in formats if name in numbered}
    free = (look for look in _all_looks() if look not in shared.values())
    rest = dict(zip((name for name in formats if name not in shared), free, strict=False))
    greys = (replace(look, colour=NEUTRAL) for look in _all_looks())
    return {**dict(zip(neutral, greys, strict=False)), **numbered, **rest}


def _all_looks() -> Iterator[Look]:
    """Looks without end: colours and markers repeat, but at different periods."""
    for i in count():
        yield Look(COLOURS[i % len(COLOURS)], SYMBOLS[i % len(SYMBOLS)], DASHES[i % len(DASHES)])


def axis(title: str, unit: str = "", **options: Any) -> Json:
    """An axis whose title carries the unit."""
    text = f"{title} ({unit})" if unit else title
    return {"title": {"text": text}, "automargin": True, "zeroline": False, **options}


def panels(titles: Sequence[str], x: Json, y: Json, height: int, share: str = "xy") -> Json:
    """The layout of plots side by side; ``share`` names the axes that they have in common.

    Narrow pages stack them. The n-th panel (from 0) is drawn by traces made with ``in_panel(n)``.
    """
    width = (1 - GAP * (len(titles) - 1)) / len(titles)
    layout: Json = {"height": height, "meta": {"panels": len(titles)}, "annotations": []}
    for i, title in enumerate(titles):
        left = i * (width + GAP)
        suffix = _suffix(i)
        layout[f"xaxis{suffix}"] = {**x, "domain": [left, left + width], "anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] = {**y, "anchor": f"x{suffix}"}
        if i:
            layout[f"yaxis{suffix}"]["title"] = {"text": ""}
        if i and "x" in share:
            layout[f"xaxis{suffix}"]["matches"] = "x"
        if i and "y" in share:
            layout[f"yaxis{suffix}"].update(matches="y", showticklabels=False)
        layout["annotations"].append(
            {
                "text": plain(title),
                "x": left,
                "y": 1,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
    return layout


def axis_title(layout: Json, index: int, title: str, unit: str = "") -> None:
    """Name the x axis of one panel, where panels show different quantities."""
    layout[f"xaxis{_suffix(index)}"]["title"] = axis(title, unit)["title"]


def axis_range(layout: Json, index: int, values: Sequence[float]) -> None:
    """Show a panel's x values with room for their labels, and no difference larger than it is.

    A tenth of the largest value is shown at least, so that costs equal to within a percent look so.
    """
    middle = (min(values) + max(values)) / 2
    half = 0.9 * max(max(values) - min(values), LEAST_SPAN * max(map(abs, values)))
    layout[f"xaxis{_suffix(index)}"]["range"] = [middle - half, middle + half]


def in_panel(index: int) -> Json:
    """The axes of a panel, for its traces."""
    return {"xaxis": f"x{_suffix(index)}", "yaxis": f"y{_suffix(index)}"}


def reference(value: float, panel_count: int) -> list[Json]:
    """A line across every panel at the x that means "perfect", for ``layout["shapes"]``."""
    return [
        {
            "type": "line",
            "x0": value,
            "x1": value,
            "y0": 0,
            "y1": 1,
            "xref": f"x{_suffix(i)}",
            "yref": f"y{_suffix(i)} domain",
            "layer": "below",
            "line": {"width": 1},
        }
        for i in range(panel_count)
    ]


def _suffix(index: int) -> str:
    return "" if index == 0 else str(index + 1)


def plain(text: object) -> str:
    """A name that plotly must not read as markup: it understands some HTML, and TeX between $."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = str(text).replace(character, entity)
    return str(text)
