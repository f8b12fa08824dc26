"""A run folder keeps what was finished, whatever happened to the process."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from suites.experiment import Cell
from suites.rows import Row, measured
from suites.store import RESULTS, check_out, open_store, read_run

CELLS = [Cell("tiny", f"cell {index}", {"index": index}) for index in range(3)]


def rows(cell: Cell, count: int = 2) -> list[Row]:
    value = measured(float(cell.config["index"]), "nats/token")
    return [Row(kind="training", config={"n": n}, values={"loss": value}) for n in range(count)]


def write(folder: Path, *cells: Cell) -> Path:
    with open_store(folder) as store:
        for cell in cells:
            store.append(cell, rows(cell), seconds=1.0)
        store.write_summary("ok", cells, [])
    return folder / RESULTS


def test_rows_come_back_with_the_key_of_their_cell(tmp_path: Path) -> None:
    write(tmp_path, *CELLS)
    found = read_run(tmp_path).rows
    assert [row.key for row in found] == [cell.key for cell in CELLS for _ in range(2)]
    assert [row.config["n"] for row in found] == [0, 1] * 3


def test_a_finished_cell_is_known_and_a_failed_one_is_not_finished(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(CELLS[0], rows(CELLS[0]), seconds=1.0)
        store.append(CELLS[1], [], seconds=1.0, error="RuntimeError: no luck")
    with open_store(tmp_path) as store:
        assert [store.is_finished(cell) for cell in CELLS] == [True, False, False]
        failure = store.rows(CELLS)[-1]
    assert (failure.kind, failure.status, failure.error) == (
        "cell",
        "failed",
        "RuntimeError: no luck",
    )
    assert failure.config["label"] == "cell 1"


def test_the_last_attempt_wins(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(CELLS[0], [], seconds=1.0, error="no luck")
        store.append(CELLS[0], rows(CELLS[0], 1), seconds=1.0)
    with open_store(tmp_path) as store:
        assert [row.kind for row in store.rows(CELLS)] == ["training"]


def test_B122_an_attempt_that_was_cut_off_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = write(tmp_path, CELLS[0])
    whole = results.read_bytes()
    for kept in range(1, len(whole)):
        results.write_bytes(whole[:kept])
        with caplog.at_level(logging.WARNING), open_store(tmp_path) as store:
            assert store.attempts == {}
            store.append(CELLS[0], rows(CELLS[0]), seconds=1.0)
        found = read_run(tmp_path).rows
        assert [row.config["n"] for row in found] == [0, 1]
        assert results.read_bytes().startswith(whole[: whole.rfind(b"\n", 0, kept) + 1])
    assert "half a line" in caplog.text


def test_B122_an_empty_file_is_a_fresh_start(tmp_path: Path) -> None:
    (tmp_path / RESULTS).touch()
    write(tmp_path, CELLS[0])
    assert len(read_run(tmp_path).rows) == 2


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\n", b'{"kind": NaN}\n', b"\xff\n", b"\0\0\n"])
def test_B122_damage_in_the_middle_names_the_line(tmp_path: Path, garbage: bytes) -> None:
    results = write(tmp_path, *CELLS)
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join([*lines[:4], garbage, *lines[4:]]))
    damaged = results.read_bytes()
    with pytest.raises(ValueError, match=rf"{RESULTS}:5: damaged"), open_store(tmp_path):
        pass
    with pytest.raises(ValueError, match=rf"{RESULTS}:5: damaged"):
        read_run(tmp_path)
    assert results.read_bytes() == damaged


def test_B122_a_line_that_is_gone_is_missed(tmp_path: Path) -> None:
    results = write(tmp_path, *CELLS)
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[:3] + lines[4:]))
    with pytest.raises(ValueError, match=rf"{RESULTS}:5: damaged: 2 rows"):
        read_run(tmp_path)


def test_B118_every_file_is_strict_json(tmp_path: Path) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    with open_store(tmp_path) as store:
        row = Row(kind="training", values={"loss": measured(float("nan"), "nats/token")})
        store.append(CELLS[0], [row], seconds=float("inf"))
        store.write_summary("ok", CELLS, [row])
    texts = [
        *(tmp_path / RESULTS).read_text().splitlines(),
        (tmp_path / "summary.json").read_text(),
    ]
    for text in texts:
        json.loads(text, parse_constant=refuse)


def test_a_run_shows_the_cells_of_its_last_plan_only(tmp_path: Path) -> None:
    write(tmp_path, *CELLS)
    write(tmp_path, CELLS[2])
    with open_store(tmp_path) as store:
        store.write_summary("ok", [CELLS[2]], [Row(kind="comparison")])
    assert [row.kind for row in read_run(tmp_path).rows] == ["training", "training", "comparison"]


def test_a_second_process_is_locked_out(tmp_path: Path) -> None:
    with (
        open_store(tmp_path),
        pytest.raises(ValueError, match="another process"),
        open_store(tmp_path),
    ):
        pass
    with open_store(tmp_path):
        pass


def test_a_folder_without_results_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a run folder"):
        read_run(tmp_path)


def test_out_is_checked_without_creating_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_out(tmp_path / "new" / "folder")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="is a file"):
        check_out(tmp_path / "file" / "below")
