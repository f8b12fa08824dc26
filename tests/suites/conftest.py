"""Small texts and models, shared by the tests of the experiments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from suites.corpus import Corpus, CorpusSettings, load_corpus

WORDS = ["the", "of", "and", "to", "union", "states", "people", "government", "war", "peace"]


def write_text(path: Path, words: int, seed: int = 0) -> Path:
    """A file of random English-looking paragraphs."""
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(WORDS, k=12)) + ".\n\n" for _ in range(words // 12)]
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 250 kB of text in one file."""
    return write_text(tmp_path_factory.mktemp("text") / "text.txt", words=50_000)


@pytest.fixture(scope="session")
def corpus(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """That text as tokens of a vocabulary of 300."""
    settings = CorpusSettings(path=str(text_file), vocabulary=300)
    return load_corpus(settings, tmp_path_factory.mktemp("cache"))


@pytest.fixture
def wrong_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our quantisers give one wrong value."""
    from kernels import dispatch

    true = dispatch.emulate

    def wrong(x, treatments, dtype):
        results = true(x, treatments, dtype)
        results[0].values[0, 0] += 1
        return results

    monkeypatch.setattr(dispatch, "emulate", wrong)
