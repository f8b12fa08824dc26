"""Measured: times taken on a real device, as data/*-measured.yaml keeps them.

Each time is marked ``fit`` or ``check``. ``calibration`` sees the first kind only, and the errors
that count are those of the second. To put in new times is to edit that file, and then what
``python -m hwmodels.calibration`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from formats import load_recipe
from formats.schema import Record
from formats.yamlfile import did_you_mean, load_yaml
from hwmodels.device import BF16, Device
from hwmodels.piece import Piece
from hwmodels.throughput import layer_pieces
from hwmodels.workload import BF16_BYTES, Linear, ModelShape

FOLDER = Path(__file__).parent / "data"
FP8_BYTES = 1
Use = Literal["fit", "check"]


class Timing(Record):
    """A median time and what it is used for."""

    time_us: float = Field(gt=0)
    use: Use = "check"


class MeasuredCopy(Timing):
    """A copy within the device's memory: so much read, and as much written."""

    mib: float = Field(gt=0)

    @property
    def bytes(self) -> float:
        """Read and written together."""
        return 2 * self.mib * 2**20


class MeasuredGemm(Timing):
    """One GEMM; both operands of the named type, BF16 result.

    Attributes:
        accumulation: of FP8, "fast" where the matrix unit's own adder is never promoted to FP32.
    """

    m: int = Field(gt=0)
    n: int = Field(gt=0)
    k: int = Field(gt=0)
    operands: Literal["bf16", "fp8"]
    accumulation: Literal["fp32", "fast"] = "fp32"

    @property
    def label(self) -> str:
        """What is multiplied, and how."""
        return self.operands if self.accumulation == "fp32" else f"{self.operands}, fast"

    @property
    def piece(self) -> Piece:
        """The GEMM as the model sees it, the same on every device."""
        width = BF16_BYTES if self.operands == BF16 else FP8_BYTES
        moved = width * self.k * (self.m + self.n) + BF16_BYTES * self.m * self.n
        shape = (self.m, self.n, self.k)
        flops = 2.0 * self.m * self.n * self.k
        return Piece("gemm", "gemm", flops, self.operands, float(moved), 1, "gemm", shape)


class MeasuredLayer(Timing):
    """One linear layer forward and backward: three GEMMs, operands quantised."""

    rows: int = Field(gt=0)
    out_features: int = Field(gt=0)
    in_features: int = Field(gt=0)
    recipe: str

    def pieces(self, device: Device) -> Iterator[Piece]:
        """The layer's GEMMs and quantisers on a device."""
        linear = Linear("layer", self.out_features, self.in_features, 1, self.rows)
        yield from layer_pieces(device, linear, load_recipe(self.recipe))


class MeasuredStep(Timing):
    """One training step of one of the file's models under a recipe."""

    model: str
    tokens: int = Field(gt=0)
    recipe: str
    optimiser: Literal["adamw"] | None = None


class Measured(Record):
    """Times of one device: where, when and with what they were taken."""

    device: str
    source: str
    date: str
    copies: tuple[MeasuredCopy, ...] = ()
    gemms: tuple[MeasuredGemm, ...] = ()
    layers: tuple[MeasuredLayer, ...] = ()
    models: tuple[ModelShape, ...] = ()
    passes: MeasuredStep | None = None
    steps: tuple[MeasuredStep, ...] = ()

    @model_validator(mode="after")
    def _steps_of_known_models(self) -> Measured:
        names = [model.name for model in self.models]
        for step in (*self.steps, *([self.passes] if self.passes else [])):
            if step.model not in names:
                hint = did_you_mean(step.model, names)
                raise ValueError(f"steps of '{step.model}', which is not among models{hint}")
        return self

    def shape(self, step: MeasuredStep) -> ModelShape:
        """The model of a step, with that step's tokens."""
        (model,) = (model for model in self.models if model.name == step.model)
        return model.model_copy(update={"tokens": step.tokens})


def load_measured() -> list[Measured]:
    """All measured files."""
    return [load_yaml(path, Measured) for path in sorted(FOLDER.glob("*-measured.yaml"))]
