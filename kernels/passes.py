"""The passes over memory that emulation is made of, compiled for the CPU where that is possible.

A tensor is seen as fibres [A, n, B]: what belongs together (a block, a piece of the Hadamard
transform, eight elements that share a draw) lies along n, and everything else is independent. With
the contraction first, B runs over the rows, is contiguous and fills the vector registers. What one
pass computes is kept in memory for the next: a compiler that fused them would compute it once for
each of its uses.

Compiled code must equal eager code. So signed integers never overflow here, which C++ leaves
undefined, and no rounding is left to a cast, which a compiler may drop.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from formats import Grid, ScaleRule
from kernels.rounding import COLUMNS_PER_CALL, KEY_STEPS, MULTIPLIERS, ROUNDS, WORD, Draws
from kernels.scaling import TensorScale, encode_elements

TOP_BIT = -(1 << 31)
LARGEST_BUTTERFLY = 16
# One variant of a pass per format, rounding and dtype: a study of all formats needs dozens.
VARIANTS = 256
# Keeps a butterfly's intermediate sums in registers instead of in memory.
UNROLLED = {"realize_reads_threshold": 64, "realize_opcount_threshold": 512}


@dataclass(frozen=True)
class CpuPath:
    """What runs on CPU tensors, ``compiled`` or ``eager``, and why."""

    name: str
    reason: str


@functools.cache
def cpu_path() -> CpuPath:
    """Whether passes run compiled, found out by compiling a trivial function once."""
    try:
        torch.compile(torch.neg)(torch.zeros(16))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        return CpuPath("eager", f"torch.compile does not work here: {reason}")
    return CpuPath("compiled", "torch.compile works here")


@contextlib.contextmanager
def _compiler_settings() -> Iterator[None]:
    """Set by hand, as the configurations' own ``patch`` takes a tenth of a millisecond.

    A float is a constant of its variant, where as an input it would be computed with in double.
    And sizes that agree by chance are not taken to agree always: that would mean recompiling.
    """
    from torch.fx.experimental import _config as shapes

    dynamo = torch._dynamo.config
    saved = dynamo.recompile_limit, dynamo.specialize_float, shapes.use_duck_shape
    dynamo.recompile_limit, dynamo.specialize_float, shapes.use_duck_shape = VARIANTS, True, False
    try:
        yield
    finally:
        dynamo.recompile_limit, dynamo.specialize_float, shapes.use_duck_shape = saved


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a function compiled when its first tensor is on the CPU, as ``cpu_path`` says."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.cache
        def build() -> Callable[..., Any]:
            return torch.compile(function, dynamic=True, fullgraph=True, options=options)

        @functools.wraps(function)
        def call(first: Tensor, *others: Any) -> Any:
            if first.device.type != "cpu" or not first.numel() or cpu_path().name == "eager":
                return function(first, *others)
            with _compiler_settings():
                return build()(first, *others)

        return call

    return decorate


@dataclass(frozen=True)
class Rounding:
    """Rounding to a grid without a table: neighbours of t are a power of two apart.

    Half to even is then half to the even code: an integer grid's codes alternate from zero, and so
    do a minifloat's as long as it has a mantissa bit.

    Attributes:
        limit: the grid's largest magnitude.
        finest: distance of neighbours at zero.
        edges: magnitudes from each of which on the distance is twice that before it.
    """

    limit: float
    finest: float
    edges: tuple[float, ...]

    @classmethod
    @functools.cache
    def of(cls, grid: Grid) -> Rounding | None:
        """None for a grid that only its table describes."""
        if grid.step is not None and grid.is_symmetric and math.frexp(grid.step)[0] == 0.5:
            return cls(grid.max, grid.step, ())
        spec = grid.float_spec
        if spec is None or spec.mantissa == 0:
            return None
        return cls._of_float(grid.max, spec.min_exponent, spec.mantissa)

    @classmethod
    @functools.cache
    def of_scale(cls, rule: ScaleRule) -> Rounding | None:
        """The same for stored scales, None unless they are minifloats."""
        if rule.format.kind != "minifloat":
            return None
        return cls._of_float(rule.max, 1 - rule.format.bias, rule.format.mantissa)

    @classmethod
    def _of_float(cls, limit: float, min_exponent: int, mantissa: int) -> Rounding:
        max_exponent = math.frexp(limit)[1] - 1
        edges = tuple(2.0**e for e in range(min_exponent + 1, max_exponent + 1))
        return cls(limit, 2.0 ** (min_exponent - mantissa), edges)

    def __call__(self, t: Tensor, bits16: Tensor | None) -> Tensor:
        """Grid values of FP32 t, rounded as in ``reference``."""
        magnitude = t.abs().clamp(max=self.limit)
        step = self._spacing(magnitude)
        position = magnitude / step
        if bits16 is None:
            return torch.copysign(position.round() * step, t)
        low = position.floor()
        up = bits16.float() + 0.5 < (position - low) * 65536.0
        return torch.copysign((low + up) * step, t)

    def _spacing(self, magnitude: Tensor) -> Tensor | float:
        """By comparison: reading the exponent's bits keeps a CPU compiler from vectorising."""
        step: Tensor | float = self.finest
        for binade, edge in enumerate(self.edges, 1):
            step = torch.where(magnitude >= edge, self.finest * 2.0**binade, step)
        return step


@compiled()
def amax(x_AnB: Tensor) -> Tensor:
    """Largest magnitude of each fibre, FP32 [A, B]."""
    return x_AnB.float().abs().amax(1)


@compiled()
def round_scales(ratio: Tensor, rounding: Rounding) -> Tensor:
    """Stored minifloat scales, of ratio's shape."""
    return rounding(ratio, None)


@compiled()
def round_blocks(
    x_AnB: Tensor,
    stored_A1B: Tensor,
    bits16_AnB: Tensor | None,
    scale: TensorScale | None,
    rounding: Rounding,
) -> Tensor:
    """Element times block scale, FP32 [A, n, B]."""
    t_AnB = encode_elements(x_AnB.float(), stored_A1B, scale)
    return rounding(t_AnB, bits16_AnB) * stored_A1B


@compiled()
def squared_errors(
    x_AnB: Tensor, stored_A1B: Tensor, scale: TensorScale, rounding: Rounding
) -> Tensor:
    """Squared error of each element rounded to nearest, FP32 [A, n, B]."""
    x_AnB = x_AnB.float()
    q_AnB = rounding(encode_elements(x_AnB, stored_A1B, scale), None)
    return (q_AnB * stored_A1B * scale.decode - x_AnB).square()


def hadamard(x_KR: Tensor, signs: Tensor) -> Tensor:
    """Rotate along the first axis, FP32 [K, R], with the sums of ``kernels.hadamard.rotate``."""
    length, size = x_KR.shape[0], signs.numel()
    signs_K = signs.float().repeat(length // size)
    rotated, stride = x_KR, 1
    while stride < size or rotated is x_KR:
        width = min(LARGEST_BUTTERFLY, size // stride)
        rotated = _butterfly(
            rotated.view(length // (stride * width), width, stride * x_KR.shape[1]),
            signs_K.view(-1, width, 1) if stride == 1 else None,
            1.0 / math.sqrt(size) if stride * width == size else None,
        )
        stride *= width
    return rotated.view(x_KR.shape)


@compiled(**UNROLLED)
def _butterfly(x_AnB: Tensor, signs_An1: Tensor | None, factor: float | None) -> Tensor:
    parts = [part.float() for part in x_AnB.unbind(1)]
    if signs_An1 is not None:
        parts = [part * signs_An1[:, index] for index, part in enumerate(parts)]
    stride = 1
    while stride < len(parts):
        pairs = [(index & ~stride, index | stride) for index in range(len(parts))]
        parts = [
            parts[low] - parts[high] if index & stride else parts[low] + parts[high]
            for index, (low, high) in enumerate(pairs)
        ]
        stride *= 2
    if factor is not None:
        parts = [part * factor for part in parts]
    return torch.stack(parts, 1)


def draw_bits16(draws: Draws, like_KR: Tensor) -> Tensor:
    """``draws.bits16`` for a tensor with the contraction first: int32 [K, R], by 32-bit words."""
    (columns, rows), device = like_KR.shape, like_KR.device
    groups, first = -(-columns // COLUMNS_PER_CALL), draws.column // COLUMNS_PER_CALL
    wide = (
        torch.arange(first, first + groups, device=device).unsqueeze(1),
        torch.arange(draws.row, draws.row + rows, device=device).unsqueeze(0),
        torch.as_tensor(draws.step, device=device),
        torch.tensor(draws.stream, device=device),
    )
    counter = [word.to(torch.int32) for word in wide]
    keys = torch.tensor(_round_keys(draws.seed), dtype=torch.int32, device=device)
    first_half, second_half = keys.split(ROUNDS // 2)
    words = _first_rounds(*counter, first_half)
    return _last_rounds(*words, second_half).flatten(0, 1)[:columns]


def _round_keys(seed: int) -> list[list[int]]:
    """Both keys of each round, with the top bit flipped as ``_multiply`` flips the high words."""
    start = (seed & WORD, seed >> 32 & WORD)
    return [
        [_signed(key + turn * by) ^ TOP_BIT for key, by in zip(start, KEY_STEPS, strict=True)]
        for turn in range(ROUNDS)
    ]


def _philox_rounds(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, keys: Tensor) -> list[Tensor]:
    for turn in range(keys.shape[0]):
        high0, low0 = _multiply(c0, MULTIPLIERS[0])
        high1, low1 = _multiply(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ keys[turn, 0], low1, high0 ^ c3 ^ keys[turn, 1], low0
    return [c0, c1, c2, c3]


# Two passes, because compiling takes far longer than linearly in the number of rounds.
_first_rounds = compiled()(_philox_rounds)


@compiled()
def _last_rounds(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, keys: Tensor) -> Tensor:
    words = _philox_rounds(c0, c1, c2, c3, keys)
    return torch.stack([half for w in words for half in (w & 0xFFFF, w >> 16 & 0xFFFF)], 1)


def _multiply(word: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """High word with its top bit flipped, and low word, of an unsigned 32 x 32 bit product.

    With halves of the multiplier taken as signed, no product or sum leaves int32; the signed
    multiplier is 2^32 too small, which adds the word to the high half, offset by 2^31 to stay in.
    """
    signed = _signed(multiplier)
    by_low = _signed(signed << 16) >> 16
    by_high = (signed - by_low) >> 16
    low, high = word & 0xFFFF, word >> 16 & 0xFFFF
    lowest = low * by_low
    middle = high * by_low + (lowest >> 16)
    cross = low * by_high + (middle & 0xFFFF)
    top = high * by_high + (middle >> 16) + (cross >> 16)
    return top + (word ^ TOP_BIT), cross << 16 | lowest & 0xFFFF


def _signed(word: int) -> int:
    """The int32 with a word's low 32 bits."""
    return ((word & WORD) ^ (1 << 31)) - (1 << 31)
