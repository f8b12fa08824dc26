"""What a model does between its GEMMs, each as one pass over memory on a GPU.

A small model spends more time here than in its matrix multiplications when every operation reads
and writes memory. Compiled one by one, these functions serve all models of a process; a compiled
model would be compiled anew for every cell of a study.

Shape suffixes: B sequences, T tokens, D width, H heads, d head width, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.compiling import compiled_on_gpu


@compiled_on_gpu()
def rms_norm(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Divide by the root mean square of the last axis and multiply by weight; in `dtype`."""
    return F.rms_norm(x, weight.shape, weight).to(dtype)


def _gated(gate_up: Tensor) -> Tensor:
    """SwiGLU's product silu(gate) * up of the two halves of the last axis."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


gated = compiled_on_gpu()(_gated)
# An expert of a mixture sees another number of tokens every time: one kernel for all, but slower.
gated_ragged = compiled_on_gpu(dynamic=True)(_gated)


@compiled_on_gpu()
def split_heads(
    qkv_BTD: Tensor, cosine: Tensor, sine: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys (both rotated by their positions) and values, each (B, H, T, d)."""
    q_BHTd, k_BHTd, v_BHTd = qkv_BTD.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    # A copy: values that were a view would get a gradient of their own to add to the others'.
    v_BHTd = v_BHTd.clone(memory_format=torch.contiguous_format)
    return rotate(q_BHTd, cosine, sine), rotate(k_BHTd, cosine, sine), v_BHTd


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate the pairs (i, i + half) of the last axis by the angle of their position."""
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1).type_as(x)


@compiled_on_gpu()
def cross_entropy(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean loss in nats per token, computed in FP32."""
    return F.cross_entropy(logits_BTV.flatten(0, -2).float(), targets_BT.flatten())
