"""Liberty: the text format in which cell libraries state area, function, timing and power.

Only what a combinational netlist needs is kept: per cell its area and leakage, per pin its
capacitance and Boolean function, and two kinds of lookup table over (input slew, output load):
delay/transition (timing arcs) and internal energy per transition. Everything is converted on
reading, so that no unit of a file leaks out: ps, fF, fJ, nW, and area as the file has it (um^2 in
every library used here).

A file nests three forms, ``name : value ;``, ``name (args) ;`` and ``name (args) { ... }``; some
libraries (ASAP7) leave the semicolons out. The internal-power unit is the capacitance unit times
V^2.
"""

from __future__ import annotations

import bisect
import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

STATEMENT = re.compile(
    r"(?P<call>\w+)\s*\((?P<args>[^()]*)\)\s*(?P<open>\{)?"
    r"|(?P<key>\w+)\s*:\s*(?P<value>\"[^\"]*\"|[^;{}\n]*)"
    r"|(?P<close>\})"
)
COMMENT = re.compile(r"/\*.*?\*/|\\\n", re.DOTALL)
SCALES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}


@dataclass(frozen=True)
class Table:
    """A lookup table over input slew (ps) and output load (fF); an absent axis is one point."""

    slews: tuple[float, ...]
    loads: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    def at(self, slew: float, load: float) -> float:
        """Bilinear interpolation; outside the table its edge holds (no extrapolation)."""
        i, u = _position(self.slews, slew)
        j, v = _position(self.loads, load)
        low, high = self.values[i], self.values[min(i + 1, len(self.values) - 1)]
        k = min(j + 1, len(low) - 1)
        return (1 - u) * ((1 - v) * low[j] + v * low[k]) + u * ((1 - v) * high[j] + v * high[k])


@dataclass(frozen=True)
class Arc:
    """Delay and output transition (ps) from one input pin to an output pin."""

    source: str
    sense: str
    delay: dict[str, Table]  # "rise" and "fall" of the output
    transition: dict[str, Table]


@dataclass(frozen=True)
class Energy:
    """Energy (fJ) that a cell itself spends when a pin rises or falls."""

    source: str | None  # the related input pin of an output's table; None for an input's own table
    energy: dict[str, Table]


@dataclass(frozen=True)
class Pin:
    """One pin: capacitance in fF, and for outputs the function, arcs and energies."""

    name: str
    direction: str
    capacitance: float
    function: str | None
    arcs: tuple[Arc, ...]
    energies: tuple[Energy, ...]


@dataclass(frozen=True)
class Cell:
    """One standard cell: area in um^2, leakage in nW."""

    name: str
    area: float
    leakage: float
    pins: dict[str, Pin]

    @cached_property
    def outputs(self) -> tuple[Pin, ...]:
        """The pins that a function drives."""
        return tuple(pin for pin in self.pins.values() if pin.function)


@dataclass(frozen=True)
class Library:
    """A parsed library with its operating corner and the sha256 of the file it came from."""

    name: str
    path: Path
    sha256: str
    voltage: float
    temperature: float
    cells: dict[str, Cell]

    @property
    def corner(self) -> str:
        """Supply and temperature at which the tables hold."""
        return f"{self.voltage:g} V, {self.temperature:g} C"


@dataclass
class Group:
    """A raw Liberty group: its arguments, simple attributes and subgroups."""

    name: str
    args: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    def all(self, name: str) -> list[Group]:
        """The subgroups of that name."""
        return [group for group in self.groups if group.name == name]

    def number(self, key: str, default: float = 0.0) -> float:
        """A numeric attribute."""
        return float(self.attributes.get(key, default))


def load_liberty(path: Path) -> Library:
    """Read a Liberty file.

    Raises:
        ValueError: the file is missing, is not Liberty, or has no cell with an area.
    """
    if not path.is_file():
        raise ValueError(
            f"{path}: no such Liberty file; name a .lib file "
            "(Debian: apt-get install qflow-tech-osu018)"
        )
    data = path.read_bytes()
    root = parse(data.decode("utf-8", errors="replace"))
    if root.name != "library":
        raise ValueError(f"{path}: not a Liberty file: no 'library (...) {{' group in it")
    units = _units(root)
    templates = {group.args: group.attributes for group in root.groups if "template" in group.name}
    cells = {group.args: _cell(group, templates, units, path) for group in root.all("cell")}
    if not cells:
        raise ValueError(f"{path}: the library has no cells")
    return Library(
        name=root.args,
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        voltage=root.number("nom_voltage"),
        temperature=root.number("nom_temperature"),
        cells=cells,
    )


def parse(text: str) -> Group:
    """The outermost group of a Liberty text."""
    top = Group("")
    stack = [top]
    for match in STATEMENT.finditer(COMMENT.sub(" ", text)):
        call, args, opened, key, value, closed = match.groups()
        if closed:
            if len(stack) > 1:
                stack.pop()
        elif key:
            stack[-1].attributes[key] = value.strip().strip('"')
        elif opened:
            group = Group(call, args.strip().strip('"'))
            stack[-1].groups.append(group)
            stack.append(group)
        else:
            stack[-1].attributes[call] = args
    return top.groups[0] if top.groups else top


def _units(root: Group) -> dict[str, float]:
    """Factors that turn the file's units into ps, fF, fJ and nW."""
    number, unit = root.attributes["capacitive_load_unit"].split(",")
    farad = float(number) * SCALES[unit.strip().strip('"').lower()[:-1]] / 1e-15
    return {
        "time": _unit(root.attributes["time_unit"], "s") / 1e-12,
        "capacitance": farad,
        "energy": farad * _unit(root.attributes["voltage_unit"], "V") ** 2,
        "leakage": _unit(root.attributes["leakage_power_unit"], "W") / 1e-9,
    }


def _unit(text: str, base: str) -> float:
    match = re.fullmatch(rf"([\d.]+)\s*([a-z]?){base}", text)
    if match is None:
        raise ValueError(f"Liberty unit '{text}' is not a number and a prefix of {base}")
    return float(match[1]) * SCALES[match[2]]


def _cell(
    group: Group, templates: dict[str, dict[str, str]], units: dict[str, float], path: Path
) -> Cell:
    if "area" not in group.attributes:
        raise ValueError(f"{path}: cell '{group.args}' has no area; it would count as zero")

    def table(parent: Group, name: str, unit: str) -> Table | None:
        found = parent.all(name)
        return _table(found[0], templates, units[unit], units) if found else None

    def pair(parent: Group, names: tuple[str, str], unit: str) -> dict[str, Table]:
        tables = {
            edge: table(parent, n, unit) for edge, n in zip(("rise", "fall"), names, strict=True)
        }
        return {edge: found for edge, found in tables.items() if found is not None}

    pins = {}
    for pin in group.all("pin"):
        arcs = tuple(
            Arc(
                arc.attributes["related_pin"],
                arc.attributes.get("timing_sense", "non_unate"),
                pair(arc, ("cell_rise", "cell_fall"), "time"),
                pair(arc, ("rise_transition", "fall_transition"), "time"),
            )
            for arc in pin.all("timing")
            if "related_pin" in arc.attributes
        )
        energies = tuple(
            Energy(
                power.attributes.get("related_pin"),
                pair(power, ("rise_power", "fall_power"), "energy"),
            )
            for power in pin.all("internal_power")
        )
        pins[pin.args] = Pin(
            name=pin.args,
            direction=pin.attributes.get("direction", ""),
            capacitance=pin.number("capacitance") * units["capacitance"],
            function=pin.attributes.get("function"),
            arcs=arcs,
            energies=energies,
        )
    return Cell(group.args, group.number("area"), _leakage(group) * units["leakage"], pins)


def _leakage(group: Group) -> float:
    """The stated average, else the state-independent groups of all supplies."""
    if "cell_leakage_power" in group.attributes:
        return group.number("cell_leakage_power")
    states = group.all("leakage_power")
    return sum(state.number("value") for state in states if "when" not in state.attributes)


def _table(
    group: Group, templates: dict[str, dict[str, str]], unit: float, units: dict[str, float]
) -> Table:
    """A table with the slew axis first, whichever way round its template has it."""
    template = templates.get(group.args, {})
    axes = []
    for number in ("1", "2"):
        index = group.attributes.get(f"index_{number}", template.get(f"index_{number}"))
        if index is not None:
            is_load = "capacitance" in template.get(f"variable_{number}", "")
            factor = units["capacitance" if is_load else "time"]
            axes.append((is_load, tuple(value * factor for value in _numbers(index))))
    flat = [value * unit for value in _numbers(group.attributes["values"])]
    width = len(axes[-1][1]) if len(axes) == 2 else len(flat)
    rows = tuple(tuple(flat[i : i + width]) for i in range(0, len(flat), width))
    if not axes:
        return Table((0.0,), (0.0,), rows)
    if len(axes) == 1:
        is_load, axis = axes[0]
        return (
            Table((0.0,), axis, rows)
            if is_load
            else Table(axis, (0.0,), tuple(zip(*rows, strict=True)))
        )
    if axes[0][0]:
        return Table(axes[1][1], axes[0][1], tuple(zip(*rows, strict=True)))
    return Table(axes[0][1], axes[1][1], rows)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.replace('"', " ").replace(",", " ").split()]


def _position(axis: tuple[float, ...], value: float) -> tuple[int, float]:
    """Index of the axis interval that holds a value, and how far into it (0..1)."""
    if len(axis) == 1 or value <= axis[0]:
        return 0, 0.0
    if value >= axis[-1]:
        return len(axis) - 1, 0.0
    index = bisect.bisect_right(axis, value) - 1
    return index, (value - axis[index]) / (axis[index + 1] - axis[index])
