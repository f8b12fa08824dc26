"""YAML files are plain data, and every fault in one is told with file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from formats import add_formats_dir, list_formats, load_format, load_recipe
from formats.yamlfile import YamlFileError, load_yaml, read_document

GRID = """\
name: mine
summary: a grid
element: {values: [0, 1, 2, 4]}
block: 16
scale: {format: e4m3, rule: amax}
tensor_scale: fp32
"""


class Sample(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "sample"
    lr: float = 1.0
    count: int = 1
    rht: bool = False
    names: tuple[str, ...] = ()
    values: tuple[float, ...] = ()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sample.yaml"


def load(file: Path, text: str) -> Sample:
    file.write_text(text)
    return load_yaml(file, Sample)


@pytest.fixture
def user_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of formats that is added for one test only."""
    monkeypatch.setattr("formats.registry._added", [])
    return tmp_path


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1E5", 1e5), ("4e2", 400.0), ("1.0e3", 1e3), (".5", 0.5), ("-0.0", -0.0)],
)
def test_B110_numbers_are_numbers(file: Path, text: str, value: float) -> None:
    assert load(file, f"lr: {text}").lr == value


@pytest.mark.parametrize("text", ["1:30", "0x10", "0o17", "1_000_", "yes"])
def test_B110_what_looks_like_another_number_is_refused(file: Path, text: str) -> None:
    with pytest.raises(YamlFileError, match=r"sample.yaml:1:8: count"):
        load(file, f"count: {text}")


def test_B110_a_leading_zero_does_not_make_octal(file: Path) -> None:
    assert load(file, "count: 012").count == 12


def test_B110_grids_refuse_what_is_not_finite(file: Path) -> None:
    for text in (".inf", ".nan", "1e400"):
        file.with_name("mine.yaml").write_text(GRID.replace("4]", f"{text}]"))
        with pytest.raises(YamlFileError, match=r"mine.yaml:3:\d+: element: .*finite"):
            load_format(str(file.with_name("mine.yaml")))


def test_B111_no_is_a_name(file: Path) -> None:
    assert load(file, "names: [nvfp4, no, on, off, y]").names == ("nvfp4", "no", "on", "off", "y")
    assert load(file, "name: no").name == "no"


def test_B111_booleans_are_true_and_false_only(file: Path) -> None:
    assert load(file, "rht: true").rht is True
    with pytest.raises(YamlFileError, match=r"sample.yaml:1:7: name: .*quote it"):
        load(file, "name: true")


def test_B112_tags_run_no_code(file: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with pytest.raises(YamlFileError, match=r"sample.yaml:1:\d+: .*not allowed"):
        load(file, f"name: !!python/object/apply:pathlib.Path.touch [{marker}]")
    assert not marker.exists()


def test_B112_an_expansion_bomb_is_defused(file: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    file.write_text("\n".join(["a0: &a0 [x, x]", *levels]))
    with pytest.raises(YamlFileError, match=r"sample.yaml:\d+:\d+"):
        read_document(file)


@pytest.mark.parametrize(
    "text", ["count: 1\nlr: 2\ncount: 3", "count: 1\nlr: 2\n'count': 3", "{count: 1,\n count: 3}"]
)
def test_B113_a_duplicate_key_is_an_error_with_both_lines(file: Path, text: str) -> None:
    line = text.count("\n") + 1
    with pytest.raises(YamlFileError, match=rf"sample.yaml:{line}:\d+: .*first at line 1"):
        load(file, text)


def test_B113_merge_keys_hide_nothing(file: Path) -> None:
    with pytest.raises(YamlFileError, match=r"sample.yaml:\d+:\d+"):
        load(file, "<<: {count: 1}\ncount: 2")


def test_B114_a_misspelt_field_is_an_error_with_the_nearest(user_formats: Path) -> None:
    (user_formats / "mine.yaml").write_text(GRID.replace("block:", "blcok:"))
    with pytest.raises(YamlFileError, match=r"mine.yaml:4:1: blcok: .*did you mean 'block'"):
        load_format(str(user_formats / "mine.yaml"))
    add_formats_dir(user_formats)
    (broken,) = [entry for entry in list_formats() if entry.name == "mine"]
    assert "blcok" in str(broken.error)
    assert load_format("nvfp4").name == "nvfp4"


def test_B114_two_files_of_one_name_are_an_error(user_formats: Path) -> None:
    for name in ("one", "two"):
        (user_formats / name).mkdir()
        (user_formats / name / "mine.yaml").write_text(GRID)
    add_formats_dir(user_formats / "one")
    with pytest.raises(ValueError, match="two/mine.yaml.*one/mine.yaml"):
        add_formats_dir(user_formats / "two")


def test_B114_a_builtin_is_replaced_only_when_that_is_said(user_formats: Path) -> None:
    text = GRID.replace("mine", "nvfp4")
    (user_formats / "nvfp4.yaml").write_text(text)
    with pytest.raises(ValueError, match="overrides: true"):
        add_formats_dir(user_formats)
    (user_formats / "nvfp4.yaml").write_text(text + "overrides: true\n")
    add_formats_dir(user_formats)
    assert load_format("nvfp4").summary == "a grid"


def test_a_recipe_with_an_unknown_format_is_placed(user_formats: Path) -> None:
    path = user_formats / "mine.yaml"
    path.write_text("name: mine\nformat: nvpf4\n")
    with pytest.raises(ValueError, match="mine.yaml.*nvpf4.*did you mean 'nvfp4'"):
        load_recipe(str(path))


@pytest.mark.parametrize("content", [b"", b"- a", b"text", b"\xff\xfe", b"a: [", b"a: \x00"])
def test_what_is_not_one_mapping_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(YamlFileError, match="sample.yaml"):
        read_document(file)
