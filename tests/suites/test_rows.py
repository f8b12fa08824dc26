"""Rows are strict JSON, and those of other versions stay readable."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from suites.rows import Quantity, Row, Series, emulated, measured, modelled, published, read_row


def refuse(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_B118_what_is_not_finite_becomes_null_and_a_status(value: float) -> None:
    row = Row(
        kind="training",
        config={"lr": value},
        values={"validation_loss": measured(value, "nats/token")},
        facts={"list": [1.0, value], "nested": {"a": value}},
        series={"loss": Series(x=[1, 2], y=[value, 3], x_label="step", y_label="loss")},
    )
    data = json.loads(row.to_json(), parse_constant=refuse)
    assert data["values"]["validation_loss"]["value"] is None
    assert data["values"]["validation_loss"]["status"] == "diverged"
    assert data["series"]["loss"]["y"] == [None, 3]
    assert data["facts"] == {"list": [1.0, None], "nested": {"a": None}}


def test_a_missing_value_has_a_reason() -> None:
    assert measured(None, "J").status == "unavailable"
    assert Quantity(value=None, unit="J", origin="measured", status="not_resolved").value is None


@pytest.mark.parametrize("make", [measured, emulated, modelled, published])
def test_helpers_are_named_by_origin(make) -> None:
    quantity = make(1.5, "s", note="source")
    assert (quantity.value, quantity.unit, quantity.note) == (1.5, "s", "source")
    assert quantity.origin == make.__name__


def test_a_number_needs_a_known_origin() -> None:
    with pytest.raises(ValidationError):
        Quantity(value=1.0, unit="s", origin="guessed")


def test_rows_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Row(kind="training").kind = "bias"


@given(
    st.dictionaries(st.text(), st.floats() | st.integers() | st.text() | st.none()),
    st.floats(),
)
def test_reading_gives_back_what_was_written(config: dict, value: float) -> None:
    row = Row(kind="bias", key="k", config=config, values={"gain": emulated(value, "")})
    assert read_row(row.to_json()) == row
    assert "\n" not in row.to_json()


def test_B128_missing_fields_read_as_not_available() -> None:
    old = read_row('{"kind": "training", "values": {"loss": 3.0, "time": {"value": 1}}}')
    assert old.schema_version == 0
    for name in ("loss", "time", "absent"):
        assert (old.quantity(name).value, old.quantity(name).status) == (None, "unavailable")


def test_B128_unknown_fields_of_a_newer_version_are_ignored() -> None:
    new = {
        "kind": "training",
        "schema_version": 99,
        "invented": {},
        "values": {"loss": {"value": 3.0, "unit": "nats", "origin": "measured", "sigma": 0.1}},
        "series": {"loss": {"points": []}},
    }
    row = read_row(json.dumps(new))
    assert row.quantity("loss").value == 3.0
    assert (row.schema_version, row.series) == (99, {})


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "{}", '{"kind": 1}', '{"kind": "x", "config": NaN}']
)
def test_what_is_not_a_row_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        read_row(line)


def test_a_row_of_this_version_is_read_strictly() -> None:
    with pytest.raises(ValueError, match="values.loss"):
        read_row('{"kind": "training", "schema_version": 1, "values": {"loss": 3.0}}')
