"""The registry: a name or a path becomes a format or a recipe.

Built-in records lie in ``library/`` and ``recipes/`` beside this file. A user's folder, added by
``add_formats_dir`` or the environment variable GRIDBENCH_FORMATS_DIR, holds formats in itself and
recipes in its subfolder ``recipes``. Names are unique; replacing a built-in takes
``overrides: true``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from formats.block import BlockFormat
from formats.recipe import Recipe
from formats.schema import FormatRecord, RecipeRecord
from formats.yamlfile import YamlFileError, did_you_mean, read_document, validate

FORMATS_DIR_VARIABLE = "GRIDBENCH_FORMATS_DIR"
_HERE = Path(__file__).parent
_added: list[Path] = []

AnyRecord = TypeVar("AnyRecord", FormatRecord, RecipeRecord)


@dataclass(frozen=True)
class Entry:
    """A file of the registry: its name, and its summary or what is wrong with it."""

    name: str
    path: Path
    summary: str
    error: str | None = None


@dataclass(frozen=True)
class _Shelf(Generic[AnyRecord]):
    """One kind of record and the folders that hold it."""

    kind: str
    record: type[AnyRecord]
    builtin: Path
    subfolder: str

    def find(self, name_or_path: str) -> Path:
        if name_or_path.endswith((".yaml", ".yml")) or os.sep in name_or_path:
            if not Path(name_or_path).is_file():
                raise ValueError(f"{name_or_path}: no such {self.kind} file")
            return Path(name_or_path)
        files = self.files()
        if name_or_path not in files:
            hint = did_you_mean(name_or_path, files) or f"; known: {', '.join(files)}"
            raise ValueError(f"unknown {self.kind} '{name_or_path}'{hint}")
        return files[name_or_path]

    def read(self, path: Path) -> AnyRecord:
        document = read_document(path)
        record = validate(document, self.record)
        if record.name != path.stem:
            raise document.error(("name",), f"must equal the file's stem '{path.stem}'")
        return record

    def files(self) -> dict[str, Path]:
        """All files by stem, built-in ones first."""
        found = {path.stem: path for path in sorted(self.builtin.glob("*.yaml"))}
        builtin = dict(found)
        for folder in _user_dirs():
            for path in sorted((folder / self.subfolder).glob("*.yaml")):
                other = found.get(path.stem)
                if other is not None and other != builtin.get(path.stem):
                    raise YamlFileError(f"{path}:1:1: a second '{path.stem}' beside {other}")
                if path.stem in builtin and not self.read(path).overrides:
                    raise YamlFileError(
                        f"{path}:1:1: replaces the built-in '{path.stem}'; "
                        "say 'overrides: true' to mean it"
                    )
                found[path.stem] = path
        return found

    def entries(self) -> list[Entry]:
        return [self._entry(name, path) for name, path in self.files().items()]

    def _entry(self, name: str, path: Path) -> Entry:
        try:
            return Entry(name, path, self.read(path).summary)
        except YamlFileError as error:
            return Entry(name, path, "", str(error))


_FORMATS = _Shelf("format", FormatRecord, _HERE / "library", "")
_RECIPES = _Shelf("recipe", RecipeRecord, _HERE / "recipes", "recipes")


def add_formats_dir(path: str | Path) -> None:
    """Add a folder of formats (and, in its subfolder ``recipes``, of recipes) to the registry.

    Raises:
        ValueError: the folder does not exist, or a name in it clashes.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such formats folder")
    if folder not in _added:
        _added.append(folder)
    for shelf in (_FORMATS, _RECIPES):
        shelf.files()


def load_format(name_or_path: str | Path) -> BlockFormat:
    """The format of this name, or in this YAML file.

    Raises:
        ValueError: unknown name (with the nearest one), or a faulty file (file:line:column).
    """
    path = _FORMATS.find(str(name_or_path))
    return _FORMATS.read(path).build(path)


def load_recipe(name_or_path: str | Path) -> Recipe:
    """The recipe of this name, or in this YAML file; its formats may be paths relative to the file.

    Raises:
        ValueError: as load_format, also for the formats that the recipe names.
    """
    path = _RECIPES.find(str(name_or_path))
    record = _RECIPES.read(path)

    def find_format(name: str) -> BlockFormat:
        beside = path.parent / name
        try:
            return load_format(beside if name.endswith(".yaml") and beside.is_file() else name)
        except ValueError as error:
            raise YamlFileError(f"{path}: {error}") from error

    return record.build(path, find_format)


def list_formats() -> list[Entry]:
    """All formats of the registry; a faulty file is listed with its error."""
    return _FORMATS.entries()


def list_recipes() -> list[Entry]:
    """All recipes of the registry; a faulty file is listed with its error."""
    return _RECIPES.entries()


def _user_dirs() -> list[Path]:
    variable = os.environ.get(FORMATS_DIR_VARIABLE)
    return ([Path(variable)] if variable else []) + _added
