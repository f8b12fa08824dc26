"""Energy of a mapped netlist from simulated toggles and the library's power tables.

Per vector, energy = sum over nets of toggles * (1/2 C V^2) + sum over cells of the internal energy
that Liberty tabulates per rise and fall of a pin. Toggles come from values (netlist.py), never from
a probabilistic "vectorless" estimate, which is tens of times too high on arithmetic. Leakage is
reported beside it, not in it, since it depends on a clock that this model does not have.
"""

from __future__ import annotations

from collections.abc import Mapping

from hwmodels.liberty import Energy, Library
from hwmodels.netlist import Net, Netlist
from hwmodels.timing import EDGES, Arrivals, arrivals, typical_slew


def switching_energy(
    netlist: Netlist, library: Library, values: Mapping[Net, int], count: int
) -> float:
    """Mean energy per vector, fJ, over the count - 1 transitions between consecutive vectors.

    Raises:
        ValueError: fewer than two vectors, or a library without power tables.
    """
    if count < 2:
        raise ValueError(
            "energy needs at least two vectors: it is the cost of going from one to the next"
        )
    if not any(pin.energies for cell in library.cells.values() for pin in cell.pins.values()):
        raise ValueError(f"{library.path}: no internal_power tables, so no energy can be computed")
    slew = typical_slew(library)
    reached = arrivals(netlist, slew)
    total = sum(
        0.5 * load * library.voltage**2 * sum(edges(values[net], count))
        for net, load in netlist.loads.items()
        if net in values
    )
    for instance in netlist.instances:
        for pin, net in instance.nets.items():
            toggles = edges(values[net], count) if net in values else (0, 0)
            if any(toggles):
                tables = instance.cell.pins[pin].energies
                load = netlist.loads.get(net, 0.0)
                total += _internal(tables, toggles, instance.nets, reached, slew, load)
    return total / (count - 1)


def edges(plane: int, count: int) -> tuple[int, int]:
    """(rises, falls) of a net: bit t is its value at vector t, later vectors in higher bits."""
    before, after = plane & ((1 << (count - 1)) - 1), plane >> 1
    return (after & ~before).bit_count(), (before & ~after).bit_count()


def _internal(
    tables: tuple[Energy, ...],
    toggles: tuple[int, int],
    nets: Mapping[str, Net],
    reached: Arrivals,
    slew: float,
    load: float,
) -> float:
    """Internal energy of one pin's toggles: the mean over its tables, fJ.

    Without delays it is unknown which input caused an output to move, nor which ``when`` state
    held, so all tables of a pin count alike.
    """
    if not tables:
        return 0.0
    total = 0.0
    for edge, number in zip(EDGES, toggles, strict=True):
        found = [table for table in tables if edge in table.energy]
        energies = [
            table.energy[edge].at(_slew(reached, nets.get(table.source or ""), slew), load)
            for table in found
        ]
        total += number * sum(energies) / max(len(energies), 1)
    return total


def _slew(reached: Arrivals, net: Net | None, default: float) -> float:
    """The slower slew that timing found on a net; the default on inputs."""
    if net is None or net not in reached:
        return default
    return max(edge[1] for edge in reached[net].values())
