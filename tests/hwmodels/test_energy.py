import pytest

from formats import load_format, load_recipe
from hwmodels.circuit_table import load_tables
from hwmodels.device import load_device
from hwmodels.energy import (
    FOLDER,
    circuit_parts,
    load_energy_class,
    mac_femtojoules,
    mac_picojoules,
    step_energy,
)
from hwmodels.throughput import step_time
from hwmodels.workload import load_model

MODEL = load_model("dense-1.5b")
NVFP4 = load_format("nvfp4")


def energy_of(energies, recipe="bf16"):
    step = step_time(load_device("b200"), MODEL, load_recipe(recipe))
    return step_energy(step, energies, NVFP4)


def test_B106_doubling_the_mac_energy_doubles_its_share(tmp_path):
    text = (FOLDER / "accelerator-7nm.yaml").read_text()
    path = tmp_path / "accelerator-7nm.yaml"
    path.write_text(text.replace("value: 0.084", "value: 0.168"))
    before, after = (
        energy_of(load_energy_class("accelerator-7nm")),
        energy_of(load_energy_class(path)),
    )
    assert after.mac_joules == pytest.approx(2 * before.mac_joules)
    assert after.joules - before.joules == pytest.approx(before.mac_joules)


def test_B106_an_override_that_nothing_uses_is_an_error(tmp_path):
    text = (FOLDER / "accelerator-7nm.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("  bf16:", "  bf61:"))
    with pytest.raises(ValueError, match="mine.yaml:.*mac.bf61"):
        load_energy_class(path)


def test_B106_every_constant_carries_its_source():
    text = load_energy_class("accelerator-7nm").provenance()
    assert text.count("2026-11") == 3 and "TPU v4" in text


def test_a_four_bit_mac_is_its_circuits():
    energies = load_energy_class("accelerator-7nm").model_copy(update={"circuits": "osu018"})
    parts = load_tables()["osu018"].rows
    found = mac_picojoules(energies, "fp4", NVFP4)
    own = circuit_parts("osu018", NVFP4)
    assert {part.part for part in own} == {"dot", "scale", "accumulate"} and len(parts) > len(own)
    assert found == pytest.approx(sum(mac_femtojoules(part) for part in own) / 1000)


def test_a_component_without_energy_is_an_error_not_zero():
    energies = load_energy_class("horowitz-45nm")
    with pytest.raises(ValueError, match="'horowitz-45nm' has no fp4 MAC .* no circuits"):
        energy_of(energies, recipe="nvfp4")


def test_a_format_without_a_circuit_is_an_error_not_zero():
    with pytest.raises(ValueError, match="is high precision"):
        circuit_parts("osu018", load_format("bf16"))
    with pytest.raises(ValueError, match="no circuit table 'tsmc'"):
        circuit_parts("tsmc", NVFP4)
