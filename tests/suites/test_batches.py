"""Batches: a function of seed and number alone, all the text once per epoch, up to a limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from suites.batches import Batches, make_validation
from suites.corpus import Corpus, Tokens

CPU = torch.device("cpu")


def stream(length: int) -> Tokens:
    return np.arange(length).astype(np.uint16)


def test_equal_seeds_give_equal_batches_in_any_order_of_asking() -> None:
    first, second = (Batches(stream(1000), 4, 10, CPU, seed=7) for _ in range(2))
    late_first = [second(number) for number in reversed(range(60))][::-1]
    for number, (inputs, targets) in enumerate(late_first):
        assert torch.equal(first(number)[0], inputs)
        assert torch.equal(first(number)[1], targets)


def test_other_seeds_and_other_epochs_have_another_order() -> None:
    one, other = (Batches(stream(1000), 99, 10, CPU, seed) for seed in (0, 1))
    assert not torch.equal(one(0)[0], other(0)[0])
    assert not torch.equal(one(0)[0], one(1)[0])


def test_each_epoch_passes_over_every_sequence_once() -> None:
    batches = Batches(stream(1001), batch=7, sequence=10, device=CPU, seed=0)
    starts = torch.cat([batches(number)[0][:, 0] for number in range(200)])
    for epoch in starts[:1400].view(14, 100):
        assert epoch.sort().values.tolist() == list(range(0, 1000, 10))


def test_targets_are_inputs_one_token_on() -> None:
    inputs, targets = Batches(stream(1000), 4, 10, CPU, seed=0)(3)
    assert inputs.shape == targets.shape == (4, 10)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(inputs + 1, targets)


def test_epochs_are_counted_and_limited() -> None:
    batches = Batches(stream(1001), batch=10, sequence=10, device=CPU, seed=0)
    assert batches.epochs(25) == 2.5
    batches.check_epochs(40, limit=4)
    with pytest.raises(ValueError, match="4.10 epochs of the text, training.max_epochs is 4"):
        batches.check_epochs(41, limit=4)


def test_text_shorter_than_a_sequence_is_refused() -> None:
    assert Batches(stream(11), 1, 10, CPU, seed=0).sequences == 1
    with pytest.raises(ValueError, match="10 tokens, too short for one sequence of 10"):
        Batches(stream(10), 1, 10, CPU, seed=0)


def test_validation_is_spread_over_the_text_and_counts_its_own_bytes() -> None:
    token_bytes = np.arange(1001).astype(np.uint16)
    corpus = Corpus(stream(0), stream(1001), token_bytes, digest="")
    validation = make_validation(corpus, batch=2, sequence=10, device=CPU, count=5)
    starts = torch.cat([inputs[:, 0] for inputs, _ in validation.batches])
    assert starts.tolist() == [0, 200, 400, 600, 800]
    targets = torch.cat([targets for _, targets in validation.batches])
    assert validation.bytes_per_token == pytest.approx(targets.double().mean().item())


def test_validation_takes_all_there_is_when_asked_for_more() -> None:
    corpus = Corpus(stream(0), stream(35), stream(40), digest="")
    validation = make_validation(corpus, batch=2, sequence=10, device=CPU, count=50)
    assert [len(inputs) for inputs, _ in validation.batches] == [2, 1]


def test_bits_per_byte_of_a_uniform_guess_over_bytes_is_eight() -> None:
    corpus = Corpus(stream(0), stream(200), np.ones(256, np.uint16), digest="")
    validation = make_validation(corpus, batch=2, sequence=10, device=CPU, count=4)
    assert validation.bits_per_byte(math.log(256)) == pytest.approx(8.0)
