"""Accumulation of shrinkage through depth, beside the product law of single layers."""

from __future__ import annotations

from collections.abc import Sequence

from reports.section import Figure, Json, Section
from reports.select import grouped, middles, names, of_kind
from reports.style import Look, axis, in_panel, looks, panels, plain
from reports.tables import DEPTH
from suites.rows import Row


def section(rows: Sequence[Row]) -> Section:
    """One panel per direction."""
    figure = depth_figure(of_kind(rows, "depth"), looks(rows))
    return Section(
        "depth",
        "Shrinkage through depth",
        "The signal of a quantised network against its high-precision twin, layer by layer. The "
        "product law multiplies the gains of single GEMMs; normalisation layers undo part of it.",
        (figure,) if figure else (),
        "--suite depth",
    )


def depth_figure(found: Sequence[Row], look: dict[str, Look]) -> Figure | None:
    """Gain over layers: as observed, and dotted as the product law predicts."""
    if not found:
        return None
    directions = names(found, "direction") or [""]
    layout = panels(directions, axis("layer"), axis("gain"), height=380)
    return Figure(
        "depth",
        "Does shrinkage multiply up through the layers?",
        "Gain over depth for each recipe, observed and predicted, one panel per direction.",
        [
            _line(recipe, group, quantity, look[recipe], directions.index(direction))
            for (direction, recipe), group in grouped(found, "direction", "recipe").items()
            for quantity in ("gain", "predicted_gain")
        ],
        layout,
        DEPTH.table(found),
        "Markers: observed. Dotted: product law.",
    )


def _line(recipe: str, group: Sequence[Row], quantity: str, look: Look, panel: int) -> Json:
    observed = quantity == "gain"
    layers = grouped(group, "layer")
    return {
        "type": "scatter",
        "mode": "lines+markers" if observed else "lines",
        "name": plain(recipe if observed else f"{recipe}, product law"),
        "legendgroup": plain(recipe),
        "showlegend": observed and panel == 0,
        "x": [plain(layer) for (layer,) in layers],
        "y": middles(layers.values(), quantity),
        "line": {"color": look.colour, "dash": "solid" if observed else "dot", "width": 2},
        "marker": look.marker(),
        **in_panel(panel),
    }
