"""Netlist: a mapped circuit, evaluated on thousands of input vectors at once.

Synthesis leaves a graph of library cells. Each net's value over N vectors is one N-bit Python
integer (bit t = its value at vector t), so that a cell costs a few big-integer operations whatever
N is, and no simulator is needed. Cell functions come from the Liberty file, so what is checked
against the integer model is the mapped circuit itself. The number of toggles of a net is popcount(v
^ (v >> 1)).

The simulation has no delays: hazards (glitches) are not counted, and add to the energy of real
circuits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from hwmodels.liberty import Cell, Library

TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[01]|[!'*&+|^()])")
Expression = tuple[Any, ...]
Net = int | str  # a number, or the constants "0", "1", "x"


@dataclass(frozen=True)
class Instance:
    """One placed cell: which net each pin is on."""

    cell: Cell
    nets: dict[str, Net]


@dataclass(frozen=True)
class Netlist:
    """Cells in topological order, and the nets of each port, bit 0 first."""

    instances: tuple[Instance, ...]
    ports: dict[str, tuple[Net, ...]]

    @classmethod
    def from_json(cls, document: Mapping[str, Any], library: Library) -> Netlist:
        """Read Yosys' JSON of one flattened, mapped module.

        Raises:
            ValueError: a cell that the library does not have.
        """
        (module,) = document["modules"].values()
        instances = []
        for cell in module["cells"].values():
            if cell["type"] not in library.cells:
                raise ValueError(
                    f"{library.path}: synthesis left a '{cell['type']}' cell that the library "
                    "cannot make; it needs at least an inverter and NAND or NOR gates"
                )
            nets = {pin: bits[0] for pin, bits in cell["connections"].items() if bits}
            instances.append(Instance(library.cells[cell["type"]], nets))
        ports = {name: tuple(port["bits"]) for name, port in module["ports"].items()}
        inputs = {
            net
            for name, port in module["ports"].items()
            if port["direction"] == "input"
            for net in ports[name]
        }
        return cls(_topological(instances, inputs), ports)

    @property
    def area(self) -> float:
        """Sum of cell areas, um^2."""
        return sum(instance.cell.area for instance in self.instances)

    @property
    def leakage(self) -> float:
        """Sum of cell leakages, nW."""
        return sum(instance.cell.leakage for instance in self.instances)

    @cached_property
    def loads(self) -> dict[Net, float]:
        """Pin capacitance on each net, fF; wires are not modelled."""
        loads: dict[Net, float] = {}
        for instance in self.instances:
            for pin, net in instance.nets.items():
                loads[net] = loads.get(net, 0.0) + instance.cell.pins[pin].capacitance
        return loads

    def evaluate(self, inputs: Mapping[str, Sequence[int]]) -> dict[Net, int]:
        """Bit-parallel values of every net for sequences of port values (one per vector)."""
        count = len(next(iter(inputs.values())))
        ones = (1 << count) - 1
        values: dict[Net, int] = {"0": 0, "1": ones, "x": 0}
        for name, words in inputs.items():
            nets = self.ports[name]
            values.update(zip(nets, bit_planes(words, len(nets)), strict=True))
        for instance in self.instances:
            pins = {pin: values[net] for pin, net in instance.nets.items() if net in values}
            for output in instance.cell.outputs:
                if output.name in instance.nets and output.function:
                    values[instance.nets[output.name]] = _value(parse(output.function), pins, ones)
        return values

    def read(
        self, values: Mapping[Net, int], port: str, count: int, signed: bool = False
    ) -> list[int]:
        """The words on an output port, one per vector."""
        planes = [values[net] for net in self.ports[port]]
        words = [
            sum((plane >> index & 1) << bit for bit, plane in enumerate(planes))
            for index in range(count)
        ]
        half = 1 << (len(planes) - 1)
        return [(word ^ half) - half for word in words] if signed else words


def bit_planes(words: Sequence[int], width: int) -> list[int]:
    """Transpose words into one integer per bit position: bit t of plane i is bit i of word t."""
    planes = []
    for bit in range(width):
        digits = "".join("1" if word >> bit & 1 else "0" for word in reversed(words))
        planes.append(int(digits, 2))
    return planes


@cache
def parse(function: str) -> Expression:
    """A Liberty function as nested tuples; binding, tightest first: !, ^, & (* or blank), |."""
    tokens = TOKEN.findall(function)
    expression, rest = _sum(tokens)
    if rest:
        raise ValueError(f"Liberty function '{function}' cannot be read at '{rest[0]}'")
    return expression


def _sum(tokens: list[str]) -> tuple[Expression, list[str]]:
    left, tokens = _product(tokens)
    while tokens and tokens[0] in "+|":
        right, tokens = _product(tokens[1:])
        left = ("|", left, right)
    return left, tokens


def _product(tokens: list[str]) -> tuple[Expression, list[str]]:
    left, tokens = _parity(tokens)
    while tokens and tokens[0] not in "+|)^":
        right, tokens = _parity(tokens[1:] if tokens[0] in "*&" else tokens)
        left = ("&", left, right)
    return left, tokens


def _parity(tokens: list[str]) -> tuple[Expression, list[str]]:
    left, tokens = _factor(tokens)
    while tokens and tokens[0] == "^":
        right, tokens = _factor(tokens[1:])
        left = ("^", left, right)
    return left, tokens


def _factor(tokens: list[str]) -> tuple[Expression, list[str]]:
    if not tokens:
        raise ValueError("a Liberty function ends where an operand is due")
    head, tokens = tokens[0], tokens[1:]
    expression: Expression
    if head == "!":
        operand, tokens = _factor(tokens)
        return ("!", operand), tokens
    if head == "(":
        expression, tokens = _sum(tokens)
        tokens = tokens[1:]
    else:
        expression = ("pin", head)
    while tokens and tokens[0] == "'":
        expression, tokens = ("!", expression), tokens[1:]
    return expression, tokens


def _value(expression: Expression, pins: Mapping[str, int], ones: int) -> int:
    match expression:
        case ("pin", name):
            return ones * int(name) if name in "01" else pins[name]
        case ("!", operand):
            return ones ^ _value(operand, pins, ones)
        case ("&", left, right):
            return _value(left, pins, ones) & _value(right, pins, ones)
        case ("|", left, right):
            return _value(left, pins, ones) | _value(right, pins, ones)
        case ("^", left, right):
            return _value(left, pins, ones) ^ _value(right, pins, ones)
    raise AssertionError(f"unknown expression {expression}")


def _topological(instances: list[Instance], ready: set[Net]) -> tuple[Instance, ...]:
    """Order cells so that each stands after the drivers of its inputs."""
    ready = ready | {"0", "1", "x"}
    waiting: dict[Net, list[int]] = {}
    missing = []
    for index, instance in enumerate(instances):
        outputs = {pin.name for pin in instance.cell.outputs}
        sources = {net for pin, net in instance.nets.items() if pin not in outputs} - ready
        missing.append(len(sources))
        for net in sources:
            waiting.setdefault(net, []).append(index)
    queue = [index for index, count in enumerate(missing) if count == 0]
    order = []
    for index in queue:
        instance = instances[index]
        order.append(instance)
        for pin in instance.cell.outputs:
            for reader in waiting.pop(instance.nets.get(pin.name, ""), []):
                missing[reader] -= 1
                if missing[reader] == 0:
                    queue.append(reader)
    assert len(order) == len(instances), "a combinational netlist has no loops"
    return tuple(order)
