"""These tests are about numbers: emulation runs as it is written, for compiling takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """That compiled emulation gives the same bits is tested in tests/kernels/test_emulate.py."""
    with torch.compiler.set_stance("force_eager"):
        yield
