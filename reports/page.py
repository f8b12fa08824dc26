"""One HTML file: sections in order, plotly.js embedded once, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.section import Code, Figure, Section, Sentences, Terms
from reports.sections import ordered
from reports.table import ORIGINS, Cell, Table
from suites.rows import Row

JS = ("inline", "cdn", "directory")
MOST_LINES = 200


def write_report(
    rows: Sequence[Row],
    environments: Sequence[Mapping[str, Any]],
    path: str | Path,
    js: str = "inline",
) -> None:
    """Write the report of some rows as one HTML file; equal rows give equal bytes.

    Args:
        rows: of one run or of several.
        environments: what each run ran on, as the run folder's environment.json holds it.
        path: the HTML file; its folder exists.
        js: "inline" embeds plotly.js (4.8 MB), so that the file opens anywhere; "directory" puts
            plotly.min.js beside the file; "cdn" needs a network to show its figures.

    Raises:
        ValueError: ``js`` is none of the three.
        OSError: the file cannot be written.
    """
    if js not in JS:
        raise ValueError(f"js: {js!r} is not one of {', '.join(JS)}")
    target = Path(path)
    target.write_text(render(rows, environments, js), encoding="utf-8")
    if js == "directory":
        (target.parent / "plotly.min.js").write_text(_plotly_source(), encoding="utf-8")


def render(rows: Sequence[Row], environments: Sequence[Mapping[str, Any]], js: str) -> str:
    """The report as text."""
    sections = ordered(rows, environments)
    template = _templates().get_template("report.html")
    html: str = template.render(
        sections=[section for section in sections if section],
        missing=[section for section in sections if not section],
        environments=environments,
        row_count=len(rows),
        plotly=_plotly(js),
        js=js,
        figures=embed(_figures(sections)),
    )
    return html


def embed(data: object) -> Markup:
    """Strict JSON that may stand inside a script element, whatever strings it holds.

    Numbers keep six digits: no screen shows more of them, and the exact ones are in the CSV.
    """
    text = json.dumps(data, allow_nan=False)
    rounded = json.loads(text, parse_float=lambda digits: float(f"{float(digits):.6g}"))
    text = json.dumps(rounded, sort_keys=True, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


def _figures(sections: Sequence[Section]) -> dict[str, Any]:
    parts = [part for section in sections for part in section.parts if isinstance(part, Figure)]
    return {part.id: {"data": part.data, "layout": part.layout} for part in parts}


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(origins=ORIGINS, most_lines=MOST_LINES)
    kinds = {"table": Table, "figure": Figure, "sentences": Sentences, "code": Code, "terms": Terms}
    for name, kind in {**kinds, "cell": Cell}.items():
        environment.tests[name] = lambda value, kind=kind: isinstance(value, kind)
    return environment


def _plotly_source() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _without_controls(script: str) -> str:
    """The script with the control characters of its literals escaped: HTML forbids them raw."""
    return re.sub(
        r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", script
    )


def _plotly(js: str) -> Markup:
    if js == "inline":
        return Markup(f"<script>{_without_controls(_plotly_source())}</script>")  # noqa: S704
    if js == "directory":
        return Markup('<script src="plotly.min.js"></script>')
    from plotly.offline import get_plotlyjs_version

    address = f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"
    digest = base64.b64encode(hashlib.sha256(_plotly_source().encode()).digest()).decode()
    element = '<script src="{}" integrity="sha256-{}" crossorigin="anonymous"></script>'
    return Markup(element).format(address, digest)  # noqa: S704
