"""The result row: the one type of data that crosses every border of Gridbench.

An experiment yields rows, the store appends them as JSON lines, reports and comparisons are made
from them alone. Two rules make a row worth arguing about:

* every number is a `Quantity`: a value with its unit and its *origin*. `measured` was observed on
  the machine that ran, `emulated` is the exact numerics of a format computed on other hardware,
  `modelled` comes from a cost model, `published` is somebody else's figure;
* a row is strict JSON. NaN and infinity are not JSON, so they become `null` plus a status that says
  why.

Rows of another schema version stay readable: unknown fields are ignored and what is missing or
unreadable reads as "n/a", never as zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

SCHEMA_VERSION = 1

Origin = Literal["measured", "emulated", "modelled", "published"]


def _finite(value: Any) -> Any:
    """Replace every NaN or infinity inside a JSON-like value by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


StrictJson = Annotated[dict[str, Any], BeforeValidator(_finite)]
Numbers = Annotated[list[float | None], BeforeValidator(_finite)]


class Quantity(BaseModel):
    """A number with its unit, its origin and, where there is no number, the reason.

    `status` is "ok", "diverged" (the value was NaN or infinite), "unavailable" (nothing could be
    observed here) or "not_resolved" (smaller than what this budget can tell from noise).
    """

    model_config = ConfigDict(frozen=True)

    value: float | None
    unit: str
    origin: Origin
    status: str = "ok"
    note: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_what_is_missing(cls, data: Any) -> Any:
        value = data.get("value") if isinstance(data, dict) else None
        if isinstance(value, int | float) and not math.isfinite(value):
            return {**data, "value": None, "status": "diverged"}
        if isinstance(data, dict) and value is None and data.get("status", "ok") == "ok":
            return {**data, "status": "unavailable"}
        return data


def measured(value: float | None, unit: str, note: str | None = None) -> Quantity:
    """Something observed on the machine that ran."""
    return Quantity(value=value, unit=unit, origin="measured", note=note)


def emulated(value: float | None, unit: str, note: str | None = None) -> Quantity:
    """The exact numerics of a format, computed on hardware that does not have it."""
    return Quantity(value=value, unit=unit, origin="emulated", note=note)


def modelled(value: float | None, unit: str, note: str | None = None) -> Quantity:
    """The result of a cost model."""
    return Quantity(value=value, unit=unit, origin="modelled", note=note)


def published(value: float | None, unit: str, note: str | None = None) -> Quantity:
    """A figure from a data sheet or paper; `note` names the source."""
    return Quantity(value=value, unit=unit, origin="published", note=note)


# What a row that sums up over layers, steps and seeds says in their place.
ALL = "all"
NOT_AVAILABLE = Quantity(value=None, unit="", origin="measured", status="unavailable")


class Series(BaseModel):
    """One curve: y over x, where NaN and infinity are holes (None)."""

    model_config = ConfigDict(frozen=True)

    x: Numbers
    y: Numbers
    x_label: str
    y_label: str
    unit: str = ""


class Row(BaseModel):
    """One result: what was run (`config`), what came out (`values`, `series`) and how (`facts`).

    `kind` names the table that the row belongs to ("training", "fidelity", "bias", ...). `key` is
    the key of the cell that made it; the store fills it in. `status` is "ok", "failed" or
    "diverged".
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA_VERSION
    kind: str
    key: str = ""
    status: Literal["ok", "failed", "diverged"] = "ok"
    config: StrictJson = Field(default_factory=dict)
    values: dict[str, Quantity] = Field(default_factory=dict)
    facts: StrictJson = Field(default_factory=dict)
    series: dict[str, Series] = Field(default_factory=dict)
    error: str | None = None

    def quantity(self, name: str) -> Quantity:
        """The value of that name, or an "unavailable" one when the row does not have it."""
        return self.values.get(name, NOT_AVAILABLE)

    def to_json(self) -> str:
        """One line of strict JSON with sorted keys, so that equal rows are equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, allow_nan=False)


def known_values(rows: Iterable[Row], name: str) -> list[float]:
    """The values of that name that are there."""
    return [value for row in rows if (value := row.quantity(name).value) is not None]


def read_row(line: str) -> Row:
    """Parse one JSON line of any schema version.

    Args:
        line: a JSON object. `schema_version` is checked: fields that this version does not know are
            ignored, quantities that it cannot read become "unavailable".

    Raises:
        ValueError: the line is not strict JSON, or not a row at all.
    """
    data = json.loads(line, parse_constant=_refuse_constant)
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise ValueError("not a result row: a JSON object with a 'kind' is expected")
    version = data.get("schema_version", 0)
    if version != SCHEMA_VERSION:
        data["values"] = _readable(Quantity, data.get("values"), NOT_AVAILABLE)
        data["series"] = _readable(Series, data.get("series"), None)
        data = {**data, "schema_version": version if isinstance(version, int) else 0}
    try:
        return Row.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"not a result row: {where}: {first['msg']}") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _readable(model: type[BaseModel], items: Any, otherwise: BaseModel | None) -> dict[str, Any]:
    """The items that `model` can read; the others become `otherwise` (None: left out)."""
    readable: dict[str, Any] = {}
    for name, item in items.items() if isinstance(items, dict) else ():
        try:
            readable[name] = model.model_validate(item)
        except ValidationError:
            if otherwise is not None:
                readable[name] = otherwise
    return readable
