"""Recipes in settings: by name, by path, or written on the spot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from formats import load_recipe
from suites.recipes import RecipeEntry, build_recipe, recipe_sources, refuse_equal_names

UFP4 = {
    "name": "mine",
    "format": "e1m2",
    "hadamard": {"size": 16, "gemms": ("fprop", "dgrad", "wgrad")},
    "stochastic": ("dy",),
}
ENTRIES = TypeAdapter(list[RecipeEntry])


def test_recipe_written_on_the_spot_is_the_one_of_a_file_and_survives_json() -> None:
    (source,) = recipe_sources(ENTRIES.validate_python([UFP4]), (), ())
    recipe = build_recipe(json.loads(json.dumps(source)))
    assert recipe.name == "mine"
    assert recipe.digest == load_recipe("ufp4").digest


def test_names_and_paths_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nformat: int4\n")
    sources = recipe_sources(["ufp4", str(file)], (), ())
    assert [build_recipe(source).name for source in sources] == ["ufp4", "mine"]


def test_user_replaces_the_entries() -> None:
    entries = ENTRIES.validate_python(["bf16", UFP4])
    assert recipe_sources(entries, ("nvfp4",), ()) == [{"recipe": "nvfp4", "format": None}]
    assert recipe_sources(entries, (), ("int4",)) == [{"recipe": None, "format": "int4"}]
    (both,) = recipe_sources(entries, ("ufp4",), ("int4",))
    assert build_recipe(both).name == "ufp4+int4"


def test_misspelt_key_of_a_recipe_on_the_spot_is_refused() -> None:
    with pytest.raises(ValidationError, match="hadamrd"):
        ENTRIES.validate_python([{"name": "mine", "format": "e1m2", "hadamrd": None}])


def test_two_recipes_of_one_name_are_refused() -> None:
    recipe = load_recipe("ufp4")
    with pytest.raises(ValueError, match="two of them are called 'ufp4'"):
        refuse_equal_names([recipe, load_recipe("bf16"), recipe])
