"""Recipes as the settings of an experiment name them, and as a cell keeps them.

An entry of a suite's `recipes:` is the name of a recipe, the path of its file, or the whole recipe
written on the spot with the keys of such a file, for studies that vary one thing at a time. In a
cell's configuration all of them are plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from formats import Recipe, load_format, load_recipe, plain_recipe
from formats.schema import RecipeRecord

RecipeEntry = str | RecipeRecord
# "recipe": name, path, or the keys of a recipe; "format": name or path. One of them may be None.
RecipeSource = dict[str, Any]


def recipe_sources(
    entries: Iterable[RecipeEntry], recipes: Sequence[str], formats: Sequence[str]
) -> list[RecipeSource]:
    """What to run: the entries, unless the user names recipes, formats or both.

    A format alone means its plain recipe; with recipes, these with their formats replaced.
    """
    if formats:
        named: Sequence[str | None] = recipes or (None,)
        return [{"recipe": recipe, "format": fmt} for fmt in formats for recipe in named]
    return [{"recipe": _plain(entry), "format": None} for entry in recipes or entries]


def build_recipe(source: Mapping[str, Any]) -> Recipe:
    """The recipe of a source, or of a cell's configuration that holds one.

    Raises:
        ValueError: unknown name, or a faulty file.
    """
    if source["recipe"] is None:
        return plain_recipe(load_format(source["format"]))
    if isinstance(source["recipe"], str):
        recipe = load_recipe(source["recipe"])
    else:
        # JSON has lists where the strict record has tuples.
        record = RecipeRecord.model_validate(source["recipe"], strict=False)
        recipe = record.build(None, load_format)
    return recipe if source["format"] is None else recipe.with_format(load_format(source["format"]))


def refuse_equal_names(recipes: Iterable[Recipe]) -> None:
    """Refuse two recipes of one name, which rows could not tell apart.

    Raises:
        ValueError: there are two.
    """
    seen: set[str] = set()
    for recipe in recipes:
        if recipe.name in seen:
            raise ValueError(f"recipes: two of them are called '{recipe.name}'")
        seen.add(recipe.name)


def _plain(entry: RecipeEntry) -> str | dict[str, Any]:
    """An entry as JSON, without what a recipe leaves at its default."""
    return entry if isinstance(entry, str) else entry.model_dump(mode="json", exclude_defaults=True)
