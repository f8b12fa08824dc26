"""Energy of a training step by counting: operations and bits moved, times their energy.

    joules = MACs * E_mac  +  bits read on chip * E_on_chip  +  bits moved to memory * E_memory

An energy class (energies/*.yaml) states the three for one technology. 4-bit MACs are priced by the
class's circuit table: dot product, scale and FP32 accumulation of that very grid. An operand read
from the on-chip buffer serves a tile of 128 outputs. Leakage, clock, control and wires inside the
matrix unit are not counted, so this is what the arithmetic and the traffic cost, not what a socket
draws: the device's TDP times the modelled time is the other end, and is reported beside it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from formats import BlockFormat
from formats.schema import Record
from formats.yamlfile import did_you_mean, load_yaml
from hwmodels.circuit_cost import Design, PartCost
from hwmodels.circuit_table import load_tables
from hwmodels.codebook import CodeBook
from hwmodels.figures import Figure
from hwmodels.throughput import Step

FOLDER = Path(__file__).parent / "energies"
TILE = 128
PICO, FEMTO = 1e-12, 1e-15
OPERAND_BITS = {"bf16": 16, "fp8": 8, "int8": 8, "fp6": 6}
MacType = Literal["bf16", "fp8", "int8", "fp6", "fp4"]


class EnergyClass(Record):
    """Energy per operation and per bit of one technology; pJ and pJ/bit."""

    name: str
    summary: str
    mac: dict[MacType, Figure]
    circuits: str | None = None
    on_chip: Figure
    memory: Figure

    def provenance(self) -> str:
        """Where every constant comes from."""
        figures = {**{f"{kind} MAC": figure for kind, figure in self.mac.items()}}
        figures |= {"on chip": self.on_chip, "memory": self.memory}
        return "; ".join(
            f"{name} {figure.value:g} {figure.unit} ({figure.provenance})"
            for name, figure in figures.items()
        )


@dataclass(frozen=True)
class StepEnergy:
    """Joules of one step by level."""

    macs: float
    mac_joules: float
    on_chip_joules: float
    memory_joules: float

    @property
    def joules(self) -> float:
        """All levels."""
        return self.mac_joules + self.on_chip_joules + self.memory_joules

    @property
    def pj_per_mac(self) -> float:
        """Energy of the arithmetic alone, mean over all MACs, pJ."""
        return self.mac_joules / self.macs / PICO


def load_energy_class(name_or_path: str | Path) -> EnergyClass:
    """The energy class of this name, or in this YAML file.

    Raises:
        ValueError: unknown name (with the nearest one), or a faulty file (file:line:column).
    """
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")) or os.sep in text:
        return load_yaml(Path(text), EnergyClass)
    names = [path.stem for path in sorted(FOLDER.glob("*.yaml"))]
    if text not in names:
        hint = did_you_mean(text, names) or f"; known: {', '.join(names)}"
        raise ValueError(f"unknown energy class '{text}'{hint}")
    return load_yaml(FOLDER / f"{text}.yaml", EnergyClass)


def step_energy(step: Step, energies: EnergyClass, fmt: BlockFormat) -> StepEnergy:
    """Count a step's energy; ``fmt`` is what its FP4-rate GEMMs multiply.

    Raises:
        ValueError: the class has no energy for an operand type that the step uses.
    """
    macs = joules = on_chip_bits = 0.0
    for timed in step.pieces:
        piece = timed.piece
        if piece.flops:
            count = piece.flops / 2
            macs += count
            joules += count * mac_picojoules(energies, piece.rate, fmt) * PICO
            width = OPERAND_BITS.get(piece.rate, fmt.bits_per_element)
            on_chip_bits += count * 2 * width / TILE
    return StepEnergy(
        macs,
        joules,
        on_chip_bits * energies.on_chip.value * PICO,
        step.bytes * 8 * energies.memory.value * PICO,
    )


def mac_picojoules(energies: EnergyClass, rate: str, fmt: BlockFormat) -> float:
    """Energy of one MAC at a rate's operand type, pJ; a stated figure goes before the circuits.

    Raises:
        ValueError: neither a figure nor a circuit.
    """
    stated: Mapping[str, Figure] = {str(kind): figure for kind, figure in energies.mac.items()}
    if rate in stated:
        return stated[rate].value
    if rate != "fp4" or energies.circuits is None:
        known = ", ".join(stated)
        raise ValueError(
            f"energy class '{energies.name}' has no {rate} MAC (it has {known}) "
            "and no circuits for it"
        )
    parts = circuit_parts(energies.circuits, fmt)
    return sum(mac_femtojoules(part) for part in parts) * FEMTO / PICO


def circuit_parts(library: str, fmt: BlockFormat) -> list[PartCost]:
    """The shipped circuits of a format in a library.

    Raises:
        ValueError: no such table, or the format is not in it.
    """
    tables = load_tables()
    if library not in tables:
        raise ValueError(f"no circuit table '{library}' (there are {', '.join(tables) or 'none'})")
    parts = tables[library].find(design_of(fmt))
    if not parts:
        raise ValueError(f"circuit table '{library}' has no unit for format '{fmt.name}'")
    return parts


def design_of(fmt: BlockFormat) -> Design:
    """The dot-product unit of a format: as many lanes as its block is long.

    Raises:
        ValueError: high precision, or a grid that no circuit is generated for.
    """
    if fmt.element is None or fmt.scale is None:
        raise ValueError(f"format '{fmt.name}' is high precision: it has no 4-bit circuit")
    return Design((CodeBook.from_grid(fmt.element),), fmt.scale.format, fmt.block[1])


def mac_femtojoules(part: PartCost) -> float:
    """Energy of a part per MAC, under training activity where that was captured, fJ."""
    energy = part.energy_fj.get("training", part.energy_fj["uniform"])
    return energy / part.lanes
