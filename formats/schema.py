"""The YAML schema of formats and recipes, and how a valid record becomes a frozen object."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from formats.block import BlockFormat
from formats.grid import NAMED_GRIDS, Grid
from formats.recipe import DEFAULT_KEEP, GEMM_OPERANDS, OPERANDS, TENSORS, Operand, Recipe
from formats.scale import FOUR_OVER_SIX, SCALE_FORMATS, ScaleRule
from formats.yamlfile import did_you_mean

HIGH_PRECISION = "bf16"


def _fraction(value: Any) -> Any:
    """Let head-room be written as the fraction that its source gives (17/16)."""
    if isinstance(value, str) and value.count("/") == 1:
        top, bottom = value.split("/")
        if top.isdecimal() and bottom.isdecimal() and int(bottom):
            return int(top) / int(bottom)
    return value


class Record(BaseModel):
    """Strict, frozen, without unknown keys: the base of everything that is read from YAML."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


def _block_size(block: int | tuple[int, int]) -> int:
    return block if isinstance(block, int) else math.prod(block)


class FloatElement(Record):
    """A minifloat element without infinities."""

    exponent: int
    mantissa: int
    bias: int | None = None
    max: float | None = None


class IntElement(Record):
    """Symmetric two's-complement integers."""

    bits: int


class ElementRecord(Record):
    """The element: a built-in name, or exactly one of float, int and values."""

    named: str | None = None
    as_float: FloatElement | None = Field(default=None, alias="float")
    as_int: IntElement | None = Field(default=None, alias="int")
    values: tuple[float, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in (*NAMED_GRIDS, HIGH_PRECISION):
            known = (*NAMED_GRIDS, HIGH_PRECISION)
            raise ValueError(
                f"unknown element '{value}', expected one of {', '.join(known)}, "
                f"or float:, int:, values:{did_you_mean(value, known)}"
            )
        return {"named": value}

    @model_validator(mode="after")
    def _one_kind(self) -> ElementRecord:
        kinds = (self.named, self.as_float, self.as_int, self.values)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("an element is a name or exactly one of float, int and values")
        self.grid()
        return self

    def grid(self) -> Grid | None:
        """The grid, None for high precision."""
        if self.as_float is not None:
            spec = self.as_float
            return Grid.from_float(spec.exponent, spec.mantissa, spec.bias, spec.max)
        if self.as_int is not None:
            return Grid.from_int(self.as_int.bits)
        if self.values is not None:
            return Grid.from_values(self.values)
        return NAMED_GRIDS.get(self.named or HIGH_PRECISION)


class ScaleRecord(Record):
    """The block scale's storage and rule; e8m0 has four rules and no default."""

    format: Literal["e8m0", "e4m3", "ue5m3", "bf16", "fp32"]
    rule: str | None = None
    headroom: Annotated[float, BeforeValidator(_fraction)] = 1.0

    @model_validator(mode="after")
    def _known_rule(self) -> ScaleRecord:
        rules = SCALE_FORMATS[self.format].rules
        if self.rule is None and "amax" not in rules:
            raise ValueError(f"{self.format} needs a rule, one of {', '.join(rules)}")
        if self.rule is not None and self.rule not in rules:
            known = f"{self.format} takes rule {', '.join(rules)}"
            raise ValueError(f"{known}, not '{self.rule}'{did_you_mean(self.rule, rules)}")
        if not 1.0 <= self.headroom <= 2.0:
            raise ValueError(f"headroom is a factor from 1 to 2, got {self.headroom}")
        return self

    def scale_rule(self) -> ScaleRule:
        """The rule as numerics use it."""
        return ScaleRule(SCALE_FORMATS[self.format], self.rule or "amax", self.headroom)


class FormatRecord(Record):
    """One format file."""

    name: str
    summary: str = ""
    element: ElementRecord
    block: int | tuple[int, int] | None = None
    scale: ScaleRecord | None = None
    tensor_scale: Literal["fp32", "none"] = "none"
    gain: float = 1.0
    overrides: bool = False
    source: str = ""

    @field_validator("block", mode="before")
    @classmethod
    def _block_edges(cls, value: Any) -> Any:
        edges = (value,) if isinstance(value, int) else value
        if isinstance(edges, tuple) and all(isinstance(edge, int) for edge in edges):
            if len(edges) not in (1, 2) or min(edges) < 1:
                raise ValueError("a block is a positive length, or [rows, columns] for a tile")
            if edges[0] > 65536 or edges[-1] > 65536:
                raise ValueError("a block edge is at most 65536")
        return value

    @model_validator(mode="after")
    def _parts_fit(self) -> FormatRecord:
        if self.element.grid() is None:
            if self.block or self.scale or self.tensor_scale == "fp32":
                raise ValueError("a high-precision format has no block, scale or tensor_scale")
            return self
        if self.block is None or self.scale is None:
            raise ValueError("a quantised format needs block and scale")
        if self.tensor_scale == "fp32" and self.scale.format not in ("e4m3", "ue5m3"):
            raise ValueError("tensor_scale goes with a scale format of e4m3 or ue5m3")
        if self.scale.rule == FOUR_OVER_SIX and self.element.grid() != NAMED_GRIDS["e2m1"]:
            raise ValueError("rule four-over-six needs element e2m1")
        if self.scale.rule == FOUR_OVER_SIX and self.tensor_scale != "fp32":
            raise ValueError("rule four-over-six needs tensor_scale: fp32")
        if self.scale.rule == FOUR_OVER_SIX and _block_size(self.block).bit_count() != 1:
            raise ValueError("rule four-over-six adds errors up by halving: block a power of two")
        if not 0.5 <= self.gain <= 2.0:
            raise ValueError(f"gain is a factor near 1 (0.5 to 2), got {self.gain}")
        return self

    def build(self, path: Path) -> BlockFormat:
        """The format as a frozen object."""
        block = (1, self.block) if isinstance(self.block, int) else self.block
        return BlockFormat(
            self.name,
            self.summary,
            self.element.grid(),
            block or (1, 1),
            self.scale.scale_rule() if self.scale else None,
            self.tensor_scale == "fp32",
            self.gain,
            self.source,
            path,
        )


class HadamardRecord(Record):
    """The random Hadamard transform: its size and the GEMMs whose operands it rotates."""

    size: int
    gemms: tuple[Literal["fprop", "dgrad", "wgrad"], ...]
    signs: Literal["run", "step"] = "run"

    @field_validator("size")
    @classmethod
    def _power_of_two(cls, size: int) -> int:
        if size < 2 or size & (size - 1) or size > 1024:
            raise ValueError("a Hadamard size is a power of two from 2 to 1024")
        return size


TensorName = Literal[
    "x", "w", "dy", "x.fprop", "w.fprop", "dy.dgrad", "w.dgrad", "dy.wgrad", "x.wgrad"
]


class RecipeRecord(Record):
    """One recipe file; ``formats`` replaces ``format`` for a tensor (w) or operand (w.dgrad)."""

    name: str
    summary: str = ""
    format: str
    formats: dict[TensorName, str] = {}
    hadamard: HadamardRecord | None = None
    stochastic: tuple[TensorName, ...] = ()
    keep: tuple[str, ...] = DEFAULT_KEEP
    keep_first: float = Field(default=0.0, ge=0, le=1)
    keep_last: float = Field(default=0.0, ge=0, le=1)
    overrides: bool = False
    source: str = ""

    def build(self, path: Path | None, find_format: Callable[[str], BlockFormat]) -> Recipe:
        """The recipe as a frozen object; find_format turns a name or path into a format.

        Args:
            path: the file that the record was read from, None for one inside another file.
        """
        rotation = self.hadamard or HadamardRecord(size=16, gemms=())
        operands = {
            name: Operand(
                find_format(self._format_of(name)),
                "stochastic" if self._covers(self.stochastic, name) else "nearest",
                rotation.size if gemm in rotation.gemms else None,
            )
            for gemm, pair in GEMM_OPERANDS.items()
            for name in pair
        }
        return Recipe(
            self.name,
            self.summary,
            operands,
            rotation.signs,
            self.keep,
            self.keep_first,
            self.keep_last,
            self.source,
            path,
        )

    def _format_of(self, operand: str) -> str:
        chosen = {str(key): value for key, value in self.formats.items()}
        tensor = operand.split(".")[0]
        return chosen.get(operand, chosen.get(tensor, self.format))

    @staticmethod
    def _covers(names: tuple[str, ...], operand: str) -> bool:
        return operand in names or operand.split(".")[0] in names


def json_schemas() -> dict[str, dict[str, Any]]:
    """The published JSON Schemas by file name."""
    schemas = {
        "format.schema.json": FormatRecord.model_json_schema(),
        "recipe.schema.json": RecipeRecord.model_json_schema(),
    }
    # An element may be a bare name, which the model turns into a record before validation.
    elements = schemas["format.schema.json"]["$defs"]
    elements["ElementRecord"]["properties"].pop("named")
    names = {"enum": [*NAMED_GRIDS, HIGH_PRECISION]}
    elements["ElementRecord"] = {"anyOf": [names, elements["ElementRecord"]]}
    return schemas


assert set(TENSORS) | set(OPERANDS) == set(TensorName.__args__)  # type: ignore[attr-defined]
