"""Static timing: the longest path through a mapped netlist, from the library's delay tables.

For every net the latest rise and fall (ps) and their slews are propagated in topological order:
arrival(out) = max over arcs of arrival(in) + delay(slew(in), load(out)). Loads are pin
capacitances; wires are not modelled, so this is a floor, good for comparing units and not for
promising a clock.
"""

from __future__ import annotations

from hwmodels.liberty import Arc, Library
from hwmodels.netlist import Net, Netlist

EDGES = ("rise", "fall")
Edge = tuple[float, float]  # arrival and slew, ps
Arrivals = dict[Net, dict[str, Edge]]


def arrivals(netlist: Netlist, input_slew: float) -> Arrivals:
    """Arrival and slew of both edges on every net; inputs arrive at 0 with the given slew (ps)."""
    result: Arrivals = {}
    start = {edge: (0.0, input_slew) for edge in EDGES}
    for instance in netlist.instances:
        for output in instance.cell.outputs:
            net = instance.nets.get(output.name)
            if net is None:
                continue
            load = netlist.loads.get(net, 0.0)
            latest: dict[str, Edge] = {}
            for arc in output.arcs:
                before = result.get(instance.nets.get(arc.source, ""), start)
                for edge in EDGES:
                    for source_edge in _source_edges(arc, edge):
                        candidate = _through(arc, edge, before[source_edge], load)
                        latest[edge] = max(latest.get(edge, candidate), candidate)
            result[net] = {edge: latest.get(edge, start[edge]) for edge in EDGES}
    return result


def critical_path(netlist: Netlist, library: Library) -> float:
    """Longest delay to any net, ps."""
    reached = arrivals(netlist, typical_slew(library))
    return max((edge[0] for edges in reached.values() for edge in edges.values()), default=0.0)


def typical_slew(library: Library) -> float:
    """A sharp but real input edge, ps: the second-smallest slew that the library's tables have."""
    slews = [
        arc.delay["rise"].slews
        for cell in library.cells.values()
        for pin in cell.outputs
        for arc in pin.arcs
        if "rise" in arc.delay
    ]
    return min(axis[min(1, len(axis) - 1)] for axis in slews)


def _source_edges(arc: Arc, edge: str) -> tuple[str, ...]:
    other = EDGES[1 - EDGES.index(edge)]
    return {"positive_unate": (edge,), "negative_unate": (other,)}.get(arc.sense, EDGES)


def _through(arc: Arc, edge: str, before: Edge, load: float) -> Edge:
    arrival, slew = before
    if edge not in arc.delay:
        return before
    return arrival + arc.delay[edge].at(slew, load), arc.transition[edge].at(slew, load)
