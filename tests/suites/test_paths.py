"""The listing of devices says for every format how it is multiplied where, and why."""

from __future__ import annotations

import pytest

from bench import main
from formats import list_formats
from kernels.targets import INSTRUCTIONS
from suites.paths import paths_by_format


@pytest.mark.parametrize("here", ["cpu", "sm_90", "sm_100"])
def test_every_format_has_one_path_and_a_reason_for_every_target(here: str) -> None:
    rows = paths_by_format(here)
    for entry in list_formats():
        mine = [(path, targets) for name, path, targets in rows if name == entry.name]
        assert sorted(t for _, targets in mine for t in targets) == sorted(
            {here, "sm_90", *INSTRUCTIONS}
        )
        assert all(path.reason for path, _ in mine)


def test_the_command_line_shows_the_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "devices"]) == 0
    out = capsys.readouterr().out
    assert "NVIDIA H200" in out and "(here)" in out
    assert "tcgen05.mma kind::mxf4nvf4" in out
    assert "no block-scaled instruction is known for sm_90" in out
    assert "operands are quantised here by" in out
    assert "BF16 products take in tensor scales by" in out
