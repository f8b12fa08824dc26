"""Shrinkage and error inside the runs: each GEMM of each layer against FP32."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.sections.bias_or_noise import bias_or_noise_figure
from reports.select import fidelity_summary, grouped, middles, names, observations, quantities
from reports.style import Look, axis, in_panel, looks, panels, plain, reference
from reports.table import common_unit
from reports.tables import OPERANDS, pivot
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
    outputs = [row for row in observations(rows) if row.config.get("operand") == "output"]
    found = (
        bias_or_noise_figure(rows),
        layer_figure(outputs, "gain", looks(rows)),
        layer_figure(outputs, "sqnr_db", looks(rows)),
        OPERANDS.table(fidelity_summary(rows)),
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
        pivot(
            f"layers-{quantity}",
            f"{label(quantity).title} per layer and GEMM",
            outputs,
            ("recipe", "layer"),
            "gemm",
            quantity,
        ),
        "Medians over seeds." if len(names(outputs, "seed")) > 1 else "",
    )


def _marks(recipe: str, group: Sequence[Row], quantity: str, look: Look, panel: int) -> Json:
    layers = grouped(group, "layer")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(recipe),
        "legendgroup": plain(recipe),
        "showlegend": panel == 0,
        "x": middles(layers.values(), quantity),
        "y": [plain(layer) for (layer,) in layers],
        "marker": look.marker(),
        **in_panel(panel),
    }
