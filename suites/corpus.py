"""Corpus: documents as tokens, split into training and validation, with the bytes of each token.

The tokenizer is a byte-level BPE trained on the corpus' own training documents, so that nothing is
downloaded and a small vocabulary (4,096) leaves a small model most of its parameters for its
blocks. Losses in nats per token depend on the tokenizer; bits per byte do not:

    bits per byte = sum of the targets' losses in nats / (ln 2 * sum of the targets' bytes)

which is why the corpus knows how many bytes each token stands for (the end of a document: none).

Tokens are cached under a key made of the documents, their split, the vocabulary and the version of
`tokenizers`; a cache is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from suites.texts import SOTU, Document, read_documents

END_OF_TEXT = "<|endoftext|>"
BYTES = 256
MAX_VOCABULARY = 2**16  # tokens are kept as uint16

Tokens = np.ndarray[tuple[int], np.dtype[np.uint16]]


class CorpusSettings(BaseModel):
    """Which text is trained on, and in how many kinds of tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | list[str] = SOTU
    suffixes: list[str] = [".txt", ".md", ".rst", ".txt.gz", ".md.gz", ".rst.gz"]
    vocabulary: Annotated[int, Field(gt=BYTES, le=MAX_VOCABULARY)] = 4096


@dataclass(frozen=True)
class Corpus:
    """Two streams of tokens; every document ends with the end-of-text token.

    Attributes:
        token_bytes: bytes of text that each token of the vocabulary stands for.
        digest: SHA-256 (hex) of the documents and their split.
    """

    train: Tokens
    validation: Tokens
    token_bytes: Tokens
    digest: str

    @property
    def vocabulary(self) -> int:
        """Number of kinds of tokens."""
        return len(self.token_bytes)


def load_corpus(settings: CorpusSettings, cache_dir: Path) -> Corpus:
    """Read, split and tokenize the text, or take the tokens from the cache.

    Raises:
        ValueError: from reading the documents, or one side of the split is empty.
    """
    documents = read_documents(settings.path, settings.suffixes)
    if all(document.validates for document in documents):
        raise ValueError(f"corpus.path: {settings.path}: too short to hold out validation text")
    digest = digest_documents(documents)
    cached = cache_dir / f"tokens-{_cache_key(digest, settings.vocabulary)}.npz"
    if not cached.exists():
        _write_atomically(cached, _tokenize(documents, settings.vocabulary))
    with np.load(cached) as arrays:
        return Corpus(arrays["train"], arrays["validation"], arrays["token_bytes"], digest)


def digest_documents(documents: Iterable[Document]) -> str:
    """SHA-256 (hex) of the documents and their split."""
    parts = [f"{document.validates:d}{document.digest}" for document in documents]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _cache_key(digest: str, vocabulary: int) -> str:
    import tokenizers

    facts = f"{digest} {vocabulary} {tokenizers.__version__}"
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _tokenize(documents: list[Document], vocabulary: int) -> dict[str, Tokens]:
    """The arrays of a Corpus, by name."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.encode_special_tokens = True  # a text that spells the special token out is still text
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = {side: [d.text for d in documents if d.validates == side] for side in (False, True)}
    tokenizer.train_from_iterator(texts[False], trainer)
    # In a byte-level vocabulary each character of an entry stands for one byte.
    lengths = {index: len(entry) for entry, index in tokenizer.get_vocab().items()}
    end_of_text = tokenizer.get_vocab()[END_OF_TEXT]
    lengths[end_of_text] = 0

    def encode(side: bool) -> Tokens:
        encoded = tokenizer.encode_batch(texts[side])
        return np.concatenate([np.array([*each.ids, end_of_text], np.uint16) for each in encoded])

    token_bytes = np.array([lengths[index] for index in range(len(lengths))], np.uint16)
    return {"train": encode(False), "validation": encode(True), "token_bytes": token_bytes}


def _write_atomically(path: Path, arrays: dict[str, Tokens]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(file.name, path)
