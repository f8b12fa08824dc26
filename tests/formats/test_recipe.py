"""Recipes: six operands, one transform per GEMM."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats import GEMM_OPERANDS, OPERANDS, list_recipes, load_format, load_recipe, plain_recipe


def test_operands_pair_up_into_gemms() -> None:
    assert OPERANDS == ("x.fprop", "w.fprop", "dy.dgrad", "w.dgrad", "dy.wgrad", "x.wgrad")


def test_ufp4_is_table_1_of_the_paper() -> None:
    """arXiv:2606.20381: E1M2, RHT 16 on all three GEMMs, SR on dY only."""
    operands = load_recipe("ufp4").operands
    assert {operand.format.name for operand in operands.values()} == {"e1m2"}
    assert {operand.hadamard for operand in operands.values()} == {16}
    stochastic = {name for name, operand in operands.items() if operand.rounding == "stochastic"}
    assert stochastic == {"dy.dgrad", "dy.wgrad"}


def test_nvfp4_is_nvidias_recipe() -> None:
    """arXiv:2509.25149: 2-D weights, RHT on wgrad's operands only."""
    recipe = load_recipe("nvfp4")
    rotated = {name for name, operand in recipe.operands.items() if operand.hadamard}
    assert rotated == {"dy.wgrad", "x.wgrad"}
    assert recipe.operands["w.fprop"].format.block == (16, 16)
    assert recipe.keep_last == 0.15


@pytest.mark.parametrize("name", [entry.name for entry in list_recipes()])
def test_B59_both_operands_of_a_gemm_are_rotated_alike(name: str) -> None:
    operands = load_recipe(name).operands
    for left, right in GEMM_OPERANDS.values():
        assert operands[left].hadamard == operands[right].hadamard


def test_B59_a_recipe_cannot_rotate_one_side(tmp_path: Path) -> None:
    path = tmp_path / "one-side.yaml"
    path.write_text("name: one-side\nformat: e1m2\nhadamard: {size: 16, operands: [x.wgrad]}\n")
    with pytest.raises(ValueError, match=r"one-side.yaml:3:\d+: .*operands: unknown key"):
        load_recipe(path)


def test_plain_and_replaced_formats() -> None:
    nvfp4 = load_format("nvfp4")
    plain = plain_recipe(nvfp4)
    assert plain.name == "nvfp4" and not plain.is_high_precision
    swapped = load_recipe("ufp4").with_format(nvfp4)
    assert swapped.name == "ufp4+nvfp4"
    assert {operand.format.name for operand in swapped.operands.values()} == {"nvfp4"}
    assert load_recipe("bf16").is_high_precision
    assert load_recipe("bf16").with_format(nvfp4).is_high_precision


def test_a_tensor_scale_or_a_gain_is_a_factor_of_products() -> None:
    assert not load_recipe("ufp4").has_factors
    assert load_recipe("nvfp4").has_factors
    corrected = plain_recipe(load_format("e2m1-gain")).operands
    assert corrected["x.fprop"].has_factor
    assert not corrected["dy.dgrad"].has_factor  # rounded stochastically: there is no such bias


def test_equal_grids_in_other_codes_have_other_digests() -> None:
    digests = {load_recipe(entry.name).digest for entry in list_recipes()}
    assert len(digests) == len(list_recipes())
