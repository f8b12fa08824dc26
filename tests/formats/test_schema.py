"""What a format or recipe file may say; the published JSON Schemas are what the code says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import formats
from formats import load_format, load_recipe
from formats.schema import json_schemas
from tests.numerics.library import write_format


@pytest.mark.parametrize("name", sorted(json_schemas()))
def test_published_schemas_are_fresh(name: str) -> None:
    """`python -m formats` writes them."""
    published = json.loads((Path(formats.__file__).parent / name).read_text())
    assert published == json_schemas()[name]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"element": "e2m2"}, "unknown element 'e2m2'.*did you mean 'e2m1'"),
        ({"element": "{int: {bits: 4}, values: [0, 1]}"}, "exactly one of float, int and values"),
        ({"element": "{int: {bits: 12}}"}, "2 to 8 bits"),
        ({"element": "bf16"}, "has no block, scale or tensor_scale"),
        ({"scale": "{format: e8m0}"}, "e8m0 needs a rule, one of floor, rceil, ceil, even"),
        ({"scale": "{format: e8m0, rule: flor}"}, "not 'flor'; did you mean 'floor'"),
        ({"scale": "{format: fp32, rule: floor}"}, "fp32 takes rule amax"),
        ({"scale": "{format: e4m4}"}, "did you mean 'e4m3'"),
        ({"scale": "{format: e4m3, headroom: 3}"}, "from 1 to 2"),
        ({"block": "0"}, "positive length"),
        ({"block": "[16, 16, 16]"}, "rows, columns"),
        ({"block": "100000"}, "at most 65536"),
        ({"tensor_scale": "fp32"}, "goes with a scale format of e4m3 or ue5m3"),
        ({"gain": "0"}, "0.5 to 2"),
        (
            {"element": "int4", "scale": "{format: e4m3, rule: four-over-six}"},
            "needs element e2m1",
        ),
        (
            {
                "block": "24",
                "scale": "{format: e4m3, rule: four-over-six}",
                "tensor_scale": "fp32",
            },
            "power of two",
        ),
        ({"scale": "{format: e4m3, rule: four-over-six}"}, "needs tensor_scale"),
    ],
)
def test_formats_that_mean_nothing_are_refused(
    tmp_path: Path, facts: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"mine.yaml:\d+:\d+: .*{message}"):
        write_format(tmp_path, **facts)


def test_headroom_may_be_a_fraction(tmp_path: Path) -> None:
    fmt = write_format(tmp_path, scale="{format: e4m3, headroom: 17/16}", tensor_scale="fp32")
    assert fmt.digest == load_format("nvfp4-headroom").digest


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hadamard: {size: 12, gemms: [wgrad]}", "power of two"),
        ("hadamard: {size: 16, gemms: [wgard]}", "did you mean 'wgrad'"),
        ("stochastic: [dz]", "stochastic.0: .*'dy'"),
        ("keep_last: 1.5", "less than or equal to 1"),
        ("formats: {v: nvfp4}", "formats"),
        ("rounding: stochastic", "rounding: unknown key"),
    ],
)
def test_recipes_that_mean_nothing_are_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: mine\nformat: e1m2\n{line}\n")
    with pytest.raises(ValueError, match=rf"mine.yaml:\d+:\d+: .*({message})"):
        load_recipe(path)


def test_B69_an_empty_keep_list_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nformat: e1m2\nkeep: []\n")
    assert load_recipe(path).keep == ()
    path.write_text("name: mine\nformat: e1m2\n")
    assert load_recipe(path).keep == ("embedding", "head", "norm", "router")
