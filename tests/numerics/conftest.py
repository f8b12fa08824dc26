"""These tests are about numbers: emulation runs as it is written, for compiling takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.numerics.witnesses import COMPARED


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """That compiled emulation gives the same bits is tested in tests/kernels/test_emulate.py."""
    with torch.compiler.set_stance("force_eager"):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much each oracle was asked."""
    if COMPARED:
        terminalreporter.write_sep("-", "elements compared with each oracle")
        for name, count in sorted(COMPARED.items()):
            terminalreporter.write_line(f"{name:<20}{count:>12,}")
