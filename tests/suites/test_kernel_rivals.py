"""Rivals are timed beside ours; what is missing or broken is a row and no failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import main
from suites import kernel_speed, rivals
from suites.catalog import load_suite, resolve_settings
from suites.experiment import Cell, Context, Selection
from suites.kernel_speed import KernelSpeed, KernelSpeedSettings
from suites.rows import Row
from tests.numerics.witnesses import witness

# Of microxcaling's modules, with its names, what is called: it rounds to multiples of a quarter.
FAKE = {
    "__init__": "raise ImportError('it would import what nobody needs here')",
    "specs": "def finalize_mx_specs(specs):\n    return specs\n",
    "mx_ops": """
def quantize_mx_op(A, mx_specs, elem_format=None, block_size=None, axes=None, round='nearest'):
    assert mx_specs['block_size'] == 32 and elem_format == 'fp4_e2m1' and axes == [-1]
    return (A * 4).round() / 4
""",
    "linear": """
import torch
f_linear = torch_matmul = None
class Linear(torch.nn.Linear):
    def __init__(self, in_features, out_features, bias=True, mx_specs=None, name=None):
        super().__init__(in_features, out_features, bias)
    def forward(self, inputs):
        return f_linear((inputs * 4).round() / 4 + (inputs - inputs.detach()), self.weight)
""",
}
TINY = {
    "formats": [],
    "recipes": [],
    "tensors": [[64, 64]],
    "layers": [[64, 32, 64]],
    "inputs": 1,
    "repeats": 2,
}


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds a package `mx`, forgotten after the test."""
    (tmp_path / "mx").mkdir()
    for name, text in FAKE.items():
        (tmp_path / "mx" / f"{name}.py").write_text(text)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "mx"]:
        del sys.modules[name]


def cells(selection: Selection | None = None, **settings) -> list[Cell]:
    return KernelSpeed().cells(
        KernelSpeedSettings.model_validate(TINY | settings), selection or Selection()
    )


def run(cell: Cell, folder: Path) -> Row:
    (row,) = KernelSpeed().run(cell, Context("cpu", "cpu", folder, folder))
    return row


def by_mode(found: list[Cell], mode: str) -> list[Cell]:
    return [cell for cell in found if cell.config["mode"] == mode]


def test_only_the_profile_for_gpus_names_rivals() -> None:
    for device, named in (("cpu", []), ("cuda", ["torchao"])):
        settings = resolve_settings(load_suite("kernels"), KernelSpeedSettings, device, [])
        assert settings.rivals == named


@pytest.mark.parametrize("setting", ["rivals=[torcho]", "rival_paths.torcho=here"])
def test_an_unknown_rival_is_one_line_with_the_nearest_name(setting: str) -> None:
    with pytest.raises(
        ValueError, match="unknown rival 'torcho'; did you mean 'torchao'"
    ) as caught:
        resolve_settings(load_suite("kernels"), KernelSpeedSettings, "cpu", [setting])
    assert "\n" not in str(caught.value)


def test_a_folder_without_the_rival_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rival_paths.fouroversix: .* 'fouroversix'"):
        cells(rival_paths={"fouroversix": str(tmp_path)})


def test_every_offer_is_of_an_operation_of_ours_and_has_its_cells() -> None:
    for name, rival in rivals.RIVALS.items():
        found = cells(rivals=[name])
        assert len({cell.label for cell in found}) == len(found)
        assert len(found) == sum(len(offer.modes) for offer in rival.offers)


def test_a_selection_narrows_rivals_as_it_narrows_ours() -> None:
    found = cells(Selection(formats=("nvfp4",), recipes=("ufp4",)), rivals=["torchao"])
    assert {cell.config.get("format") for cell in found if "rival" in cell.config} == {"nvfp4"}


def test_what_is_not_installed_is_a_row_that_says_what_to_install(tmp_path, monkeypatch) -> None:
    missing = KernelSpeed()
    monkeypatch.setattr(kernel_speed, "find_version", lambda name, folder: None)
    before = cells(rivals=["torchao"])
    rows = [
        row for cell in before for row in missing.run(cell, Context("cpu", "cpu", *2 * [tmp_path]))
    ]
    assert all(row.status == "ok" for row in rows)
    for row in rows:
        assert row.values["time_us"].status == "unavailable"
        assert row.facts["reason"] == "not installed: pip install torchao"
    monkeypatch.setattr(kernel_speed, "find_version", lambda name, folder: "0.18.0")
    after = cells(rivals=["torchao"])
    assert not {cell.key for cell in before} & {cell.key for cell in after}


def test_a_rival_on_a_path_is_timed_beside_the_roof_and_beside_ours(fake: Path) -> None:
    places = list(sys.path)
    found = by_mode(cells(rival_paths={"microxcaling": str(fake)}), "eager")
    rows = [run(cell, fake) for cell in found]
    assert [row.config["operation"] for row in rows] == [rivals.NEAREST_ROWS, rivals.LAYER]
    assert rows[0].values["share_of_roof"].value > 0 < rows[1].values["times_roof"].value
    for row in rows:
        assert row.facts["path"] == "microxcaling of unknown version, eager"
        assert row.facts["reason"] and row.facts["roof"]
        assert row.values["times_ours"].value > 0
        assert 5 < row.values["sqnr_db"].value < 40
        assert row.values["our_sqnr_db"].value > 10
        assert 0 < row.values["distance_from_ours"].value < 0.5
    assert sys.path == places


def test_a_rival_that_computes_nonsense_is_seen_in_its_row(fake: Path) -> None:
    text = FAKE["mx_ops"].replace("(A * 4).round() / 4", "A * 0")
    (fake / "mx" / "mx_ops.py").write_text(text)
    row = run(by_mode(cells(rival_paths={"microxcaling": str(fake)}), "eager")[0], fake)
    assert row.values["sqnr_db"].value == 0.0
    assert row.values["distance_from_ours"].value == 1.0


def test_a_rival_that_raises_or_needs_a_gpu_is_a_row_and_the_rest_goes_on(
    fake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FAKE["mx_ops"].replace("return", "raise AttributeError('no such thing')\n    return")
    (fake / "mx" / "mx_ops.py").write_text(text)
    settings = (*TINY.items(), ("rival_paths.microxcaling", fake))
    options = [word for name, value in settings for word in ("--set", f"{name}={value}")]
    status = main(["--suite", "kernels", "--device", "cpu", "--out", str(tmp_path / "o"), *options])
    out = capsys.readouterr().out
    assert status == 0
    assert "AttributeError: no such thing" in out and "ValueError: this mode needs a GPU" in out
    assert "microxcaling of unknown version, eager" in out


@pytest.mark.usefixtures("wrong_emulation")
def test_ours_being_wrong_is_a_failure_and_no_rival_is_blamed(fake: Path) -> None:
    with pytest.raises(ValueError, match="1 values differ from the reference"):
        run(cells(rival_paths={"microxcaling": str(fake)})[0], fake)


def test_torchao_computes_what_ours_computes(tmp_path: Path) -> None:
    witness("torchao")
    found = by_mode(cells(rivals=["torchao"]), "eager")
    rows = {row.config["format"]: row for row in (run(cell, tmp_path) for cell in found)}
    assert set(rows) == {"nvfp4", "mxfp4-rceil", "mxfp4"}
    distance = {name: row.values["distance_from_ours"].value for name, row in rows.items()}
    assert distance["mxfp4-rceil"] == 0.0
    assert 0 < distance["nvfp4"] < 0.01
    # Its layer rounds to nearest where ours draws: as far apart as two roundings are.
    assert 0.1 < distance["mxfp4"] < 0.4
    assert rows["mxfp4"].values["sqnr_db"].value > 12
