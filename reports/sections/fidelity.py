"""Shrinkage and error inside the runs: each GEMM of each layer against FP32."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import grouped, last_step, median, names, of_kind, quantities
from reports.style import Look, axis, in_panel, looks, panels, plain, reference
from reports.table import Column, Table, common_unit, number_cell, text_cell
from suites.rows import Row

QUESTIONS = {
    "gain": "Does a layer's output shrink?",
    "sqnr_db": "How much signal is left above the error?",
}
DESCRIPTIONS = {
    "gain": "Gain of every GEMM output against FP32: one is unbiased, below one is shrinkage.",
    "sqnr_db": "Signal to quantisation noise of every GEMM output in decibels; more is better.",
}


def section(rows: Sequence[Row]) -> Section:
    """Gain and SQNR of every GEMM output, and the operands condensed."""
    observed = last_step(of_kind(rows, "fidelity"))
    outputs = [row for row in observed if row.config.get("operand") == "output"]
    found = (
        layer_figure(outputs, "gain", looks(rows)),
        layer_figure(outputs, "sqnr_db", looks(rows)),
        operand_table(observed),
    )
    return Section(
        "fidelity",
        "Shrinkage per layer and GEMM",
        "Taken on the activations, weights and gradients of the run itself, at its last observed "
        "step. Gain is <x, Q(x)> / <x, x>: below 1 the signal shrank.",
        tuple(part for part in found if part),
        "--suite pretrain-small",
    )


def layer_figure(outputs: Sequence[Row], quantity: str, look: dict[str, Look]) -> Figure | None:
    """One panel per GEMM, one line per layer, one mark per recipe (median over seeds)."""
    if not quantities(outputs, quantity):
        return None
    gemms = names(outputs, "gemm")
    title, unit = label(quantity).title, common_unit(quantities(outputs, quantity))
    data = [
        _marks(recipe, group, quantity, look[recipe], gemms.index(gemm))
        for (recipe, gemm), group in grouped(outputs, "recipe", "gemm").items()
    ]
    layout = panels(
        gemms,
        axis(title, unit),
        axis("", autorange="reversed"),
        height=130 + 22 * len(names(outputs, "layer")),
    )
    if quantity == "gain":
        layout["shapes"] = reference(1, len(gemms))
    return Figure(
        f"layers-{quantity}",
        QUESTIONS[quantity],
        DESCRIPTIONS[quantity],
        data,
        layout,
        layer_table(outputs, quantity),
        "Median over seeds." if len(names(outputs, "seed")) > 1 else "",
    )


def _marks(recipe: str, group: Sequence[Row], quantity: str, look: Look, panel: int) -> Json:
    layers = grouped(group, "layer")
    middles = [median(quantities(found, quantity)) for found in layers.values()]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(recipe),
        "legendgroup": plain(recipe),
        "showlegend": panel == 0,
        "x": [middle.value if middle else None for middle in middles],
        "y": [plain(layer) for (layer,) in layers],
        "marker": look.marker(),
        **in_panel(panel),
    }


def layer_table(outputs: Sequence[Row], quantity: str) -> Table:
    """The numbers behind the marks: a line per recipe and layer, a column per GEMM."""
    gemms = names(outputs, "gemm")
    unit = common_unit(quantities(outputs, quantity))
    lines = tuple(
        (
            text_cell(recipe),
            text_cell(layer),
            *(
                number_cell(
                    median(quantities(of_kind(group, "fidelity", gemm=gemm), quantity)),
                    label(quantity).style,
                )
                for gemm in gemms
            ),
        )
        for (recipe, layer), group in grouped(outputs, "recipe", "layer").items()
    )
    columns = (Column("recipe"), Column("layer"), *(Column(gemm, unit) for gemm in gemms))
    return Table(
        f"layers-{quantity}", f"{label(quantity).title} per layer and GEMM", columns, lines
    )


def operand_table(observed: Sequence[Row]) -> Table:
    """Medians over layers and seeds for every operand and output of the three GEMMs."""
    shown = ("gain", "sqnr_db", "relative_l2", "utilisation")
    lines = tuple(
        (
            *map(text_cell, key),
            *(number_cell(median(quantities(group, name)), label(name).style) for name in shown),
        )
        for key, group in grouped(observed, "recipe", "gemm", "operand").items()
    )
    columns = (
        *map(Column, ("recipe", "GEMM", "operand")),
        *(Column(label(name).title, common_unit(quantities(observed, name))) for name in shown),
    )
    return Table(
        "operands",
        "Operands and outputs",
        columns,
        lines,
        "Medians over layers and seeds at the last observed step.",
    ).without_empty_columns()
