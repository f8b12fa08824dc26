"""Conformance: the suite's files, and the check of other people's answers by the front door."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bench
from formats import load_format
from formats.scale import E8M0_SCALE
from suites.conformance import Conformance, ConformanceSettings
from suites.experiment import Context, Selection
from suites.vectors import format_record, vectors
from tests.numerics.witnesses import ml_dtypes_codes, torchao_mxfp4

Record = dict[str, Any]
RULES = ("floor", "rceil", "ceil", "even")


def write(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def status(path: Path) -> int:
    return bench.main(["--check", str(path)])


def test_the_suite_writes_a_file_per_format_and_our_own_answers_are_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = Conformance()
    cells = experiment.cells(ConformanceSettings(formats=["nvfp4", "mxint4"]), Selection())
    rows = [
        row
        for cell in cells
        for row in experiment.run(cell, Context("cpu", "cpu", tmp_path, tmp_path))
    ]
    assert [row.facts["file"] for row in rows] == ["vectors/nvfp4.jsonl", "vectors/mxint4.jsonl"]
    for row in rows:
        path = tmp_path / row.facts["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == row.facts["sha256"]
        assert status(path) == 0
        count = int(row.values["vectors"].value or 0)
        assert f"{count} of {count} vectors" in capsys.readouterr().out


def test_all_quantised_formats_of_the_library_by_default() -> None:
    labels = [cell.label for cell in Conformance().cells(ConformanceSettings(), Selection())]
    assert {"e2m1", "nvfp4", "mxfp4-even", "nvfp4-2d"} <= set(labels) and "bf16" not in labels


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(formats=("bf16",)), "high precision"),
        (Selection(recipes=("ufp4",)), "name them with --format"),
    ],
)
def test_what_has_no_vectors(selection: Selection, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Conformance().cells(ConformanceSettings(), selection)


@pytest.mark.parametrize(
    ("answer", "flip"),
    [
        ("codes", lambda digits: f"{int(digits, 16) ^ 1:x}"),
        ("scales", lambda digits: f"{int(digits, 16) ^ 1:02x}"),
        ("decoded", lambda digits: f"{int(digits, 16) ^ 1:08x}"),
    ],
)
def test_one_planted_wrong_bit_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str, flip: Callable[[str], str]
) -> None:
    records = list(vectors(load_format("nvfp4")))
    wrong = records[3]
    right = wrong[answer][1]
    wrong[answer][1] = flip(right)
    assert status(write(tmp_path / "answers.jsonl", records)) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"{wrong['id']}: {answer}[1]: {wrong[answer][1]}, expected {right}"
    assert told[1].endswith("1 wrong, 1 numbers differ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "nvfp4/nearest/nothing"}, "unknown vector"),
        ({"digest": "0"}, "digest of .* is not that"),
        ({"input": ["00000000"]}, "input of .* is not that"),
        ({"codes": ["0"]}, "codes of .* has 1 numbers"),
        ({"format": "nvpf4"}, "did you mean 'nvfp4'"),
        ({"format": None}, "an 'id' and a 'format'"),
        ({"record": "row"}, "'record' must be"),
    ],
)
def test_what_is_no_answer_is_an_input_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Record, message: str
) -> None:
    first = next(vectors(load_format("nvfp4")))
    assert status(write(tmp_path / "answers.jsonl", [{**first, **change}])) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


def test_a_file_without_answers_is_an_input_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = write(tmp_path / "answers.jsonl", [format_record(load_format("nvfp4"))])
    assert status(empty) == 2
    bare = {"record": "vector", "id": "nvfp4/nearest/levels-max", "format": "nvfp4"}
    assert status(write(empty, [bare])) == 2
    empty.write_text("{")
    assert status(empty) == 2
    assert status(tmp_path / "nowhere.jsonl") == 2
    told = capsys.readouterr().err
    for part in ("no vector is answered", "has none of", ":1:2: not JSON", "cannot be read"):
        assert part in told


def inputs(vector: Record) -> torch.Tensor:
    values = [struct.unpack(">f", bytes.fromhex(bits))[0] for bits in vector["input"]]
    return torch.tensor(values).view(vector["shape"])


def wrong_vectors(path: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Sections of the vectors that a file of answers fails, by what the check prints."""
    capsys.readouterr()
    assert status(path) == 1
    return {line.split(":")[0].split("/")[2] for line in capsys.readouterr().out.splitlines()[:-1]}


@pytest.mark.parametrize("rule", RULES)
def test_torchao_answers_all_but_two_sections_as_we_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    fmt = load_format(f"mxfp4-{rule}")
    answers: dict[str, Record] = {}
    for vector in vectors(fmt):
        if vector["rounding"] == "nearest":
            codes, scales = torchao_mxfp4(inputs(vector), rule)
            answers[vector["id"].split("/")[2]] = {
                "record": "vector",
                "id": vector["id"],
                "format": fmt.name,
                "codes": [f"{code:x}" for code in codes.flatten().tolist()],
                "scales": [f"{byte:02x}" for byte in scales.flatten().tolist()],
            }
    odd = {"subnormal", "non-finite"}
    agreed = [answer for section, answer in answers.items() if section not in odd]
    assert status(write(tmp_path / "agreed.jsonl", agreed)) == 0
    for section in odd:
        path = write(tmp_path / f"{section}.jsonl", [answers[section]])
        assert wrong_vectors(path, capsys) == {section}


def test_ml_dtypes_answers_all_codes_as_we_do(tmp_path: Path) -> None:
    """It has no blocks: it is given t, the input over the scale, which is exact for E8M0."""
    fmt = load_format("mxfp4-even")
    values = np.array(E8M0_SCALE.values)
    answers = []
    for vector in vectors(fmt):
        section = vector["id"].split("/")[2]
        if vector["rounding"] == "nearest" and section != "non-finite":
            scales = np.repeat(values[[int(byte, 16) for byte in vector["scales"]]], 32)
            t = inputs(vector).double().numpy().reshape(-1) / scales
            codes = ml_dtypes_codes(t.astype(np.float32), "float4_e2m1fn")
            answer = {"record": "vector", "id": vector["id"], "format": fmt.name}
            answers.append({**answer, "codes": [f"{code:x}" for code in codes.tolist()]})
    assert len(answers) > 10
    assert status(write(tmp_path / "answers.jsonl", answers)) == 0
