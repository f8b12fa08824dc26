"""The page in a real browser, from disk, with the network off.

Screenshots go to the folder that the environment variable GRIDBENCH_SCREENSHOTS names, to be looked
at; without it they are taken and thrown away.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from reports import write_report
from tests.reports.rows_fixture import ENVIRONMENTS, all_rows, hostile_rows, training

pytestmark = pytest.mark.browser
DRAWN = "Object.keys(FIGURES).every(id => plotOf(id).querySelector('.main-svg'))"
PATIENCE = 60_000  # milliseconds; a shared machine may be busy


class Tab:
    """A page that remembers what it asked the network for and what it complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri(), timeout=PATIENCE)
        self.page.wait_for_function(DRAWN, timeout=PATIENCE)
        return self.page


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    yield Tab(context.new_page())
    context.close()


def picture(page: Page, name: str, tmp_path: Path) -> Path:
    folder = Path(os.environ.get("GRIDBENCH_SCREENSHOTS", tmp_path))
    path = folder / f"{name}.png"
    page.screenshot(path=path, full_page=True, timeout=PATIENCE)
    return path


def test_B117_opens_offline_without_a_request_or_a_complaint(tab: Tab, report: Path) -> None:
    page = tab.open(report)
    assert tab.requests == [report.as_uri()]
    assert tab.complaints == []
    remote = page.locator("[src^='http'], link[href^='http'], [src^='//']")
    assert remote.count() == 0


def test_every_figure_draws_marks(tab: Tab, report: Path) -> None:
    page = tab.open(report)
    figures = page.locator("figure")
    assert figures.count() == page.evaluate("Object.keys(FIGURES).length") > 8
    for i in range(figures.count()):
        marks = figures.nth(i).locator(".scatterlayer path, .barlayer path")
        assert marks.count() > 0, figures.nth(i).get_attribute("id")


def test_every_figure_has_a_description_and_a_table_behind_it(tab: Tab, report: Path) -> None:
    page = tab.open(report)
    figures = page.locator("figure")
    for i in range(figures.count()):
        assert figures.nth(i).locator(".plot").get_attribute("aria-label")
        assert figures.nth(i).locator("details tbody tr").count() > 0


def test_a_click_sorts_a_table_and_another_turns_it_round(tab: Tab, report: Path) -> None:
    page = tab.open(report)
    table = page.locator("#answer table").first
    button = table.get_by_role("button", name="loss degradation")
    heading = table.locator("th", has=page.get_by_role("button", name="loss degradation"))

    def cells() -> list[str]:
        values = table.locator("tbody tr td:nth-child(3)").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value ?? 'none')"
        )
        return [str(value) for value in values]

    button.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert cells() == ["0.97", "1.19", "1.26", "none", "none"]
    button.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert cells() == ["none", "none", "1.26", "1.19", "0.97"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_even_while_open(
    tab: Tab, report: Path, scheme: str, tmp_path: Path
) -> None:
    other = {"light": "dark", "dark": "light"}[scheme]
    tab.page.emulate_media(color_scheme=other)  # type: ignore[arg-type]
    page = tab.open(report)
    before = page.evaluate("plotOf('verdicts').layout.font.color")
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.wait_for_function(
        "before => plotOf('verdicts').layout.font.color !== before", arg=before, timeout=PATIENCE
    )
    ink = page.evaluate("getComputedStyle(document.body).getPropertyValue('--ink').trim()")
    assert page.evaluate("plotOf('verdicts').layout.font.color") == ink
    assert picture(page, scheme, tmp_path).stat().st_size > 100_000


def test_narrow_pages_stack_panels_and_do_not_scroll_sideways(
    tab: Tab, report: Path, tmp_path: Path
) -> None:
    tab.page.set_viewport_size({"width": 420, "height": 900})
    page = tab.open(report)
    assert page.evaluate("document.documentElement.scrollWidth") == 420
    layout = page.evaluate("plotOf('layers-gain').layout")
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1]
    picture(page, "narrow", tmp_path)


def test_prints_every_figure_within_the_page(tab: Tab, report: Path, tmp_path: Path) -> None:
    page = tab.open(report)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    widths = page.evaluate("Object.keys(FIGURES).map(id => plotOf(id)._fullLayout.width)")
    assert set(widths) == {680}
    assert not page.locator("nav").is_visible()
    picture(page, "print", tmp_path)
    page.pdf(path=tmp_path / "report.pdf")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tab: Tab, report: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = tab.open(report)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    results = Axe().run(page)
    found = {each["id"]: each["nodes"][0]["html"] for each in results.response["violations"]}
    assert found == {}


def test_hostile_names_are_text(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    write_report(hostile_rows(), ENVIRONMENTS, path)
    page = tab.open(path)
    assert tab.complaints == []
    assert page.evaluate("window.stolen") is None
    assert page.locator("main img, main iframe").count() == 0
    assert page.get_by_text("<img src=x onerror=stolen=1>").count() > 0


def test_B116_a_million_points_and_many_recipes_stay_small(tab: Tab, tmp_path: Path) -> None:
    recipes = {f"recipe {i}": (i / 10, 1.0, 20.0) for i in range(3)}
    rows = list(training(seeds=1, steps=340_000, recipes=recipes))
    path = tmp_path / "long.html"
    write_report(rows, ENVIRONMENTS, path)
    assert path.stat().st_size < 6e6
    page = tab.open(path)
    assert "1,020,030 points" in page.locator("#figure-loss-curves").inner_text()


def test_one_recipe_alone(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "one.html"
    write_report([row for row in all_rows(1) if row.config.get("recipe") == "ufp4"], [], path)
    page = tab.open(path)
    assert tab.complaints == []
    assert page.locator("#loss").is_visible()
    assert page.locator("#missing").is_visible()


def test_without_plotly_the_tables_still_read_and_sort(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "cdn.html"
    write_report(all_rows(), ENVIRONMENTS, path, js="cdn")
    tab.page.goto(path.as_uri(), timeout=PATIENCE)
    tab.page.wait_for_function("document.body.classList.contains('no-plots')", timeout=PATIENCE)
    table = tab.page.locator("#answer table").first
    table.get_by_role("button", name="gain").click()
    assert table.locator("th[aria-sort='ascending']").count() == 1
