"""Rows of the throughput and energy models, and of the devices' published figures.

Each function asks one model and writes down what it said, with the constants' sources. Where a
model has no answer (a device without the rate, a class without an energy) the row says
"unavailable" and why; it is never zero and never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats import BlockFormat, Recipe
from hwmodels.device import Device, load_device
from hwmodels.energy import EnergyClass, step_energy
from hwmodels.measured import load_measured
from hwmodels.throughput import Step, step_time
from hwmodels.validation import TARGETS, Comparison, checked, compare, worst
from hwmodels.workload import ModelShape
from suites.rows import Quantity, Row, measured, modelled, published


def unavailable(unit: str, reason: str) -> Quantity:
    """A modelled number that does not exist, and why."""
    return Quantity(value=None, unit=unit, origin="modelled", status="unavailable", note=reason)


def device_row(device: Device) -> Row:
    """The published figures of a device."""
    record = device.record
    values = {}
    for rate, figure in record.rates.items():
        name = f"{rate}_{'tops' if rate.startswith('int') else 'tflops'}"
        values[name] = published(figure.value, figure.unit, figure.provenance)
    for name, known in (
        ("memory_gb", device.memory),
        ("hbm_bandwidth", device.bandwidth),
        ("tdp_w", record.tdp),
    ):
        values[name] = (
            published(known.value, known.unit, known.provenance)
            if known
            else Quantity(value=None, unit="W", origin="published", note="not published")
        )
    native = [f"{entry.element} with {entry.scale}/{entry.block}" for entry in record.native]
    facts = {"status": record.status, "summary": record.summary, "native": native}
    return Row(
        kind="device",
        config={"device": device.name},
        values=values,
        facts={**facts, "notes": list(record.notes), "source_file": device.path.name},
    )


def throughput_rows(
    device: Device, model: ModelShape, recipe: Recipe, detail: str, optimiser: str | None
) -> Iterator[Row]:
    """The step of a model under a recipe, and with detail "gemm" all of its pieces."""
    config = _setting(device, model, recipe)
    try:
        step = step_time(device, model, recipe, optimiser)
    except ValueError as error:
        values = {"time_us": unavailable("us", str(error))}
        yield Row(kind="throughput", config={**config, "gemm": "step"}, values=values)
        return
    note = _throughput_note(device)
    yield Row(
        kind="throughput",
        config={**config, "gemm": "step"},
        values={
            "time_us": modelled(step.seconds * 1e6, "us", note),
            "tokens_per_second": modelled(step.tokens_per_second, "tokens/s", note),
            "bytes": modelled(step.bytes, "B"),
        },
        facts={
            "bound": step.bound,
            "path": sorted({route.path for route in step.routes.values()}),
            "reason": sorted({route.reason for route in step.routes.values()}),
            "optimiser": optimiser or "not included",
            "basis": _basis(device),
            "parts": [f"{part} {share:.0%}" for part, share in step.shares.items()],
        },
    )
    for timed in step.pieces if detail == "gemm" else ():
        yield Row(
            kind="throughput",
            config={**config, "gemm": timed.piece.name},
            values={"time_us": modelled(timed.seconds * 1e6, "us", note)},
            facts={"bound": timed.bound},
        )


def energy_rows(
    device: Device, model: ModelShape, recipe: Recipe, classes: Sequence[EnergyClass]
) -> Iterator[Row]:
    """Energy per token by counting in each class, and at the device's TDP for the modelled time."""
    fmt = main_format(recipe)
    config = _setting(device, model, recipe)
    try:
        step = step_time(device, model, recipe)
    except ValueError:
        return  # the throughput row has said why
    for energies in classes:
        yield Row(
            kind="energy",
            config={**config, "circuit": energies.name},
            values=_counted(step, energies, fmt),
            facts={"constants": energies.provenance()},
        )
    if device.record.tdp is not None:
        joules = device.record.tdp.value * step.seconds / step.tokens
        note = f"TDP {device.record.tdp.value:g} W for the modelled time: a socket's upper bound"
        yield Row(
            kind="energy",
            config={**config, "circuit": "whole device at TDP"},
            values={"joules_per_token": modelled(joules, "J/token", note)},
        )


def _setting(device: Device, model: ModelShape, recipe: Recipe) -> dict[str, str]:
    """What a row of this model on this device is about."""
    return {
        "device": device.name,
        "model": model.name,
        "format": main_format(recipe).name,
        "recipe": recipe.name,
    }


def validation_rows() -> Iterator[Row]:
    """Times that were measured on a device beside the model's, and the worst error of each kind."""
    for source in load_measured():
        note = f"{source.source}, {source.date}"
        found = list(compare(source))
        for one in found:
            yield _validation_row(one, one.what, note, {"use": one.use})
        for what, target in TARGETS.items():
            if furthest := worst(found, what):
                verdict = "reached" if abs(furthest.error_percent) <= target else "missed"
                facts = {"use": "check", "target": f"{target}%, {verdict}"}
                head = f"worst of {len(checked(found, what))} {what}s checked"
                yield _validation_row(furthest, head, note, facts)


def _validation_row(one: Comparison, what: str, note: str, facts: dict[str, str]) -> Row:
    about = {"recipe": one.recipe} if one.recipe else {}
    head = f"{what}, measured beside model"
    return Row(
        kind="throughput",
        config={"device": one.device, "model": one.model, **about, "gemm": head},
        values={
            "time_us": measured(one.measured_us, "us", note),
            "modelled_us": modelled(one.modelled_us, "us"),
            "error_percent": modelled(one.error_percent, "%"),
        },
        facts={"bound": one.bound, **facts},
    )


def main_format(recipe: Recipe) -> BlockFormat:
    """The format of the recipe's first quantised operand; that of x when none is."""
    formats = [operand.format for operand in recipe.operands.values()]
    return next((fmt for fmt in formats if not fmt.is_high_precision), formats[0])


def load_devices(names: Sequence[str]) -> list[Device]:
    """Devices by name or path.

    Raises:
        ValueError: unknown, or a faulty file.
    """
    return [load_device(name) for name in names]


def _counted(step: Step, energies: EnergyClass, fmt: BlockFormat) -> dict[str, Quantity]:
    try:
        found = step_energy(step, energies, fmt)
    except ValueError as error:
        return {"joules_per_token": unavailable("J/token", str(error))}
    levels = {
        "mac": found.mac_joules,
        "on_chip": found.on_chip_joules,
        "memory": found.memory_joules,
    }
    return {
        "joules_per_token": modelled(found.joules / step.tokens, "J/token"),
        "pj_per_mac": modelled(found.pj_per_mac, "pJ"),
        **{
            f"{level}_joules_per_token": modelled(joules / step.tokens, "J/token")
            for level, joules in levels.items()
        },
    }


def _basis(device: Device) -> str:
    if device.record.achievable:
        return "fitted to measurements"
    return "roofline, a lower bound on time"


def _throughput_note(device: Device) -> str:
    return f"if built; {_basis(device)}" if device.is_what_if else _basis(device)
