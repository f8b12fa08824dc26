"""quantize: the one call that turns a tensor into codes and scales."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from formats import BlockFormat
from kernels.hadamard import Hadamard
from kernels.quantized import Quantized
from kernels.reference import Plan, quantize_reference
from kernels.rounding import Draws

FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def quantize(
    x: Tensor,
    fmt: BlockFormat,
    axis: int = -1,
    rounding: Literal["nearest", "stochastic"] = "nearest",
    hadamard: Hadamard | None = None,
    seed: int | Draws | None = None,
    backend: Literal["auto", "reference"] = "auto",
) -> Quantized:
    """Quantise a tensor in blocks along an axis.

    Args:
        x: float32, bfloat16 or float16 of any shape and strides; it is not modified.
        fmt: a quantised format.
        axis: the contraction axis, along which blocks run; the other axes are flattened to rows.
        rounding: to nearest with ties to the even code, or stochastic.
        hadamard: rotate along the axis first, in FP32.
        seed: of stochastic rounding, or the full name of a stream of draws; None gives every call
            draws of its own.
        backend: "reference", or "auto" for the fastest path that equals it: on a GPU the fused
            kernel.

    Raises:
        ValueError: x has no such axis or another dtype, the format is high precision, or there is
            no such rounding or backend.
    """
    if fmt.is_high_precision:
        raise ValueError(f"format '{fmt.name}' is high precision: there is nothing to quantise")
    if x.dtype not in FLOAT_DTYPES:
        raise ValueError(f"quantize takes float32, bfloat16 or float16, not {x.dtype}")
    if not -x.dim() <= axis < x.dim():
        raise ValueError(f"axis {axis} does not exist in a tensor of shape {tuple(x.shape)}")
    if backend not in ("auto", "reference"):
        raise ValueError(f"backend is 'auto' or 'reference', not '{backend}'")
    plan = Plan(fmt, _draws(rounding, seed), hadamard)
    if backend == "reference" or not x.is_cuda:
        return quantize_reference(x, axis, plan)
    from kernels.triton_encode import quantize_fused

    return quantize_fused(x, axis, plan)


def _draws(rounding: str, seed: int | Draws | None) -> Draws | None:
    if rounding == "nearest":
        return None
    if rounding != "stochastic":
        raise ValueError(f"rounding is 'nearest' or 'stochastic', not '{rounding}'")
    if seed is None:
        return Draws.fresh()
    return seed if isinstance(seed, Draws) else Draws(seed=seed)
