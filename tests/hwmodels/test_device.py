import pytest

from formats import load_format
from hwmodels.device import FOLDER, list_devices, load_device

REQUIRED = [
    "h100",
    "h200",
    "b200",
    "gb200",
    "b300",
    "gb300",
    "rubin",
    "mi300x",
    "mi325x",
    "mi350x",
    "mi355x",
    "mi455x",
]
WHAT_IF = """
name: mine
summary: what if
extends: b200
native:
  - {element: e1m2, scale: fp32, block: 16, rate: fp4}
"""


def write(tmp_path, text, name="mine"):
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return path


def test_all_devices_load():
    entries = {entry.name: entry for entry in list_devices()}
    assert entries.keys() >= set(REQUIRED)
    assert [entry.error for entry in entries.values() if entry.error] == []


def test_every_rate_says_dense_or_sparse():
    for path in FOLDER.glob("*.yaml"):
        for figure in load_device(path).record.rates.values():
            assert figure.sparsity is not None and figure.source


def test_conflicting_figures_are_both_kept():
    (inference,) = load_device("rubin").rate("fp4").also
    assert (load_device("rubin").rate("fp4").value, inference.value) == (35000, 50000)
    assert (load_device("rubin").rate("fp4").sparsity, inference.sparsity) == ("dense", "sparse")


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("fmt", ["e1m2", "int4", "nvint4", "nve1m2"])
def test_no_shipping_part_has_a_rate_for_uniform_grids_at_fp4(name, fmt):
    route = load_device(name).route(load_format(fmt))
    assert (route.path, route.rate) == ("emulated", "bf16")


def test_a_what_if_adds_a_rate_and_says_so(tmp_path):
    device = load_device(write(tmp_path, WHAT_IF))
    route = device.route(load_format("e1m2"))
    assert (route.path, route.rate, route.reason) == ("native", "fp4", "if built")
    assert device.is_what_if and device.rate("fp4").value == 9000


def test_small_integers_run_exactly_through_e4m3():
    route = load_device("b200").route(load_format("mxint4"))
    assert (route.path, route.rate) == ("wider", "fp8")


def test_a_rate_that_a_device_lacks_is_an_error():
    with pytest.raises(ValueError, match="device 'h100' has no fp4 rate .it has bf16, fp8, int8."):
        load_device("h100").rate("fp4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHAT_IF.replace("summary", "sumary"), "mine.yaml:3:1: sumary: unknown key; did you mean"),
        (WHAT_IF.replace("fp4}", "fp5}"), "native.0.rate: 'fp5' is not among its rates"),
        (WHAT_IF.replace("e1m2", "e1m3"), "unknown 'e1m3'; did you mean"),
        (
            WHAT_IF.replace("b200", "b20"),
            "mine.yaml:4:10: extends: unknown device 'b20'; did you mean 'b200'",
        ),
        (WHAT_IF.replace("b200", "b200-uniform"), "one level only"),
        ("name: mine\nsummary: x\n", "mine.yaml:1:1: memory: required key is missing"),
        (
            WHAT_IF + "rates: {fp4: {value: 1, unit: TFLOP/s, date: 2026-11, quality: primary}}\n",
            "rates.fp4.source: required key is missing",
        ),
        (
            WHAT_IF
            + "rates: {x: {value: 1, unit: T, source: s, date: 2026-11, quality: primary}}\n",
            "must say sparsity",
        ),
    ],
)
def test_a_faulty_file_is_one_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as raised:
        load_device(write(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_an_error():
    with pytest.raises(ValueError, match="cannot be read"):
        load_device("./nowhere.yaml")
