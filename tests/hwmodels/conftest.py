from pathlib import Path

import pytest

from hwmodels.liberty import Library, load_liberty
from hwmodels.synthesis import is_available

OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")


@pytest.fixture(scope="session")
def osu018() -> Library:
    """Debian's 0.18 um library; without it or the synthesis tool, circuits cannot be built here."""
    if not OSU018.is_file() or not is_available():
        pytest.skip("needs qflow-tech-osu018 and pyosys")
    return load_liberty(OSU018)
