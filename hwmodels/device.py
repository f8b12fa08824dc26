"""Devices: what an accelerator multiplies, how fast, with what memory and power.

A device file states rates by the operands of the matrix unit (bf16, fp8, fp4, ...) and, under
``native``, which element with which scale and block runs at which rate. A format that is in no such
entry has no rate on that device: it runs emulated, in BF16, and no TFLOP/s is ever printed for it.
A ``what-if`` device extends another and says what it would add.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from formats import SCALE_FORMATS, BlockFormat, Grid
from formats.grid import NAMED_GRIDS
from formats.schema import Record
from formats.yamlfile import Document, YamlFileError, did_you_mean, read_document, validate
from hwmodels.figures import Figure

FOLDER = Path(__file__).parent / "devices"
BF16 = "bf16"
Status = Literal["shipping", "preliminary", "what-if"]
PathKind = Literal["native", "wider", "emulated"]


class Native(Record):
    """An operand format that a matrix unit takes: element, block scale, block length."""

    element: str
    scale: str
    block: int
    rate: str

    @model_validator(mode="after")
    def _known_names(self) -> Native:
        for name, known in ((self.element, NAMED_GRIDS), (self.scale, SCALE_FORMATS)):
            if name not in known:
                raise ValueError(f"unknown '{name}'{did_you_mean(name, known)}")
        return self

    @property
    def grid(self) -> Grid:
        """The element's grid."""
        return NAMED_GRIDS[self.element]


class Achievable(Record):
    """What real kernels reach on that device; ``calibration`` fits all but attention and launch.

    Attributes:
        compute: share of the peak in a GEMM's inner loop, by rate.
        exposed: share of the time to write a GEMM's result that nothing hides.
        attention: share of the BF16 peak in flash attention.
        bandwidth: share of the bandwidth that a copy reaches.
        passes: the same of a step's element-wise and reducing kernels, all together.
        launch: of one more kernel in a graph that is replayed, us.
        start: of a kernel that is launched and timed by itself, us.
    """

    compute: dict[str, Figure]
    exposed: Figure
    attention: Figure
    bandwidth: Figure
    passes: Figure
    launch: Figure
    start: Figure


class DeviceRecord(Record):
    """A device file; all but the name may come from the device it extends."""

    name: str
    summary: str
    extends: str | None = None
    status: Status = "what-if"
    rates: dict[str, Figure] = {}
    memory: Figure | None = None
    bandwidth: Figure | None = None
    tdp: Figure | None = None
    compute_units: Figure | None = None
    achievable: Achievable | None = None
    native: tuple[Native, ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _rates_say_dense_or_sparse(self) -> DeviceRecord:
        for rate, figure in self.rates.items():
            if figure.sparsity is None:
                raise ValueError(f"rate '{rate}' must say sparsity: dense, sparse or unstated")
        return self

    @model_validator(mode="after")
    def _units_for_what_was_reached(self) -> DeviceRecord:
        if self.achievable and not self.compute_units:
            raise ValueError("achievable needs compute_units, which a GEMM's tiles are dealt to")
        return self


@dataclass(frozen=True)
class Device:
    """A device with everything that it inherits."""

    record: DeviceRecord
    memory: Figure
    bandwidth: Figure
    path: Path

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def is_what_if(self) -> bool:
        """Whether no such part exists."""
        return self.record.status == "what-if"

    def rate(self, name: str) -> Figure:
        """The peak rate of an operand type.

        Raises:
            ValueError: the device has no such rate.
        """
        if name not in self.record.rates:
            known = ", ".join(sorted(self.record.rates))
            raise ValueError(f"device '{self.name}' has no {name} rate (it has {known})")
        return self.record.rates[name]

    def route(self, fmt: BlockFormat) -> Route:
        """How a GEMM of a format would run on this device.

        An exact entry wins; else an element all of whose levels a native element with the same
        scales has (0..7 are exact in E4M3) runs through that; else operands are decoded to BF16.
        """
        if fmt.element is None or fmt.scale is None:
            return Route("native", BF16, "BF16 operands")
        same_scale = [
            entry
            for entry in self.record.native
            if entry.scale == fmt.scale.format.name and entry.block == fmt.block[1]
        ]
        for entry in same_scale:
            if _same_codes(entry.grid, fmt.element):
                why = "if built" if self.is_what_if else "the matrix unit takes it"
                return Route("native", entry.rate, why)
        for entry in same_scale:
            if set(fmt.element.levels) <= set(entry.grid.levels):
                return Route("wider", entry.rate, f"exact as {entry.element} with the same scales")
        scale = f"{fmt.scale.format.name} scales per {fmt.block[1]}"
        why = f"no unit takes {fmt.element.name} with {scale}; decoded to BF16"
        return Route("emulated", BF16, why)


@dataclass(frozen=True)
class Route:
    """Which path a format takes on a device, at which rate, and why."""

    path: PathKind
    rate: str
    reason: str


@dataclass(frozen=True)
class Entry:
    """A line of a listing: a device's name and summary, or what is wrong with its file."""

    name: str
    summary: str
    error: str | None = None


def load_device(name_or_path: str | Path) -> Device:
    """The device of this name, or in this YAML file.

    Raises:
        ValueError: unknown name (with the nearest one), or a faulty file (file:line:column).
    """
    path = _find(str(name_or_path))
    document = read_document(path)
    own = record = validate(document, DeviceRecord)
    if record.name != path.stem:
        raise document.error(("name",), f"must equal the file's stem '{path.stem}'")
    if own.extends is not None:
        record = _merge(_base(document, own), own)
    if record.memory is None or record.bandwidth is None:
        missing = "memory" if record.memory is None else "bandwidth"
        raise document.error((missing,), "required key is missing")
    for index, native in enumerate(own.native):
        if native.rate not in record.rates:
            known = ", ".join(record.rates)
            place = ("native", index, "rate")
            raise document.error(place, f"'{native.rate}' is not among its rates ({known})")
    return Device(record, record.memory, record.bandwidth, path)


def list_devices() -> list[Entry]:
    """All built-in devices; a faulty file is listed with its error."""
    entries = []
    for path in sorted(FOLDER.glob("*.yaml")):
        try:
            entries.append(Entry(path.stem, load_device(path).record.summary))
        except YamlFileError as error:
            entries.append(Entry(path.stem, "", str(error)))
    return entries


def _find(name_or_path: str) -> Path:
    if name_or_path.endswith((".yaml", ".yml")) or os.sep in name_or_path:
        return Path(name_or_path)
    names = [path.stem for path in sorted(FOLDER.glob("*.yaml"))]
    if name_or_path not in names:
        hint = did_you_mean(name_or_path, names) or f"; known: {', '.join(names)}"
        raise ValueError(f"unknown device '{name_or_path}'{hint}")
    return FOLDER / f"{name_or_path}.yaml"


def _base(document: Document, own: DeviceRecord) -> DeviceRecord:
    """The device that another extends, by name or by a path relative to the file that names it."""
    assert own.extends is not None
    if own.status != "what-if":
        raise document.error(("status",), "a device that extends another is a what-if")
    beside = document.path.parent / own.extends
    try:
        base = load_device(
            beside if own.extends.endswith((".yaml", ".yml")) else own.extends
        ).record
    except ValueError as error:
        raise document.error(("extends",), str(error)) from error
    if base.extends is not None:
        raise document.error(
            ("extends",), f"'{own.extends}' itself extends another: one level only"
        )
    return base


def _merge(base: DeviceRecord, change: DeviceRecord) -> DeviceRecord:
    """What a what-if states goes on top; its rates and native entries are added to the base's."""
    stated = {name: getattr(change, name) for name in change.model_fields_set}
    stated["rates"] = base.rates | change.rates
    stated["native"] = base.native + change.native
    stated["status"] = "what-if"
    return base.model_copy(update=stated)


def _same_codes(one: Grid, other: Grid) -> bool:
    """Equal code books; unused codes are NaN, which equals nothing."""
    if one.bits != other.bits:
        return False
    pairs = zip(one.decode_table, other.decode_table, strict=True)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
