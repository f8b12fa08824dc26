"""The registry: names, paths, and what is wrong with either."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats import add_formats_dir, list_formats, list_recipes, load_format, load_recipe

FORMAT = """\
name: {name}
summary: a test's
element: e2m1
block: 16
scale: {{format: fp32}}
"""


@pytest.fixture(autouse=True)
def no_added_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.registry._added", [])


@pytest.mark.parametrize("entry", list_formats(), ids=lambda entry: entry.name)
def test_every_library_format_loads_and_says_where_it_is_from(entry: object) -> None:
    fmt = load_format(entry.name)  # type: ignore[attr-defined]
    assert fmt.summary and fmt.source and fmt.path is not None


@pytest.mark.parametrize("entry", list_recipes(), ids=lambda entry: entry.name)
def test_every_library_recipe_loads_and_says_where_it_is_from(entry: object) -> None:
    recipe = load_recipe(entry.name)  # type: ignore[attr-defined]
    assert recipe.summary and recipe.source and recipe.path is not None


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown format 'nvpf4'; did you mean 'nvfp4'"):
        load_format("nvpf4")
    with pytest.raises(ValueError, match="no such recipe file"):
        load_recipe("./nowhere.yaml")


def test_a_path_is_as_good_as_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FORMAT.format(name="mine"))
    assert load_format(tmp_path / "mine.yaml").digest == load_format("e2m1").digest


def test_the_name_is_the_files_stem(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FORMAT.format(name="other"))
    with pytest.raises(ValueError, match=r"mine.yaml:1:7: name: must equal .* 'mine'"):
        load_format(tmp_path / "mine.yaml")


def test_a_folder_adds_formats_and_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "mine.yaml").write_text(FORMAT.format(name="mine"))
    (tmp_path / "recipes" / "my-recipe.yaml").write_text("name: my-recipe\nformat: mine\n")
    with pytest.raises(ValueError, match="unknown recipe"):
        load_recipe("my-recipe")
    monkeypatch.setenv("GRIDBENCH_FORMATS_DIR", str(tmp_path))
    assert load_recipe("my-recipe").operands["x.fprop"].format.name == "mine"
    monkeypatch.delenv("GRIDBENCH_FORMATS_DIR")
    add_formats_dir(tmp_path)
    assert load_format("mine").name == "mine"


def test_a_recipe_names_formats_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FORMAT.format(name="mine"))
    (tmp_path / "r.yaml").write_text("name: r\nformat: mine.yaml\n")
    assert load_recipe(tmp_path / "r.yaml").operands["w.dgrad"].format.name == "mine"
    (tmp_path / "r.yaml").write_text("name: r\nformat: nvpf4\n")
    with pytest.raises(ValueError, match="r.yaml: .*did you mean 'nvfp4'"):
        load_recipe(tmp_path / "r.yaml")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such formats folder"):
        add_formats_dir(tmp_path / "nowhere")
