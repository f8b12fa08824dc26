"""cpu: what is built, and what is said where nothing can be; its numbers are in test_emulate."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import cpu
from kernels.cpu import cpu_path


def test_the_path_says_why_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cpu, "_library", cpu._library.__wrapped__)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    found = cpu_path.__wrapped__()
    assert found.name == "torch"
    assert "no C compiler found (cc, gcc, clang)" in found.reason
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cc: no such thing' >&2\nexit 1\n")
    broken.chmod(0o755)
    assert cpu_path.__wrapped__().reason == "the fused path was not built: cc: cc: no such thing"
