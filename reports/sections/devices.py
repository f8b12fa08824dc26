"""Time and energy per device. What was measured and what was modelled never share a table."""

from __future__ import annotations

from collections.abc import Sequence

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import grouped, middles, names, of_kind, only, quantities
from reports.style import Look, axis, in_panel, looks, panels, plain
from reports.table import Table, common_unit
from reports.tables import DEVICES, ENERGY, KERNELS, THROUGHPUT, View
from suites.rows import Row

MODEL = ("modelled", "published")
OBSERVED = ("measured", "emulated")


def section(rows: Sequence[Row]) -> Section:
    """Step times and energy, modelled and measured apart; timed kernels; data sheets."""
    look = looks(rows)
    steps = of_kind(rows, "throughput", gemm="step") or of_kind(rows, "throughput")
    found: tuple[Figure | Table | None, ...] = (
        device_figure(only(steps, *MODEL), "time_us", "How long would a training step take?", look),
        *apart(THROUGHPUT, rows),
        device_figure(
            only(of_kind(rows, "energy"), *MODEL),
            "joules_per_token",
            "What would a token cost in energy?",
            look,
        ),
        *apart(ENERGY, rows),
        KERNELS.table(rows),
        DEVICES.table(rows),
    )
    return Section(
        "devices",
        "Throughput and energy per device",
        "Modelled figures are of hardware as its data sheet states it, or of a named what-if "
        "device. Measured figures are of the machine that ran.",
        tuple(part for part in found if part),
        "--suite hardware",
    )


def apart(view: View, rows: Sequence[Row]) -> list[Table]:
    """A view as two tables, one of models and one of measurements."""
    tables = []
    for word, origins in (("modelled", MODEL), ("measured", OBSERVED)):
        part = View(**{**vars(view), "id": f"{view.id}-{word}", "title": f"{view.title}, {word}"})
        tables.append(part.table(only(of_kind(rows, view.kind), *origins)))
    return tables


def device_figure(
    found: Sequence[Row], quantity: str, title: str, look: dict[str, Look]
) -> Figure | None:
    """One quantity per device, a panel per model, a mark per format."""
    if not quantities(found, quantity):
        return None
    models = names(found, "model") or [""]
    unit = common_unit(quantities(found, quantity))
    layout = panels(
        models,
        axis(label(quantity).title, unit, rangemode="tozero"),
        axis("", autorange="reversed"),
        height=130 + 40 * len(names(found, "device")),
        share="y",
    )
    data = [
        _marks(name, group, quantity, look[name], models.index(model))
        for (model, name), group in grouped(found, "model", "format").items()
    ]
    once = {trace["name"]: index for index, trace in reversed(list(enumerate(data)))}
    for index, trace in enumerate(data):
        trace["showlegend"] = once[trace["name"]] == index
    return Figure(
        f"devices-{quantity}",
        title,
        f"{label(quantity).title} by model on each device and for each format.",
        data,
        layout,
        View(f"devices-{quantity}", found[0].kind, title, (), (quantity,)).table(found),
    )


def _marks(name: str, group: Sequence[Row], quantity: str, look: Look, panel: int) -> Json:
    devices = grouped(group, "device")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "legendgroup": plain(name),
        "x": middles(devices.values(), quantity),
        "y": [plain(device) for (device,) in devices],
        "marker": look.marker(size=11),
        **in_panel(panel),
    }
