from __future__ import annotations

import json
import re
from pathlib import Path

import html5lib
import plotly.graph_objects as go
import pytest

from reports import write_report
from reports.page import embed, render
from reports.section import Figure
from reports.sections import ordered
from reports.table import ORIGINS
from suites.rows import Row
from tests.reports.rows_fixture import ENVIRONMENTS, HOSTILE, all_rows, comparison, hostile_rows


def figures(rows: list[Row]) -> list[Figure]:
    parts = [part for section in ordered(rows, ENVIRONMENTS) for part in section.parts]
    return [part for part in parts if isinstance(part, Figure)]


@pytest.mark.parametrize("figure", figures(all_rows()), ids=lambda figure: figure.id)
def test_figures_are_valid_plotly(figure: Figure) -> None:
    go.Figure(data=figure.data, layout=figure.layout)
    assert figure.table and figure.description and figure.title


def test_equal_rows_give_equal_bytes() -> None:
    pages = [render(all_rows(), ENVIRONMENTS, "directory") for _ in range(2)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("rows", [all_rows(), hostile_rows(), []], ids=["all", "hostile", "none"])
def test_html_is_valid(rows: list[Row]) -> None:
    page = render(rows, ENVIRONMENTS, "directory")
    html5lib.HTMLParser(strict=True).parse(page)
    ids = re.findall(r'\sid="([^"]*)"', page.split("<script", 1)[0])
    assert len(ids) == len(set(ids))


def test_B116_plotly_is_there_once_and_the_file_is_small(tmp_path: Path) -> None:
    write_report(all_rows(), ENVIRONMENTS, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count("plotly.js v") == 1
    assert not re.search(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]", page)
    assert (tmp_path / "r.html").stat().st_size < 6e6


def test_the_library_can_lie_beside_the_file(tmp_path: Path) -> None:
    write_report(all_rows(), ENVIRONMENTS, tmp_path / "r.html", js="directory")
    assert (tmp_path / "plotly.min.js").stat().st_size > 4e6
    assert (tmp_path / "r.html").stat().st_size < 1e6


def test_a_page_that_needs_a_network_says_so_and_checks_what_it_gets() -> None:
    page = render(all_rows(), ENVIRONMENTS, "cdn")
    assert 'integrity="sha256-' in page
    assert "need a network connection" in page


def test_another_way_of_embedding_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not one of inline, cdn, directory"):
        write_report([], [], tmp_path / "r.html", js="other")


def test_embedded_data_cannot_end_its_script_element_and_comes_back() -> None:
    data = {"name": [*HOSTILE, "\u2028", "<!--"]}
    text = str(embed(data))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data


def test_B118_embedded_data_is_strict_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed({"loss": float("nan")})


def test_hostile_text_is_escaped() -> None:
    page = render(hostile_rows(), ENVIRONMENTS, "directory")
    assert "<img src=x" not in page
    assert "<script>stolen" not in page
    assert "формат" in page


def test_sections_without_data_are_named_with_what_would_fill_them() -> None:
    page = render(list(comparison()), ENVIRONMENTS, "directory")
    missing = page.split('id="missing"', 1)[1]
    assert "Circuits" in missing and "--suite hardware" in missing
    assert 'href="#circuits"' not in page


def test_every_number_wears_its_origin() -> None:
    page = render(all_rows(), ENVIRONMENTS, "directory")
    cells = re.findall(r"<t[dh][^>]*data-value=[^>]*>", page)
    assert len(cells) > 500
    assert all(re.search(f'class="[^"]*of-({"|".join(ORIGINS)})"', cell) for cell in cells)


def test_the_contents_come_in_the_reader_s_order() -> None:
    shown = [section.id for section in ordered(all_rows(), ENVIRONMENTS)]
    assert shown == [
        "answer",
        "second-grid",
        "pareto",
        "fidelity",
        "rotation",
        "depth",
        "grids",
        "loss",
        "published",
        "devices",
        "kernels",
        "circuits",
        "method",
        "environment",
        "reproduce",
        "glossary",
    ]
