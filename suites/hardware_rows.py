"""Rows of the cost models: devices, throughput, energy, area, circuits.

Each function asks one model and writes down what it said, with the constants' sources. Where a model has
no answer (a device without the rate, a grid without a circuit) the row says "unavailable" and why; it is
never zero and never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from formats import BlockFormat, Recipe, load_format
from hwmodels import area, synthesis, validation
from hwmodels.circuit_cost import Design, PartCost
from hwmodels.circuit_table import CircuitTable, load_tables, make_table
from hwmodels.codebook import CodeBook
from hwmodels.device import Device, load_device
from hwmodels.energy import EnergyClass, design_of, step_energy
from hwmodels.liberty import load_liberty
from hwmodels.throughput import Step, Timed, step_time
from hwmodels.workload import ModelShape
from suites.rows import Quantity, Row, measured, modelled, published

DEBIAN_LIBERTY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
REFERENCE = "nvfp4"  # both area models are also given relative to it
TOTAL = "total"
DUAL_UNITS = (("e2m1", "e1m2"), ("e2m1", "int4"))


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
    fmt = main_format(recipe)
    config = {
        "device": device.name,
        "model": model.name,
        "format": fmt.name,
        "recipe": recipe.name,
    }
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
            "parts": [f"{part} {share:.0%}" for part, share in _shares(step).items()],
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
    config = {
        "device": device.name,
        "model": model.name,
        "format": fmt.name,
        "recipe": recipe.name,
    }
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


def area_rows(fmt: BlockFormat) -> Iterator[Row]:
    """The published gate-count model, with each set of cell factors."""
    for factors, cells in area.cell_factors("area").items():
        try:
            size = area.normalised(fmt, "area", factors)
            relative = size / area.normalised(load_format(REFERENCE), "area", factors)
            values = {
                "area_normalised": modelled(size, "MXFP8 = 1", cells.source),
                "ratio_to_nvfp4": modelled(relative, "NVFP4 = 1"),
            }
        except ValueError as error:
            values = {"area_normalised": unavailable("MXFP8 = 1", str(error))}
        model = f"{area.MODEL}, {factors} cells"
        yield Row(
            kind="area", config={"format": fmt.name, "model": model, "part": "lane"}, values=values
        )


def table_5_rows() -> Iterator[Row]:
    """The published ratios beside the model's: how well the reproduction holds."""
    for metric, targets in area.TABLE_5.items():
        for factors in area.cell_factors(metric):
            for name, ratio in area.table_5(metric, factors).items():
                error = 100 * (ratio / targets[name] - 1)
                yield Row(
                    kind="area",
                    config={
                        "format": name,
                        "model": f"{area.MODEL}, {factors} cells",
                        "part": f"Table 5 {metric}",
                    },
                    values={
                        "area_normalised": modelled(ratio, "MXFP8 = 1"),
                        "published": published(targets[name], "MXFP8 = 1", "arXiv:2510.25602 Table 5"),
                        "error_percent": modelled(error, "%"),
                    },
                )


def circuit_rows(fmt: BlockFormat, tables: Sequence[CircuitTable]) -> Iterator[Row]:
    """The parts of a format's own unit in every library, and their total."""
    design = design_of(fmt)
    reference = design_of(load_format(REFERENCE))
    for table in tables:
        parts = table.find(design)
        config = {"format": fmt.name, "library": table.library, "lanes": design.lanes}
        if not parts:
            yield Row(
                kind="circuit",
                config={**config, "part": TOTAL},
                values={"area_um2": unavailable("um2", _not_priced(table.library))},
            )
            continue
        yield from _part_rows(config, parts, table)
        per_mac = _area_per_mac(parts)
        values = {"area_um2": modelled(per_mac, "um2/MAC")}
        if standard := table.find(reference):
            values["ratio_to_nvfp4"] = modelled(per_mac / _area_per_mac(standard), "NVFP4 = 1")
        config = {"format": fmt.name, "model": "circuit", "library": table.library, "part": TOTAL}
        yield Row(kind="area", config=config, values=values)


def dual_rows(tables: Sequence[CircuitTable]) -> Iterator[Row]:
    """Units that do E2M1 and a second grid per block: what adding the second one costs."""
    scale = load_format(REFERENCE).scale
    assert scale is not None
    for names in DUAL_UNITS:
        books = tuple(_book(name) for name in names)
        for in_use, name in enumerate(names):
            design = Design(books, scale.format, lanes=16, in_use=in_use)
            alone = Design((books[0],), scale.format, lanes=16)
            for table in tables:
                parts = table.find(design)
                if parts:
                    config = {"format": f"{'+'.join(names)} as {name}", "library": table.library}
                    yield from _part_rows({**config, "lanes": 16}, parts, table, table.find(alone))


def validation_rows() -> Iterator[Row]:
    """Times that were measured on a device beside the model's."""
    for source in validation.load_measured():
        note = f"{source.source}, {source.date}"
        for found in validation.compare(source):
            yield Row(
                kind="throughput",
                config={
                    "device": found.device,
                    "model": found.model,
                    "format": found.recipe,
                    "recipe": found.recipe,
                    "gemm": f"{found.what}, measured beside model",
                },
                values={
                    "time_us": measured(found.measured_us, "us", note),
                    "modelled_us": modelled(found.modelled_us, "us"),
                    "error_percent": modelled(found.error_percent, "%"),
                },
                facts={"bound": found.bound, "use": found.use},
            )


def tables_for(fmt: BlockFormat, libraries: Sequence[str], liberty: str | None) -> list[CircuitTable]:
    """The shipped tables, and one made now for a grid that they lack, if tool and library are there.

    Raises:
        ValueError: an unknown library name; with ``liberty`` named, a missing file or tool.
    """
    shipped = load_tables()
    if unknown := [name for name in libraries if name not in shipped]:
        raise ValueError(f"unknown circuit table '{unknown[0]}'; there are {', '.join(shipped)}")
    chosen = [table for name, table in shipped.items() if not libraries or name in libraries]
    design = design_of(fmt)
    if liberty is not None:
        library = load_liberty(Path(liberty))
        return [*chosen, make_table(library, library.path.stem, [design])]
    if any(table.find(design) for table in chosen) or not can_synthesise():
        return chosen
    made = make_table(load_liberty(DEBIAN_LIBERTY), "osu018", [design])
    return [made, *(table for table in chosen if table.library != "osu018")]


def can_synthesise() -> bool:
    """Whether the tool and Debian's cell library are installed."""
    return synthesis.is_available() and DEBIAN_LIBERTY.is_file()


def main_format(recipe: Recipe) -> BlockFormat:
    """The format of the recipe's first quantised operand; that of x when none is."""
    formats = [operand.format for operand in recipe.operands.values()]
    return next((fmt for fmt in formats if not fmt.is_high_precision), formats[0])


def total_cost(parts: Sequence[PartCost]) -> tuple[float, float]:
    """Area (um2) and energy (fJ) of a unit per MAC, scales and accumulation included."""
    return _area_per_mac(parts), sum(_energy(part) for part in parts)


def _part_rows(
    config: dict[str, object],
    parts: Sequence[PartCost],
    table: CircuitTable,
    alone: Sequence[PartCost] = (),
) -> Iterator[Row]:
    facts = {
        "tool": table.tool,
        "script_hash": table.script_sha256[:16],
        "liberty_hash": table.liberty_sha256[:16],
        "corner": table.corner,
    }
    for part in parts:
        activity = "training" if "training" in part.energy_fj else "uniform"
        yield Row(
            kind="circuit",
            config={**config, "part": part.part},
            values={
                "area_um2": modelled(part.area_um2, "um2"),
                "energy_fj_per_mac": modelled(_energy(part), "fJ", f"{activity} activity"),
                "uniform_fj_per_mac": modelled(part.energy_fj["uniform"] / part.lanes, "fJ"),
                "delay_ps": modelled(part.delay_ps, "ps"),
                "leakage_nw": modelled(part.leakage_nw, "nW"),
            },
            facts={
                **facts,
                "activity": table.activity[activity],
                "checks": f"equal to the integer model on {part.vectors_checked} vectors",
                "cells": part.cells,
            },
        )
    values = {
        "area_um2": modelled(sum(part.area_um2 for part in parts), "um2"),
        "energy_fj_per_mac": modelled(sum(_energy(part) for part in parts), "fJ"),
        "uniform_fj_per_mac": modelled(
            sum(part.energy_fj["uniform"] / part.lanes for part in parts), "fJ"
        ),
        "delay_ps": modelled(sum(part.delay_ps for part in parts), "ps", "all parts in a row"),
    }
    if alone:
        extra = sum(part.area_um2 for part in parts) / sum(part.area_um2 for part in alone) - 1
        values["added_area_percent"] = modelled(100 * extra, "%", "over a unit for E2M1 alone")
    yield Row(kind="circuit", config={**config, "part": TOTAL}, values=values, facts=facts)


def _counted(step: Step, energies: EnergyClass, fmt: BlockFormat) -> dict[str, Quantity]:
    try:
        found = step_energy(step, energies, fmt)
    except ValueError as error:
        return {"joules_per_token": unavailable("J/token", str(error))}
    levels = {"mac": found.mac_joules, "on_chip": found.on_chip_joules, "memory": found.memory_joules}
    return {
        "joules_per_token": modelled(found.joules / step.tokens, "J/token"),
        "pj_per_mac": modelled(found.pj_per_mac, "pJ"),
        **{
            f"{level}_joules_per_token": modelled(joules / step.tokens, "J/token")
            for level, joules in levels.items()
        },
    }


def _shares(step: Step) -> dict[str, float]:
    """Share of the step's time by kind of piece."""

    def kind(timed: Timed) -> str:
        words = timed.piece.name.split()
        return words[1] if len(words) > 1 else words[0]

    kinds = dict.fromkeys(kind(timed) for timed in step.pieces)
    return {
        name: sum(t.seconds for t in step.pieces if kind(t) == name) / step.seconds for name in kinds
    }


def _throughput_note(device: Device) -> str:
    reached = "fitted to measurements" if device.record.achievable else "roofline, a lower bound on time"
    return f"if built; {reached}" if device.is_what_if else reached


def _not_priced(library: str) -> str:
    return (
        f"nobody priced this grid in {library}: pip install 'gridbench[synth]' and give "
        "--set liberty=PATH.lib (Debian: apt-get install qflow-tech-osu018)"
    )


def _area_per_mac(parts: Sequence[PartCost]) -> float:
    return sum(part.area_um2 / part.lanes for part in parts)


def _energy(part: PartCost) -> float:
    """fJ per MAC under training activity where it was captured, else uniform."""
    return part.energy_fj.get("training", part.energy_fj["uniform"]) / part.lanes


def _book(name: str) -> CodeBook:
    grid = load_format(name).element
    assert grid is not None
    return CodeBook.from_grid(grid)


def load_devices(names: Sequence[str]) -> list[Device]:
    """Devices by name or path.

    Raises:
        ValueError: unknown, or a faulty file.
    """
    return [load_device(name) for name in names]
