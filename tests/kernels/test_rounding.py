"""Draws: Philox as published, and where each element's 16 bits come from."""

from __future__ import annotations

import pytest
import torch

from kernels.rounding import Draws, philox

CPU = torch.device("cpu")
# Random123's kat_vectors for philox4x32 with 10 rounds, the authors' own (Salmon et al., SC 2011).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = (torch.tensor(word) for word in counter)
    assert tuple(int(word) for word in philox((c0, c1, c2, c3), key)) == words


def test_bits_are_the_halves_of_the_words_of_an_elements_group() -> None:
    bits = Draws(seed=(3 << 32) | 2, step=5, stream=7, row=11, column=16).bits16(2, 9, CPU)
    assert bits.shape == (2, 9) and bits.dtype == torch.int32
    column, row, step, stream = (torch.tensor(value) for value in (3, 12, 5, 7))
    words = philox((column, row, step, stream), (2, 3))
    assert int(bits[1, 8]) == int(words[0]) & 0xFFFF
    column = torch.tensor(2)
    words = philox((column, row, step, stream), (2, 3))
    assert bits[1, :8].tolist() == [
        half for word in words for half in (int(word) & 0xFFFF, int(word) >> 16)
    ]


def test_a_part_draws_what_the_whole_draws_there() -> None:
    whole = Draws(seed=9).bits16(6, 40, CPU)
    part = Draws(seed=9, row=2, column=16).bits16(3, 11, CPU)
    assert torch.equal(part, whole[2:5, 16:27])


def test_the_step_may_be_a_tensor() -> None:
    """A captured graph reads it afresh at each replay."""
    plain = Draws(seed=1, step=2**33 + 3).bits16(2, 8, CPU)
    assert torch.equal(plain, Draws(seed=1, step=torch.tensor(2**33 + 3)).bits16(2, 8, CPU))


def test_seeds_of_64_bits_and_negative_ones_are_seeds() -> None:
    seeds = (0, 1, 1 << 32, (1 << 64) - 1, -2)
    drawn = {tuple(Draws(seed=seed).bits16(1, 8, CPU)[0].tolist()) for seed in seeds}
    assert len(drawn) == len(seeds)


def test_column_offsets_are_whole_groups() -> None:
    with pytest.raises(ValueError, match="column offset 4 must be a multiple of 8"):
        Draws(column=4)


def test_B47_unnamed_streams_never_repeat() -> None:
    first, second = Draws.fresh(), Draws.fresh()
    assert not torch.equal(first.bits16(1, 64, CPU), second.bits16(1, 64, CPU))
