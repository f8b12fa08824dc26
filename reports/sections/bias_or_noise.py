"""Bias or noise: the loss of each recipe over the gain and over the SQNR of its GEMMs."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json
from reports.sections.answer import against_baseline
from reports.select import fidelity_summary, median, quantities
from reports.style import Look, axis, axis_title, in_panel, looks, panels, plain
from reports.table import Column, Table, common_unit, number_cell, text_cell
from suites.rows import Quantity, Row

MEASURES = {"gain": "bias", "sqnr_db": "noise"}
LOSS = "degradation_percent"
FEWEST = 3  # recipes below which nothing can line up


def bias_or_noise_figure(rows: Sequence[Row]) -> Figure | None:
    """Loss over each measure, one mark per recipe; None for too few recipes that have both."""
    found = [
        (row, {name: _middle(rows, row.config["recipe"], name) for name in MEASURES})
        for row in against_baseline(rows)
        if row.quantity(LOSS).value is not None
    ]
    found = [(row, by) for row, by in found if all(q and q.value is not None for q in by.values())]
    if len(found) < FEWEST:
        return None
    look = looks(rows)
    drawn = {LOSS: quantities([row for row, _ in found], LOSS)}
    drawn |= {name: [quantity for _, by in found if (quantity := by[name])] for name in MEASURES}
    heads = {name: (label(name).title, common_unit(those)) for name, those in drawn.items()}
    layout = panels(list(MEASURES.values()), axis(""), axis(*heads[LOSS]), height=420, share="y")
    for i, name in enumerate(MEASURES):
        axis_title(layout, i, *heads[name])
    return Figure(
        "bias-or-noise",
        "Is it bias or noise that costs loss?",
        "Loss degradation of each recipe over the gain of its GEMM outputs, and over their SQNR.",
        [
            _mark(row, by[name], look[str(row.config["recipe"])], i)
            for i, name in enumerate(MEASURES)
            for row, by in found
        ],
        layout,
        Table(
            "bias-or-noise",
            "Loss beside gain and SQNR",
            (Column("recipe"), *(Column(*head) for head in heads.values())),
            tuple(
                (
                    text_cell(row.config["recipe"]),
                    *(
                        number_cell(quantity, label(name).style)
                        for name, quantity in ((LOSS, row.values[LOSS]), *by.items())
                    ),
                )
                for row, by in found
            ),
        ),
        "Of fprop, dgrad and wgrad the middle one. Loss follows a measure whose marks lie along a "
        "line.",
    )


def _middle(rows: Sequence[Row], recipe: object, name: str) -> Quantity | None:
    return median(quantities(fidelity_summary(rows, operand="output", recipe=recipe), name))


def _mark(row: Row, measure: Quantity | None, look: Look, panel: int) -> Json:
    recipe = plain(str(row.config["recipe"]))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": recipe,
        "legendgroup": recipe,
        "showlegend": panel == 0,
        "x": [measure.value if measure else None],
        "y": [row.quantity(LOSS).value],
        "text": [recipe],
        "hoverinfo": "text+x+y",
        "marker": look.marker(size=11),
        "cliponaxis": False,
        **in_panel(panel),
    }
