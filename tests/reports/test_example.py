"""The example report in docs/ is what the committed rows give."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "example-report"
RUNS = ("results/ufp4-replication", "results/hardware", "results/codesign")


@pytest.mark.parametrize("options", [("report.md",), ("report.html", "--report-js", "cdn")])
def test_the_example_is_what_its_command_makes(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markdown to the byte; HTML names the installed plotly, so only its sections are compared."""
    name, *rest = options
    monkeypatch.chdir(ROOT)
    assert bench.main(["--report", *RUNS, "-o", str(tmp_path / name), *rest]) == 0
    made, kept = ((folder / name).read_text("utf-8") for folder in (tmp_path, EXAMPLE))
    remake = f"python bench.py --report {' '.join(RUNS)} -o docs/example-report/{' '.join(options)}"
    if name == "report.md":
        assert made == kept, f"the example is out of date: {remake}"
    else:
        assert headings(made) == headings(kept), f"the example is out of date: {remake}"


def headings(html: str) -> list[str]:
    """The lines with headings of sections and tables."""
    return [line.strip() for line in html.splitlines() if "<h2" in line or "<h3" in line]


def test_the_screenshot_is_small() -> None:
    assert (EXAMPLE / "screenshot.png").stat().st_size < 300_000
