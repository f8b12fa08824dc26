"""Rows of the two area models and of the generated circuits.

The published gate-count model and the circuits are given side by side, each also relative to
NVFP4's unit, so that one can see where they disagree. A grid that neither can price gets a row that
says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from formats import BlockFormat, load_format
from hwmodels import area, synthesis
from hwmodels.circuit_cost import Design, PartCost
from hwmodels.circuit_table import CircuitTable, load_tables, make_table
from hwmodels.codebook import CodeBook
from hwmodels.energy import design_of
from hwmodels.liberty import load_liberty
from suites.hardware_rows import unavailable
from suites.rows import Row, modelled, published

DEBIAN_LIBERTY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
REFERENCE = "nvfp4"  # both area models are also given relative to it
TOTAL = "total"
DUAL_UNITS = (("e2m1", "e1m2"), ("e2m1", "int4"))
DUAL_LANES = 16


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
                        "published": published(
                            targets[name], "MXFP8 = 1", "arXiv:2510.25602 Table 5"
                        ),
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
            design = Design(books, scale.format, lanes=DUAL_LANES, in_use=in_use)
            alone = Design((books[0],), scale.format, lanes=DUAL_LANES)
            for table in tables:
                parts = table.find(design)
                if parts:
                    config = {"format": f"{'+'.join(names)} as {name}", "library": table.library}
                    yield from _part_rows(
                        {**config, "lanes": DUAL_LANES}, parts, table, table.find(alone)
                    )


def tables_for(
    fmt: BlockFormat, libraries: Sequence[str], liberty: str | None
) -> list[CircuitTable]:
    """The shipped tables, and one made now for a grid that they lack, where possible.

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


def _not_priced(library: str) -> str:
    return (
        f"nobody priced this grid in {library}: pip install 'gridbench[synth]' and give "
        "--set liberty=PATH.lib (Debian: apt-get install qflow-tech-osu018)"
    )


def _area_per_mac(parts: Sequence[PartCost]) -> float:
    return sum(part.area_um2 / part.lanes for part in parts)


def _energy(part: PartCost) -> float:
    """Energy per MAC under training activity where it was captured, else uniform, fJ."""
    return part.energy_fj.get("training", part.energy_fj["uniform"]) / part.lanes


def _book(name: str) -> CodeBook:
    grid = load_format(name).element
    assert grid is not None
    return CodeBook.from_grid(grid)
