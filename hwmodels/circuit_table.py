"""The shipped circuit tables: one JSON file per cell library, with all that it depends on.

A row is valid for a design only while the RTL that the generator writes for it is the RTL that was
priced: rows are found by its digest, never by a format's name. A user's YAML grid that equals a
built-in one finds its row; a grid that nobody priced is synthesised when the tool and a Liberty
file are at hand.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from formats import SCALE_FORMATS, Grid, load_format
from hwmodels import activity, synthesis
from hwmodels.circuit_cost import Design, PartCost, price, rtl_hash
from hwmodels.codebook import CodeBook
from hwmodels.liberty import Library
from hwmodels.netlist import Netlist

FOLDER = Path(__file__).parent / "data" / "circuits"
UNIFORM_VECTORS = 1024
SHIPPED_UNITS = (("e2m1",), ("e1m2",), ("int4",), ("e2m1", "e1m2"), ("e2m1", "int4"))
SHIPPED_SCALES = (("e4m3", 16), ("fp32", 16), ("e8m0", 32))  # scale format and lanes = its block


class CircuitTable(BaseModel):
    """Costs of designs in one library, and what they depend on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    library: str
    liberty_sha256: str
    corner: str
    tool: str
    script_sha256: str
    activity: dict[str, str]
    rows: tuple[PartCost, ...]

    def find(self, design: Design) -> list[PartCost]:
        """The parts of a design, or an empty list when the table does not have all of them."""
        wanted = {part: rtl_hash(unit) for part, unit in design.parts.items()}
        rows = {
            row.part: row
            for row in self.rows
            if wanted[row.part] == row.rtl
            and row.integers == design.book.integers
            and row.scale == design.scale.name
            and len(row.unit.split("+")) == len(design.books)
        }
        return list(rows.values()) if rows.keys() == wanted.keys() else []


def shipped_designs() -> list[Design]:
    """The designs of the shipped tables."""
    return [
        Design(tuple(CodeBook.from_grid(_element(name)) for name in names), scale, lanes, in_use)
        for scale, lanes in ((SCALE_FORMATS[name], lanes) for name, lanes in SHIPPED_SCALES)
        for names in SHIPPED_UNITS
        for in_use in range(len(names))
    ]


def make_table(library: Library, name: str, designs: list[Design]) -> CircuitTable:
    """Price designs in a library, under uniform activity and, where captured, that of training."""
    netlists: dict[str, Netlist] = {}
    rows = [cost for design in designs for cost in price_design(design, library, netlists)]
    return CircuitTable(
        library=name,
        liberty_sha256=library.sha256,
        corner=library.corner,
        tool=synthesis.tool_version(),
        script_sha256=synthesis.SCRIPT_HASH,
        activity={
            "uniform": f"{UNIFORM_VECTORS} blocks of uniformly random codes",
            "training": activity.training_source(),
        },
        rows=tuple(rows),
    )


def price_design(design: Design, library: Library, netlists: dict[str, Netlist]) -> list[PartCost]:
    """One design under all activities that exist for it."""
    arguments = (design.book, design.scale, design.lanes)
    streams = {"uniform": activity.uniform(*arguments, count=UNIFORM_VECTORS)}
    captured = activity.training(*arguments)
    if captured is not None:
        streams["training"] = captured
    return price(design, library, streams, netlists)


@cache
def load_tables() -> dict[str, CircuitTable]:
    """All shipped tables by library name."""
    return {path.stem: read_table(path) for path in sorted(FOLDER.glob("*.json"))}


def read_table(path: Path) -> CircuitTable:
    """Read a table.

    Raises:
        ValueError: not a circuit table, or one of another version.
    """
    try:
        return CircuitTable.model_validate_json(path.read_text())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{path}: not a circuit table ({where}: {first['msg']}); make it again with "
            "python -m hwmodels.regenerate"
        ) from error


def _element(name: str) -> Grid:
    grid = load_format(name).element
    assert grid is not None, f"{name} is a 4-bit format"
    return grid
