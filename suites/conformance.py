"""conformance: bit-exact vectors of each format for any quantiser, and a check of its answers.

`--suite conformance` writes a file of JSON lines per format, `vectors/NAME.jsonl` in the run
folder. Whoever wants to be checked computes the answers (`ANSWERS`) to the inputs and writes the
same records with them; `--check FILE` compares. `docs/conformance.md` describes the records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from formats import BlockFormat, list_formats, load_format
from suites.experiment import Cell, Context, Selection
from suites.rows import Row, emulated
from suites.vectors import ANSWERS, format_record, vectors

SECONDS_PER_FORMAT = 1.0
SHOWN_DIFFERENCES = 10


class ConformanceSettings(BaseModel):
    """`formats`: names or files; empty means all quantised formats of the library."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    formats: list[str] = []


class Conformance:
    """The experiment behind the suite `conformance`."""

    kind: ClassVar[str] = "conformance"
    Settings: ClassVar[type[BaseModel]] = ConformanceSettings

    def cells(self, settings: ConformanceSettings, selection: Selection) -> list[Cell]:
        """One cell per format.

        Raises:
            ValueError: a high-precision format, or a recipe, which has no meaning here.
        """
        if selection.recipes:
            raise ValueError("--recipe: the suite has vectors of formats; name them with --format")
        names = list(selection.formats) or settings.formats or _quantised_formats()
        formats = [(name, _load_quantised(name)) for name in names]
        return [Cell(self.kind, fmt.name, {"format": name}, (fmt.digest,)) for name, fmt in formats]

    def run(self, cell: Cell, context: Context) -> Iterable[Row]:
        """Write the format's file; the row tells where it is and what it must hash to."""
        fmt = load_format(cell.config["format"])
        records = list(vectors(fmt))
        lines = [json.dumps(record, allow_nan=False) for record in (format_record(fmt), *records)]
        text = "\n".join(lines) + "\n"
        path = context.run_dir / "vectors" / f"{fmt.name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        elements = sum(len(record["input"]) for record in records)
        yield Row(
            kind=self.kind,
            config={"format": fmt.name},
            values={
                "vectors": emulated(len(records), "1"),
                "elements": emulated(elements, "1"),
            },
            facts={
                "file": path.relative_to(context.run_dir).as_posix(),
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
            },
        )

    def estimate_seconds(self, cell: Cell) -> float:
        """About the same for all."""
        return SECONDS_PER_FORMAT

    def derive(self, rows: Sequence[Row]) -> list[Row]:
        """Nothing: each row stands for itself."""
        return []


@dataclass(frozen=True)
class Difference:
    """One number that differs; ``index`` counts the elements or blocks of the vector."""

    vector: str
    answer: str
    index: int
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.vector}: {self.answer}[{self.index}]: {self.theirs}, expected {self.ours}"


def check(path: Path) -> int:
    """Check a file of answers and print what differs.

    Returns:
        Exit status: 0 when all answers are right, 1 when any is not.

    Raises:
        ValueError: the file cannot be read, answers nothing, or answers other vectors than ours.
    """
    answered, differences = 0, []
    known: dict[str, dict[str, dict[str, Any]]] = {}
    for where, record in _read_answers(path):
        name = record["format"]
        if name not in known:
            known[name] = {vector["id"]: vector for vector in vectors(_load_quantised(name))}
        differences += list(compare_answer(where, record, known[name].get(record["id"])))
        answered += 1
    if not answered:
        raise ValueError(f"{path}: no vector is answered")
    for difference in differences[:SHOWN_DIFFERENCES]:
        print(difference)
    asked = sum(len(of_format) for of_format in known.values())
    print(
        f"{answered} of {asked} vectors of {', '.join(known)} answered, "
        f"{len({d.vector for d in differences})} wrong, {len(differences)} numbers differ"
    )
    return 1 if differences else 0


def compare_answer(
    where: str, theirs: dict[str, Any], ours: dict[str, Any] | None
) -> Iterator[Difference]:
    """The numbers of one record that differ from ours.

    Raises:
        ValueError: not a vector of ours, of another version of the format, or without an answer.
    """
    if ours is None:
        raise ValueError(f"{where}: unknown vector '{theirs['id']}'")
    for fact in ("digest", "rounding", "shape", "input", "random_bits"):
        if fact in theirs and theirs[fact] != ours.get(fact):
            raise ValueError(f"{where}: {fact} of '{theirs['id']}' is not that of our vector")
    answers = [answer for answer in ANSWERS if answer in theirs]
    if not answers:
        raise ValueError(f"{where}: '{theirs['id']}' has none of {', '.join(ANSWERS)}")
    for answer in answers:
        left, right = _as_list(ours[answer]), _as_list(theirs[answer])
        if len(left) != len(right):
            raise ValueError(
                f"{where}: {answer} of '{theirs['id']}' has {len(right)} numbers, not {len(left)}"
            )
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            if a != b:
                yield Difference(theirs["id"], answer, index, str(a), str(b))


def _as_list(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else [answer]


def _read_answers(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The vector records of a file, each with its place."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as text: {error}") from error
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where}:{error.colno}: not JSON: {error.msg}") from error
        if not isinstance(record, dict) or record.get("record") not in ("format", "vector"):
            raise ValueError(f'{where}: \'record\' must be "format" or "vector"')
        if record["record"] == "vector":
            if not all(isinstance(record.get(key), str) for key in ("id", "format")):
                raise ValueError(f"{where}: a vector has an 'id' and a 'format'")
            yield where, record


def _quantised_formats() -> list[str]:
    names = [entry.name for entry in list_formats() if entry.error is None]
    return [name for name in names if not load_format(name).is_high_precision]


def _load_quantised(name: str) -> BlockFormat:
    fmt = load_format(name)
    if fmt.is_high_precision:
        raise ValueError(f"format '{fmt.name}' is high precision: it has no vectors")
    return fmt
