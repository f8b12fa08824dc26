"""Time and energy per device. What was measured and what was modelled never share a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reports.labels import label
from reports.section import Figure, Json, Section
from reports.select import grouped, middles, names, of_kind, only, quantities
from reports.style import Look, axis, in_panel, looks, panels, plain
from reports.table import Table, common_unit
from reports.tables import DEVICES, ENERGY, THROUGHPUT, VALIDATION, View
from suites.rows import Row

MODEL = ("modelled", "published")
OBSERVED = ("measured", "emulated")


def section(rows: Sequence[Row]) -> Section:
    """Step times and energy, modelled and measured apart; data sheets."""
    look = looks(rows)
    times = [row for row in of_kind(rows, "throughput") if "modelled_us" not in row.values]
    checks = [row for row in of_kind(rows, "throughput") if "modelled_us" in row.values]
    energies = of_kind(rows, "energy")
    steps = [row for row in only(times, *MODEL) if row.config.get("gemm", "step") == "step"]
    found: tuple[Figure | Table | None, ...] = (
        device_figure(steps, "time_us", "model", "How long would a training step take?", look),
        *apart(THROUGHPUT, times),
        VALIDATION.table(checks),
        device_figure(
            _of_first_model(only(energies, *MODEL)),
            "joules_per_token",
            "circuit",
            "What would a token cost in energy?",
            look,
        ),
        *apart(ENERGY, energies),
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
    return [
        replace(view, id=f"{view.id}-{word}", title=f"{view.title}, {word}").table(
            only(rows, *origins)
        )
        for word, origins in (("modelled", MODEL), ("measured", OBSERVED))
    ]


def _of_first_model(found: Sequence[Row]) -> list[Row]:
    first = names(found, "model")[:1]
    return [row for row in found if names([row], "model") == first]


def device_figure(
    found: Sequence[Row], quantity: str, across: str, title: str, look: dict[str, Look]
) -> Figure | None:
    """One quantity per device, a panel per value of ``across``, a mark per recipe or format."""
    if not any(known.value is not None for known in quantities(found, quantity)):
        return None
    heads = names(found, across) or [""]
    who = "recipe" if names(found, "recipe") else "format"
    layout = panels(
        heads,
        axis(label(quantity).title, common_unit(quantities(found, quantity)), rangemode="tozero"),
        axis("", autorange="reversed"),
        height=150 + 34 * len(names(found, "device")),
        share="y",
    )
    shown = names(found, who)
    data = [
        _marks(name, group, quantity, look[name], heads.index(head))
        for (head, name), group in grouped(found, across, who).items()
    ]
    data += [_legend(name, look[name]) for name in shown]
    models = names(found, "model") if across != "model" else []
    return Figure(
        f"devices-{quantity}",
        title,
        f"{label(quantity).title} by model on each device and for each {who}.",
        data,
        layout,
        View(quantity, found[0].kind, label(quantity).title, (), (quantity,)).table(found),
        " ".join(filter(None, (f"Model {models[0]}." if models else "", _bases(found)))),
    )


def _bases(found: Sequence[Row]) -> str:
    """Which devices' times rest on what: a bound must not be read beside a fit as its equal."""
    devices: dict[str, list[str]] = {}
    for row in found:
        if basis := row.facts.get("basis"):
            devices.setdefault(str(basis), []).extend(names([row], "device"))
    said = [f"{', '.join(dict.fromkeys(named))}: {basis}" for basis, named in devices.items()]
    return f"{'; '.join(said)}." if said else ""


def _marks(name: str, group: Sequence[Row], quantity: str, look: Look, panel: int) -> Json:
    devices = grouped(group, "device")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "legendgroup": plain(name),
        "showlegend": False,
        "x": middles(devices.values(), quantity),
        "y": [plain(device) for (device,) in devices],
        "marker": look.marker(size=11),
        **in_panel(panel),
    }


def _legend(name: str, look: Look) -> Json:
    """An entry of the legend without a mark: any one panel may lack a recipe."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "legendgroup": plain(name),
        "x": [None],
        "y": [None],
        "marker": look.marker(size=11),
    }
