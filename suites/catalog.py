"""The catalog: names of suites -> experiments with their settings.

A suite is a YAML file in `library/` that names a kind of experiment and the settings of two
profiles:

    name: pretrain-small
    summary: one small language model per recipe, on real text
    experiment: pretrain
    cpu: {training: {steps: 300}}
    cuda: {training: {steps: 2000}}

and, under `both`, those that the profiles share. A profile is chosen by the device;
`--set training.steps=500` goes on top of it. Settings are
checked by the experiment's own pydantic model, which is imported, torch and all, only when the
suite is run.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from formats.registry import Entry
from formats.yamlfile import Document, YamlFileError, did_you_mean, read_document, validate
from suites.experiment import Device, Experiment

LIBRARY = Path(__file__).parent / "library"

EXPERIMENTS = {
    "conformance": "suites.conformance:Conformance",
    "pretrain": "suites.pretrain:Pretrain",
    "bias": "suites.bias:Bias",
    "depth": "suites.depth:Depth",
    "smoke": "suites.smoke:Smoke",
    "codesign": "suites.codesign:Codesign",
    "hardware": "suites.hardware:Hardware",
    "kernel-speed": "suites.kernel_speed:KernelSpeed",
}


class SuiteRecord(BaseModel):
    """A suite file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    summary: str
    experiment: str
    both: dict[str, Any] = {}
    cpu: dict[str, Any]
    cuda: dict[str, Any]


@dataclass(frozen=True)
class Suite:
    """A suite: its record, and the document it was read from, for error messages."""

    record: SuiteRecord
    document: Document


def load_experiment(kind: str) -> Experiment:
    """Import the module of an experiment of EXPERIMENTS and make the experiment."""
    module, _, name = EXPERIMENTS[kind].partition(":")
    return cast(Experiment, getattr(importlib.import_module(module), name)())


def list_suites() -> list[Entry]:
    """All suites of the library; a faulty file is listed with its error."""
    return [_entry(path) for path in sorted(LIBRARY.glob("*.yaml"))]


def load_suite(name_or_path: str) -> Suite:
    """The suite of this name, or in this YAML file.

    Raises:
        ValueError: unknown name (with the nearest one), or a faulty file (file:line:column).
    """
    if name_or_path.endswith((".yaml", ".yml")) or os.sep in name_or_path:
        return _read(Path(name_or_path))
    names = [path.stem for path in sorted(LIBRARY.glob("*.yaml"))]
    if name_or_path not in names:
        hint = did_you_mean(name_or_path, names) or f"; known: {', '.join(names)}"
        raise ValueError(f"unknown suite '{name_or_path}'{hint}")
    return _read(LIBRARY / f"{name_or_path}.yaml")


def resolve_settings(
    suite: Suite, model: type[BaseModel], profile: Device, assignments: Sequence[str]
) -> BaseModel:
    """The settings of a profile with `--set` assignments on top.

    Args:
        model: the experiment's `Settings`.
        assignments: "key=value" texts; dots in the key go down into nested settings, and the value
            is YAML, so that `--set lengths=[16,32]` is a list.

    Raises:
        ValueError: the profile (file:line:column) or an assignment does not fit the model.
    """
    section = _profile(suite.document, profile)
    defaults = validate(section, model)
    data = dict(section.data)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise ValueError(f"--set {assignment}: write it as key=value")
        data = _assign(data, key.split("."), _parse_value(assignment, text))
    try:
        # All at once: a shorter run may need a shorter warm-up to be valid.
        return model.model_validate(data)
    except ValidationError as error:
        raise _explain(assignments, error, defaults) from error


def _entry(path: Path) -> Entry:
    try:
        return Entry(path.stem, path, _read(path).record.summary)
    except YamlFileError as error:
        return Entry(path.stem, path, "", str(error))


def _read(path: Path) -> Suite:
    document = read_document(path)
    record = validate(document, SuiteRecord)
    if record.name != path.stem:
        raise document.error(("name",), f"must equal the file's stem '{path.stem}'")
    if record.experiment not in EXPERIMENTS:
        hint = did_you_mean(record.experiment, EXPERIMENTS)
        raise document.error(("experiment",), f"unknown experiment '{record.experiment}'{hint}")
    return Suite(record, document)


def _profile(document: Document, name: str) -> Document:
    """What a profile sets, over what both set, as a document with every place of it known."""
    both, own = (_section(document, key) for key in ("both", name))
    return Document(
        document.path, both.data | own.data, both.keys | own.keys, both.values | own.values
    )


def _section(document: Document, name: str) -> Document:
    """One key of a document as a document of its own."""

    def below(places: Mapping[tuple[str | int, ...], tuple[int, int]]) -> dict[Any, Any]:
        return {place[1:]: at for place, at in places.items() if place[:1] == (name,)}

    data = cast(dict[str, Any], document.data.get(name, {}))
    return Document(document.path, data, below(document.keys), below(document.values))


def _assign(data: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy of nested data with one value replaced."""
    first, *rest = keys
    if not rest:
        return {**data, first: value}
    inner = data.get(first)
    return {**data, first: _assign(inner if isinstance(inner, dict) else {}, rest, value)}


def _parse_value(assignment: str, text: str) -> Any:
    """The value as nested lists and maps of text; pydantic knows what each text is to be."""
    try:
        value = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"--set {assignment}: the value is not YAML") from error
    return None if value == "null" else value


def _explain(assignments: Sequence[str], error: ValidationError, defaults: BaseModel) -> ValueError:
    """One line for the first complaint, with the nearest setting where the key is unknown."""
    # A misspelt key is the cause when a required one is missing.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in first["loc"])
    guilty = [text for text in assignments if key and text.partition("=")[0].startswith(key)]
    where = f"--set {' '.join(guilty or assignments)}"
    if first["type"] == "extra_forbidden":
        known = list(_setting_names(defaults.model_dump()))
        hint = did_you_mean(key, known) or f" (known: {', '.join(known)})"
        return ValueError(f"{where}: unknown setting '{key}'{hint}")
    message = first["msg"].removeprefix("Value error, ")
    return ValueError(f"{where}: {message}" if guilty else f"{where}: {key} {message}")


def _setting_names(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in data.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _setting_names(value, f"{prefix}{name}.")
