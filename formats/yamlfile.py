"""YAML -> validated pydantic models, with every complaint at file:line:column.

Files are data and nothing else: one mapping, plain scalars, no tags, no anchors, no duplicate keys.
Scalars follow YAML 1.2's core schema, so that ``1e-3`` is a number, ``no`` is a string and ``1:30``
and ``012`` are not silently 90 and 10. Sequences become tuples, which suits frozen models.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

MAX_FILE_BYTES = 1 << 20

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[str | int, ...]
Position = tuple[int, int]


class YamlFileError(ValueError):
    """A file that says something it may not: one line, file:line:column first."""


class _CoreSchemaLoader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's implicit types in place of YAML 1.1's."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


_DIGITS = "(0|[1-9][0-9]*)"
_EXPONENT = "[eE][-+]?[0-9]+"
for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"null|~|", "n~\0"),
    ("int", rf"[-+]?{_DIGITS}", "-+0123456789"),
    ("float", rf"[-+]?(\.[0-9]+|{_DIGITS}(\.[0-9]*)?)({_EXPONENT})?", "-+.0123456789"),
    ("float", r"[-+]?\.inf|\.nan", "-+."),
):
    _CoreSchemaLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        ["" if char == "\0" else char for char in _first],
    )


@dataclass
class Document:
    """A parsed file: its data, and where each key and value stands."""

    path: Path
    data: dict[str, Any]
    keys: dict[Location, Position] = field(default_factory=dict)
    values: dict[Location, Position] = field(default_factory=dict)

    def error(self, location: Location, message: str, at_key: bool = False) -> YamlFileError:
        """The error for a place in this file; an unknown place counts as its nearest parent."""
        places = self.keys if at_key else self.values
        nearest = location
        while nearest and nearest not in places:
            nearest = nearest[:-1]
        line, column = places.get(nearest, (1, 1))
        name = ".".join(str(part) for part in location)
        return YamlFileError(f"{self.path}:{line}:{column}: {name + ': ' if name else ''}{message}")


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the candidate nearest to name, else an empty string."""
    near = difflib.get_close_matches(name, list(candidates), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def read_document(path: Path) -> Document:
    """Parse one file.

    Raises:
        YamlFileError: unreadable, too large, not one mapping, or using what such files may not use.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise YamlFileError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise YamlFileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{path}: is not UTF-8 text") from error
    document = Document(path, {})
    try:
        _refuse_aliases(document, text)
        root = yaml.compose(text, Loader=_CoreSchemaLoader)
    except yaml.MarkedYAMLError as error:
        line, column = _position(error.problem_mark)
        raise YamlFileError(f"{path}:{line}:{column}: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        raise YamlFileError(f"{path}:1:1: {error.reason}") from error
    if not isinstance(root, yaml.MappingNode):
        raise YamlFileError(f"{path}:1:1: expected a mapping of keys to values")
    document.data = _construct(document, root, ())
    return document


def validate(document: Document, model: type[Model]) -> Model:
    """The document as a model.

    Raises:
        YamlFileError: the first thing that the model objects to.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise _explain(document, error, model) from error


def load_yaml(path: Path, model: type[Model]) -> Model:
    """Read and validate one file; see read_document and validate for what is raised."""
    return validate(read_document(path), model)


def _refuse_aliases(document: Document, text: str) -> None:
    for event in yaml.parse(text, Loader=_CoreSchemaLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            line, column = _position(event.start_mark)
            raise YamlFileError(
                f"{document.path}:{line}:{column}: anchors and aliases are not supported; "
                "write the value out"
            )


def _construct(document: Document, node: yaml.Node, location: Location) -> Any:
    document.values[location] = _position(node.start_mark)
    if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
        return _construct_mapping(document, node, location)
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        items = enumerate(node.value)
        return tuple(_construct(document, item, (*location, index)) for index, item in items)
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    converters: dict[str, Callable[[str], Any]] = {
        "str": str,
        "int": int,
        "float": _to_float,
        "bool": lambda text: text == "true",
    }
    if isinstance(node, yaml.ScalarNode) and kind == "null":
        return None
    if isinstance(node, yaml.ScalarNode) and kind in converters:
        return converters[kind](node.value)
    raise document.error(location, f"tag {node.tag!r} is not allowed; files are plain data")


def _construct_mapping(
    document: Document, node: yaml.MappingNode, location: Location
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise document.error(location, "keys must be plain names")
        place = (*location, key_node.value)
        if place in document.keys:
            first = document.keys[place][0]
            document.keys[place] = _position(key_node.start_mark)
            raise document.error(place, f"duplicate key (first at line {first})", at_key=True)
        document.keys[place] = _position(key_node.start_mark)
        data[key_node.value] = _construct(document, value_node, place)
    return data


def _to_float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _position(mark: Any) -> Position:
    # PyYAML's two parsers have marks of their own.
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _explain(document: Document, error: ValidationError, model: type[BaseModel]) -> YamlFileError:
    """One line for the first complaint, in the words of somebody who wants to help."""
    # A misspelt key is the cause when a required one is missing.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    location: Location = first["loc"]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(location[-1]), _field_names(model))
        return document.error(location, f"unknown key{hint}", at_key=True)
    if first["type"] == "missing":
        return document.error(location, "required key is missing")
    if isinstance(first["input"], str) and "expected" in first.get("ctx", {}):
        expected = re.findall(r"'([^']*)'", str(first["ctx"]["expected"]))
        message += did_you_mean(first["input"], expected)
    elif isinstance(first["input"], bool) and "string" in first["type"]:
        message += f", got {str(first['input']).lower()}; quote it if it is a name"
    elif first["type"] != "value_error" and isinstance(first["input"], str | int | float):
        message += f", got {first['input']!r}"
    return document.error(location, message)


def _field_names(model: type[BaseModel]) -> set[str]:
    schema = model.model_json_schema()
    tables = [schema, *schema.get("$defs", {}).values()]
    return {name for table in tables for name in table.get("properties", {})}
