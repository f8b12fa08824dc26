"""Tokens of a corpus: the same every time, counted in bytes, cached whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from suites.corpus import Corpus, CorpusSettings, load_corpus
from suites.texts import read_documents


def test_every_byte_of_the_text_is_counted_once(corpus: Corpus, text_file: Path) -> None:
    counted = sum(int(corpus.token_bytes[side].sum()) for side in (corpus.train, corpus.validation))
    assert counted == len(text_file.read_bytes())


def test_each_document_ends_with_one_token_without_bytes(corpus: Corpus, text_file: Path) -> None:
    documents = read_documents(str(text_file), [".txt"])
    ends = sum(
        int((corpus.token_bytes[side] == 0).sum()) for side in (corpus.train, corpus.validation)
    )
    assert ends == len(documents)


def test_multi_byte_characters_count_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(
        "\n\n".join(f"caf\u00e9 \u20ac{n} \U0001f600" for n in range(9000))
    )
    corpus = load_corpus(CorpusSettings(path=str(tmp_path), vocabulary=260), tmp_path / "cache")
    counted = sum(int(corpus.token_bytes[side].sum()) for side in (corpus.train, corpus.validation))
    assert counted == len((tmp_path / "text.txt").read_bytes())


def test_text_that_spells_the_special_token_is_text(tmp_path: Path, text_file: Path) -> None:
    spelt = text_file.read_text() + "<|endoftext|>" * 100
    (tmp_path / "text.txt").write_text(spelt)
    corpus = load_corpus(CorpusSettings(path=str(tmp_path), vocabulary=300), tmp_path / "cache")
    counted = sum(int(corpus.token_bytes[side].sum()) for side in (corpus.train, corpus.validation))
    assert counted == len(spelt)


def test_cache_gives_the_same_tokens_and_retraining_too(
    corpus: Corpus, text_file: Path, tmp_path: Path
) -> None:
    settings = CorpusSettings(path=str(text_file), vocabulary=300)
    for _ in range(2):  # trained, then cached
        again = load_corpus(settings, tmp_path)
        assert np.array_equal(again.train, corpus.train)
        assert np.array_equal(again.validation, corpus.validation)
        assert again.train.dtype == np.uint16
    assert [file.suffix for file in tmp_path.iterdir()] == [".npz"]


def test_cache_is_keyed_by_vocabulary_and_text(text_file: Path, tmp_path: Path) -> None:
    load_corpus(CorpusSettings(path=str(text_file), vocabulary=300), tmp_path / "cache")
    load_corpus(CorpusSettings(path=str(text_file), vocabulary=301), tmp_path / "cache")
    (tmp_path / "other.txt").write_text(text_file.read_text() + "more")
    load_corpus(
        CorpusSettings(path=str(tmp_path / "other.txt"), vocabulary=300), tmp_path / "cache"
    )
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_text_of_one_piece_has_nothing_to_hold_out(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a few words")
    with pytest.raises(ValueError, match="too short to hold out"):
        load_corpus(CorpusSettings(path=str(tmp_path)), tmp_path / "cache")


@pytest.mark.parametrize("vocabulary", [256, 65_537])
def test_vocabulary_holds_all_bytes_and_fits_its_dtype(vocabulary: int) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        CorpusSettings(vocabulary=vocabulary)
