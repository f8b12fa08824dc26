"""RTL of a dot-product unit for any 4-bit grid: decode, product, exact sum.

A unit of K lanes takes 2K codes and returns the exact integer dot product of their code books:

    s = sum_k A[a_k] * B[b_k]          value = s * step_a * step_b

Two kinds of lane exist. A grid whose code already is its integer (INT4) multiplies in two's
complement by Baugh and Wooley's array, whose partial products need no sign extension: synthesis
tools map a plain signed ``*`` with sign-extended rows, which costs a third more and would bias any
comparison. Every other grid is decoded to sign, significand and shift; unsigned significands are
multiplied and shifted. Both kinds enter the sum as *offset* numbers (top bit inverted), so that one
constant replaces all sign extension, and both share the same carry-save sum. A unit for several
grids takes a flag per operand that says which of them its block is in: what supporting E1M2 or INT4
*beside* E2M1 costs.

Units are combinational: registers, clock and wires belong to the accelerator, and are not priced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hwmodels.codebook import CODE_BITS, CodeBook


@dataclass(frozen=True)
class Port:
    """An input or output of a unit; ``count`` elements of ``width`` bits, element 0 lowest."""

    name: str
    width: int
    count: int = 1

    @property
    def bits(self) -> int:
        """Width of the whole port."""
        return self.width * self.count


@dataclass(frozen=True)
class DotUnit:
    """A K-lane dot-product unit for one grid, or for several selected per operand by a flag."""

    books: tuple[CodeBook, ...]
    lanes: int

    @property
    def name(self) -> str:
        """The grids it serves, joined by '+'."""
        return "+".join(book.name for book in self.books)

    @property
    def flag_bits(self) -> int:
        """Width of an operand's grid flag; 0 for a unit of one grid."""
        return (len(self.books) - 1).bit_length()

    @property
    def significand_bits(self) -> int:
        """The narrowest multiplier that serves all books."""
        return max(book.significand_bits for book in self.books)

    @property
    def product_max(self) -> int:
        """Largest magnitude of one product."""
        return max(book.max for book in self.books) ** 2

    @property
    def sum_bits(self) -> int:
        """Width of the exact signed sum."""
        return (self.lanes * self.product_max).bit_length() + 1

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports."""
        codes = (Port("a", CODE_BITS, self.lanes), Port("b", CODE_BITS, self.lanes))
        flags = (Port("a_flag", self.flag_bits), Port("b_flag", self.flag_bits))
        return codes + (flags if self.flag_bits else ())

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output port: the signed sum."""
        return (Port("sum", self.sum_bits),)

    def expected(self, a: Sequence[int], b: Sequence[int], a_flag: int = 0, b_flag: int = 0) -> int:
        """The sum straight from the code books: the meaning that the circuit must equal."""
        left, right = self.books[a_flag].integers, self.books[b_flag].integers
        pairs = zip(a, b, strict=True)
        return sum((left[x] or 0) * (right[y] or 0) for x, y in pairs)

    @cached_property
    def verilog(self) -> str:
        """SystemVerilog of the unit as one module ``unit``."""
        signed = len(self.books) == 1 and self.books[0].is_twos_complement
        lane = _baugh_wooley_lane if signed else _decoded_lane
        body: list[str] = [] if signed else [_decoder(self)]
        terms: list[str] = []
        offset = 0
        for index in range(self.lanes):
            lines, lane_terms, lane_offset = lane(self, index)
            body += lines
            terms += lane_terms
            offset += lane_offset
        width = self.sum_bits
        terms.append(f"{width}'d{-offset % (1 << width)}")
        padded = [f"{{{width}'d0, {term}}}" for term in terms]
        body.append(f"assign sum = {' + '.join(padded)};")
        return module(self.inputs, self.outputs, body)


def module(inputs: Sequence[Port], outputs: Sequence[Port], body: Sequence[str]) -> str:
    """A combinational SystemVerilog module named ``unit``."""
    ports = [f"input [{port.bits - 1}:0] {port.name}" for port in inputs]
    ports += [f"output [{port.bits - 1}:0] {port.name}" for port in outputs]
    lines = ["module unit(", "  " + ",\n  ".join(ports), ");", *(f"  {line}" for line in body)]
    return "\n".join([*lines, "endmodule", ""])


def _baugh_wooley_lane(unit: DotUnit, index: int) -> tuple[list[str], list[str], int]:
    """Product of two 4-bit two's-complement codes.

    Partial products that hold exactly one sign bit are inverted; the rows then sum to
    a * b - 2^n - 2^(2n-1) modulo 2^(2n), for n-bit operands.
    """
    n, base = CODE_BITS, index * CODE_BITS
    rows = []
    for j in range(n):
        bits = [
            f"{'~' if (j == n - 1) != (k == n - 1) else ''}(a[{base + k}] & b[{base + j}])"
            for k in reversed(range(n))
        ]
        rows.append(f"({{{n}'d0, {', '.join(bits)}}} << {j})")
    constant = (1 << n) + (1 << (2 * n - 1))
    line = f"wire [{2 * n - 1}:0] p{index} = {' + '.join(rows)} + {2 * n}'d{constant};"
    return [line], [f"~p{index}[{2 * n - 1}], p{index}[{2 * n - 2}:0]"], 1 << (2 * n - 1)


def _decoded_lane(unit: DotUnit, index: int) -> tuple[list[str], list[str], int]:
    """Product of two decoded codes; -m is ~m + 1, the ones being summed with the rest."""
    width, shift, product = unit.significand_bits, _shift_bits(unit), unit.product_max.bit_length()
    lines = []
    for side in "ab":
        code = f"{side}[{index * CODE_BITS} +: {CODE_BITS}]"
        argument = f"{{{side}_flag, {code}}}" if unit.flag_bits else code
        fields = ", ".join(
            f"{side}_{name}{index}" for name in ("sign", "sig", "shift")[: 2 + bool(shift)]
        )
        lines += [
            f"wire {side}_sign{index};",
            f"wire [{width - 1}:0] {side}_sig{index};",
            *([f"wire [{shift - 1}:0] {side}_shift{index};"] if shift else []),
            f"assign {{{fields}}} = decode({argument});",
        ]
    lines.append(f"wire negative{index} = a_sign{index} ^ b_sign{index};")
    lines.append(f"wire [{2 * width - 1}:0] p{index} = a_sig{index} * b_sig{index};")
    if shift:
        lines.append(f"wire [{shift}:0] shift{index} = a_shift{index} + b_shift{index};")
        lines.append(
            f"wire [{product - 1}:0] m{index} = {{{product}'d0, p{index}}} << shift{index};"
        )
    else:
        lines.append(f"wire [{product - 1}:0] m{index} = p{index};")
    magnitude = f"m{index} ^ {{{product}{{negative{index}}}}}"
    return lines, [f"~negative{index}, {magnitude}", f"negative{index}"], 1 << product


def _decoder(unit: DotUnit) -> str:
    """A function from flag and code to {sign, significand, shift}; unused codes are free."""
    width, shift = unit.significand_bits, _shift_bits(unit)
    arms = []
    for flag, book in enumerate(unit.books):
        for code in range(1 << CODE_BITS):
            parts = book.split(code, width) if code < len(book.integers) else None
            if parts is not None:
                sign, significand, amount = parts
                value = ((sign << width | significand) << shift) | amount
                arms.append(f"{flag << CODE_BITS | code}: decode = {value};")
    bits, argument = 1 + width + shift, CODE_BITS + unit.flag_bits
    return "\n    ".join(
        [
            f"function [{bits - 1}:0] decode(input [{argument - 1}:0] code);",
            "case (code)",
            *arms,
            f"default: decode = {bits}'bx;",
            "endcase",
            "endfunction",
        ]
    )


def _shift_bits(unit: DotUnit) -> int:
    """Width of the largest shift of any code, 0 when no code is shifted."""
    parts = [
        book.split(code, unit.significand_bits) for book in unit.books for code in book.used_codes
    ]
    return max(part[2] for part in parts if part is not None).bit_length()
