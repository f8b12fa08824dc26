import time

import pytest

from formats.grid import E2M1
from hwmodels import synthesis
from hwmodels.circuit import DotUnit
from hwmodels.codebook import CodeBook


def test_a_missing_tool_says_what_to_install(monkeypatch):
    synthesis.tool_version.cache_clear()
    monkeypatch.setattr(synthesis, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"pip install 'gridbench\[synth\]'"):
        synthesis.tool_version()


def test_a_tool_error_is_one_line(osu018):
    class Broken:
        name, inputs, verilog = "broken", (), "module unit(; endmodule"

    with pytest.raises(ValueError, match="synthesis of broken failed") as raised:
        synthesis.synthesise(Broken(), osu018)
    assert "\n" not in str(raised.value)


def test_a_unit_takes_less_than_ten_seconds(osu018):
    started = time.perf_counter()
    synthesis.synthesise(DotUnit((CodeBook.from_grid(E2M1),), 16), osu018)
    assert time.perf_counter() - started < 10
