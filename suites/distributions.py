"""Distributions: synthetic tensors whose blocks look like those of training, and how to draw them.

    gaussian   N(0, 1): weights, and what any tensor tends to under a large Hadamard transform
    laplace    density exp(-|x|)/2: heavier tails student-t  3 degrees of freedom: heavy tails,
    finite variance, infinite kurtosis outliers   99 % N(0, 1) and 1 % N(0, 10^2), element by
    element swiglu     silu(g) * u of two N(0, 1.5^2): the input of a SwiGLU's down projection. It
    reproduces
               what arXiv:2606.20381 reports for that tensor of a real model

All are symmetric about 0 or nearly so, and drawn independently: outliers of real activations also
cluster in channels, which only a real run shows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

STUDENT_T_FREEDOM = 3
OUTLIER_SHARE = 0.01
OUTLIER_SIGMA = 10.0
SWIGLU_SIGMA = 1.5


def _gaussian(shape: tuple[int, int], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _laplace(shape: tuple[int, int], generator: Generator) -> Tensor:
    magnitude = torch.empty(shape).exponential_(generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < 0.5, -magnitude, magnitude)


def _student_t(shape: tuple[int, int], generator: Generator) -> Tensor:
    squares = torch.randn((STUDENT_T_FREEDOM, *shape), generator=generator).square()
    return _gaussian(shape, generator) / squares.mean(dim=0).sqrt()


def _outliers(shape: tuple[int, int], generator: Generator) -> Tensor:
    is_outlier = torch.rand(shape, generator=generator) < OUTLIER_SHARE
    return _gaussian(shape, generator) * torch.where(is_outlier, OUTLIER_SIGMA, 1.0)


def _swiglu(shape: tuple[int, int], generator: Generator) -> Tensor:
    gate, up = (SWIGLU_SIGMA * _gaussian(shape, generator) for _ in range(2))
    return F.silu(gate) * up


DISTRIBUTIONS: dict[str, Callable[[tuple[int, int], Generator], Tensor]] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "student-t": _student_t,
    "outliers": _outliers,
    "swiglu": _swiglu,
}


def draw(distribution: str, shape: tuple[int, int], seed: int) -> Tensor:
    """An FP32 tensor of a distribution; equal seeds give equal tensors."""
    return DISTRIBUTIONS[distribution](shape, Generator().manual_seed(seed))
