"""Models: a small decoder of today's kind, dense or mixture-of-experts.

* RMSNorm before each sub-block and before the head, rotary positions, SwiGLU, no biases
* causal attention through scaled_dot_product_attention, so flash attention where there is one
* every GEMM that a recipe may quantise is an nn.Linear inside `blocks`; what recipes keep in high
  precision goes by the names `embedding`, `head`, `norm` and `router`
* initial weights are normal with variance 1/in-features; the layers that write to the residual
  stream are scaled down by sqrt(2 * layers), so that its variance does not grow with depth

A mixture has no capacity limit and drops no token: tokens are sorted by expert, each expert runs on
its own run of rows, also when that is empty (its gradients are then zeros, not None). The router
works in FP32 under any recipe and autocast, and equal scores go to the expert of the lower number.

Shape suffixes: B sequences, T tokens, D width, N = B*T, E experts, K experts per token, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.gemms import compute_dtype
from suites.elementwise import gated, gated_ragged, rms_norm, split_heads
from suites.sizes import ModelConfig

if TYPE_CHECKING:
    from kernels import Conversion

ROPE_BASE = 10_000.0


class Output(NamedTuple):
    """Logits (B, T, vocabulary) and the load-balance loss summed over blocks (0 if dense)."""

    logits: Tensor
    balance: Tensor


class LanguageModel(nn.Module):
    """Decoder language model of a given shape.

    Args:
        config: the shape.
        sequence: the longest sequence it will see, in tokens.
        seed: of the initial weights; the same seed gives the same weights on every device.
    """

    quantization: Conversion  # set by kernels.convert
    cosine: Tensor
    sine: Tensor

    def __init__(self, config: ModelConfig, sequence: int, seed: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.embedding.weight
        cosine, sine = rotary_tables(config.head_width, sequence)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)
        self._initialise(seed)

    @torch.no_grad()
    def _initialise(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                continue  # norms start at one
            writes_residual = name.endswith(("out.weight", "down.weight"))
            depth = 2 * self.config.layers if writes_residual else 1
            weight.normal_(std=1 / math.sqrt(weight.shape[1] * depth), generator=generator)

    def forward(self, tokens_BT: Tensor) -> Output:
        """Logits of the next token at each position."""
        rotary = self.cosine[: tokens_BT.shape[1]], self.sine[: tokens_BT.shape[1]]
        # The embedding is initialised as a head would be; this brings its rows to unit variance.
        x_BTD = self.embedding(tokens_BT) * math.sqrt(self.config.width)
        balance = x_BTD.new_zeros((), dtype=torch.float32)
        for block in self.blocks:
            x_BTD, block_balance = block(x_BTD, rotary)
            balance = balance + block_balance
        return Output(self.head(self.norm(x_BTD)), balance)


class RMSNorm(nn.RMSNorm):
    """nn.RMSNorm whose result is in the dtype that the next linear layer computes in."""

    def forward(self, x: Tensor) -> Tensor:
        """Divide by the root mean square, multiply by the weight."""
        return rms_norm(x, self.weight, compute_dtype(x))


class Block(nn.Module):
    """Attention, then a SwiGLU or a mixture; each reads the normalised stream and adds to it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.width)
        self.attention = Attention(config)
        self.mlp_norm = RMSNorm(config.width)
        self.mlp = Mixture(config) if config.experts else SwiGLU(config.width, config.hidden)

    def forward(self, x_BTD: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The stream after this block, and the block's load-balance loss."""
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), rotary)
        normed_BTD = self.mlp_norm(x_BTD)
        if isinstance(self.mlp, Mixture):
            update_BTD, balance = self.mlp(normed_BTD)
        else:
            update_BTD, balance = self.mlp(normed_BTD), x_BTD.new_zeros((), dtype=torch.float32)
        return x_BTD + update_BTD, balance


class Attention(nn.Module):
    """Causal multi-head attention with rotary positions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x_BTD: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """The update of the stream, x's shape."""
        q_BHTd, k_BHTd, v_BHTd = split_heads(self.qkv(x_BTD), *rotary, self.heads)
        mixed_BHTd = F.scaled_dot_product_attention(q_BHTd, k_BHTd, v_BHTd, is_causal=True)
        return self.out(mixed_BHTd.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)), gate and up in one GEMM; `product` is what lies between."""

    def __init__(
        self, width: int, hidden: int, product: Callable[[Tensor], Tensor] = gated
    ) -> None:
        super().__init__()
        self.product = product
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The update, x's shape; x may have no rows."""
        return self.down(self.product(self.gate_up(x)))


class Mixture(nn.Module):
    """Top-k mixture of SwiGLU experts.

    The load-balance loss is Switch Transformer's (arXiv:2101.03961, equation 4): E times the sum
    over experts of (share of the tokens) * (mean router probability), 1 when both are even.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.top_k = config.top_k
        self.router = nn.Linear(config.width, config.experts, bias=False)
        self.experts = nn.ModuleList(
            SwiGLU(config.width, config.hidden, gated_ragged) for _ in range(config.experts)
        )

    def forward(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """The update of the stream (x's shape) and the load-balance loss."""
        x_ND = x_BTD.flatten(0, -2)
        probability_NE = self.probabilities(x_ND)
        weight_NK, expert_NK = choose(probability_NE, self.top_k)
        weight_NK = weight_NK / weight_NK.sum(dim=-1, keepdim=True)
        update_NKD = self._dispatch(x_ND, expert_NK)
        update_ND = (update_NKD * weight_NK[..., None].to(update_NKD.dtype)).sum(dim=1)
        share_E = count(expert_NK, len(self.experts)) / expert_NK.numel()
        balance = len(self.experts) * (share_E * probability_NE.mean(dim=0)).sum()
        return update_ND.view_as(x_BTD), balance

    def probabilities(self, x_ND: Tensor) -> Tensor:
        """Router probabilities (N, E), in FP32 whatever surrounds it."""
        with torch.autocast(x_ND.device.type, enabled=False):
            return self.router(x_ND.float()).softmax(dim=-1)

    def _dispatch(self, x_ND: Tensor, expert_NK: Tensor) -> Tensor:
        """Each expert's output for each of its tokens, as (N, K, D)."""
        order = expert_NK.flatten().argsort(stable=True)
        rows = x_ND.repeat_interleave(self.top_k, dim=0)[order]
        parts = rows.split(count(expert_NK, len(self.experts)).tolist())
        outputs = [expert(part) for expert, part in zip(self.experts, parts, strict=True)]
        return torch.cat(outputs)[order.argsort()].unflatten(0, (-1, self.top_k))


def choose(probability_NE: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """The top-k probabilities and their experts; ties go to the lower number, on every device."""
    values, experts = probability_NE.sort(dim=-1, descending=True, stable=True)
    return values[:, :top_k], experts[:, :top_k]


def count(expert_NK: Tensor, experts: int) -> Tensor:
    """Tokens of each expert (E, int64)."""
    return expert_NK.flatten().bincount(minlength=experts)


def rotary_tables(head_width: int, sequence: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each (sequence, head_width / 2), FP32 (arXiv:2104.09864)."""
    frequency = ROPE_BASE ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
    angle = torch.outer(torch.arange(sequence, dtype=torch.float32), frequency)
    return angle.cos(), angle.sin()


@torch.no_grad()
def router_agreement(model: LanguageModel, other: LanguageModel, tokens_BT: Tensor) -> float:
    """Share of the expert choices of `other`, over blocks and tokens, that `model` makes too."""
    pairs = zip(expert_choices(model, tokens_BT), expert_choices(other, tokens_BT), strict=True)
    shared = [(a_NK[:, :, None] == b_NK[:, None, :]).any(dim=1) for a_NK, b_NK in pairs]
    return torch.cat(shared).float().mean().item()


@torch.no_grad()
def expert_choices(model: LanguageModel, tokens_BT: Tensor) -> list[Tensor]:
    """Which experts each token visits, one (N, K) tensor of expert numbers per block."""
    chosen: list[Tensor] = []

    def record(mixture: Mixture, inputs: tuple[Tensor, ...], _: object) -> None:
        probability_NE = mixture.probabilities(inputs[0].flatten(0, -2))
        chosen.append(choose(probability_NE, mixture.top_k)[1])

    mixtures = [block.mlp for block in model.blocks if isinstance(block.mlp, Mixture)]
    handles = [mixture.register_forward_hook(record) for mixture in mixtures]
    model(tokens_BT)
    for handle in handles:
        handle.remove()
    return chosen
