from __future__ import annotations

import math

import pytest

from reports.table import Cell, Column, Table, common_unit, number_cell, significant, text_cell
from suites.rows import Quantity, emulated, measured, modelled


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234567.0, "1,235,000"),
        (0.01234567, "0.01235"),
        (-0.5, "-0.5000"),
        (99.996, "100.00"),
        (3e-7, "3.000e-07"),
        (4e12, "4.000e+12"),
    ],
)
def test_four_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_a_number_keeps_value_origin_and_note() -> None:
    cell = number_cell(measured(1.25, "s", "median of 9"), ".1f")
    assert cell == Cell("1.2", 1.25, "measured", "ok", "median of 9")
    assert cell.is_number


def test_B118_a_loss_that_is_not_a_number_reads_diverged() -> None:
    cell = number_cell(emulated(math.nan, "nats/token"))
    assert (cell.text, cell.value, cell.status) == ("diverged", None, "diverged")


def test_B97_no_data_is_a_word_and_never_a_zero() -> None:
    nothing = Quantity(value=None, unit="J", origin="measured", note="no counter")
    cell = number_cell(nothing)
    assert (cell.text, cell.note, cell.is_number) == ("unavailable", "no counter", False)


def test_B128_a_missing_quantity_is_not_available() -> None:
    assert number_cell(None).text == "n/a"
    assert number_cell(None, absent="failed").text == "failed"


def test_text_of_facts() -> None:
    texts = [text_cell(value).text for value in (True, ["a", "b"], 0.4, 3, None, "x")]
    assert texts == ["yes", "a, b", "0.4", "3", "n/a", "x"]


def test_a_long_list_is_counted_and_spelled_out_on_demand() -> None:
    cell = text_cell([f"layer {i}" for i in range(6)])
    assert cell.text == "6: layer 0, ..."
    assert cell.note is not None and cell.note.endswith("layer 5")


def test_a_unit_is_common_or_absent() -> None:
    assert common_unit([measured(1, "um2"), modelled(2, "um2"), None]) == "µm²"
    assert common_unit([measured(1, "s"), measured(1, "ms")]) == ""
    assert common_unit([emulated(1, "1")]) == ""


def make_table() -> Table:
    rows = (
        (Cell("a"), Cell("n/a"), Cell("same"), Cell("1.0", 1.0, "emulated")),
        (Cell("b"), Cell("n/a"), Cell("same"), Cell("2.0", 2.0, "measured")),
    )
    return Table("t", "T", tuple(map(Column, ("name", "empty", "device", "loss"))), rows, "Note.")


def test_columns_without_anything_go() -> None:
    table = make_table().without_empty_columns()
    assert [column.title for column in table.columns] == ["name", "device", "loss"]


def test_columns_that_always_say_the_same_become_a_note() -> None:
    table = make_table().without_empty_columns().with_constants_noted()
    assert [column.title for column in table.columns] == ["name", "loss"]
    assert table.note == "Note. In all lines: device same."


def test_origins_come_in_a_fixed_order() -> None:
    assert make_table().origins(3) == ("measured", "emulated")
    assert make_table().all_origins() == ("measured", "emulated")
