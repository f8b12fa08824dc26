"""Batches: which sequences a training step sees, as a function of the seed and the step alone.

Sequences are neighbours in the stream of training tokens; each epoch visits all of them once in an
order drawn from (seed, epoch). A batch is thus a pure function of its number: there is no state to
save, every recipe of a seed sees the same batches in the same order, and a resumed run goes on with
the batch that the uninterrupted one would have had.

    sequence i of the run = order[seed, i // sequences][i % sequences]

Shape suffixes: B sequences of a batch, T tokens of a sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from suites.corpus import Corpus, Tokens


class Batches:
    """Batches of (inputs, targets), targets being the inputs one token on.

    Args:
        tokens: the training stream.
        batch: sequences of a batch (B).
        sequence: tokens of a sequence (T).
        device: where the stream is kept and the batches appear.
        seed: with the epoch, decides the order.

    Raises:
        ValueError: the stream is too short for one sequence.
    """

    def __init__(
        self, tokens: Tokens, batch: int, sequence: int, device: torch.device, seed: int
    ) -> None:
        self.batch, self.sequence, self.seed = batch, sequence, seed
        self.sequences = count_sequences(tokens, sequence, "training")
        self.stream = torch.from_numpy(tokens.astype(np.int32)).to(device)
        self._order = lru_cache(maxsize=2)(self._shuffle)  # a batch may straddle two epochs

    def __call__(self, number: int) -> tuple[Tensor, Tensor]:
        """Batch by number: (inputs_BT, targets_BT), both int64."""
        indices = range(number * self.batch, (number + 1) * self.batch)
        chosen = [self._order(i // self.sequences)[i % self.sequences] for i in indices]
        return cut_sequences(self.stream, torch.tensor(chosen), self.sequence)

    def order(self, batches: int) -> Tensor:
        """Which sequences the first batches hold, (batches, B), int64, where the stream is kept."""
        total = batches * self.batch
        epochs = [self._shuffle(epoch) for epoch in range(-(-total // self.sequences))]
        order = np.concatenate(epochs)[:total].reshape(batches, self.batch)
        return torch.from_numpy(order).to(self.stream.device)

    def epochs(self, batches: int) -> float:
        """How often the text is passed over in so many batches."""
        return batches * self.batch / self.sequences

    def check_epochs(self, batches: int, limit: float) -> None:
        """Refuse a run that repeats the text too often.

        Raises:
            ValueError: more epochs than the limit.
        """
        if self.epochs(batches) > limit:
            raise ValueError(
                f"training.steps: {batches} batches of {self.batch} x {self.sequence} tokens are "
                f"{self.epochs(batches):.2f} epochs of the text, training.max_epochs is {limit:g}"
            )

    def _shuffle(self, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.random.default_rng((self.seed, epoch)).permutation(self.sequences)


@dataclass(frozen=True)
class Validation:
    """A fixed validation set.

    Attributes:
        batches: pairs of inputs and targets, as from Batches.
        bytes_per_token: mean bytes of text that a target stands for.
    """

    batches: list[tuple[Tensor, Tensor]]
    bytes_per_token: float

    def bits_per_byte(self, loss: float) -> float:
        """Bits per byte of text of a mean loss in nats per token."""
        return loss / math.log(2) / self.bytes_per_token


def make_validation(
    corpus: Corpus, batch: int, sequence: int, device: torch.device, count: int
) -> Validation:
    """`count` sequences (or all, if fewer), evenly spread over the validation text.

    Raises:
        ValueError: the validation text is too short for one sequence.
    """
    available = count_sequences(corpus.validation, sequence, "validation")
    count = min(count, available)
    chosen = torch.arange(count) * available // count
    stream = torch.from_numpy(corpus.validation.astype(np.int32)).to(device)
    batches = [cut_sequences(stream, part, sequence) for part in chosen.split(batch)]
    targets = torch.cat([targets.flatten() for _, targets in batches]).cpu().numpy()
    return Validation(batches, float(corpus.token_bytes[targets].mean()))


def count_sequences(tokens: Tokens, sequence: int, side: str) -> int:
    """Whole sequences of a stream, the last token being a target only.

    Raises:
        ValueError: there is none.
    """
    count = (len(tokens) - 1) // sequence
    if count < 1:
        raise ValueError(
            f"corpus.path: the {side} text has {len(tokens)} tokens, too short for one sequence of "
            f"{sequence} and its last target"
        )
    return count


def cut_sequences(stream: Tensor, chosen: Tensor, sequence: int) -> tuple[Tensor, Tensor]:
    """(inputs_BT, targets_BT) of the chosen sequence numbers."""
    starts = chosen.to(stream.device) * sequence
    positions = starts[:, None] + torch.arange(sequence, device=stream.device)
    return stream[positions].long(), stream[positions + 1].long()
