"""Workload: the work of one training step of a language model, as GEMM shapes and bytes.

A model is given by its linear layers (out-features, in-features, how many such matrices, how many
rows each sees). Every one makes three GEMMs, (m, n, k) with k contracted:

    fprop (tokens, out, in)     dgrad (tokens, in, out)     wgrad (out, in, tokens)

Experts of a mixture see tokens * top_k / experts rows each, an even load. What else a step has is
in ``passes`` (passes over memory, optimiser) and ``attention``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import Field

from formats.schema import Record
from formats.yamlfile import did_you_mean, load_yaml

FOLDER = Path(__file__).parent / "models"
BF16_BYTES, FP32_BYTES = 2, 4


class ModelShape(Record):
    """A decoder; widths in elements, ``hidden`` of one SwiGLU, ``tokens`` per step."""

    name: str
    summary: str = ""
    layers: int = Field(gt=0)
    width: int = Field(gt=0)
    heads: int = Field(gt=0)
    hidden: int = Field(gt=0)
    vocabulary: int = Field(gt=0)
    experts: int = 0
    top_k: int = 0
    shared_experts: int = 0
    tied: bool = False
    sequence: int = Field(gt=0)
    tokens: int = Field(gt=0)
    source: str = ""

    @cached_property
    def linears(self) -> tuple[Linear, ...]:
        """All linear layers that recipes quantise, then the head, which they keep."""
        d, h, t = self.width, self.hidden, self.tokens
        found = [
            Linear("attention.qkv", 3 * d, d, self.layers, t),
            Linear("attention.out", d, d, self.layers, t),
        ]
        if self.experts:
            rows = max(1, t * self.top_k // self.experts)
            copies = self.layers * self.experts
            found += [
                Linear("experts.gate_up", 2 * h, d, copies, rows),
                Linear("experts.down", d, h, copies, rows),
            ]
        dense = self.shared_experts if self.experts else 1
        if dense:
            found += [
                Linear("mlp.gate_up", 2 * h * dense, d, self.layers, t),
                Linear("mlp.down", d, h * dense, self.layers, t),
            ]
        return (*found, Linear("head", self.vocabulary, d, 1, t, quantised=False))

    @property
    def parameters(self) -> int:
        """Parameters of the linear layers and the embedding (norms and router left out)."""
        linear = sum(
            layer.copies * layer.out_features * layer.in_features for layer in self.linears
        )
        return linear + (0 if self.tied else self.vocabulary * self.width)


@dataclass(frozen=True)
class Linear:
    """Equal linear layers: ``copies`` matrices, each seeing ``rows`` rows."""

    name: str
    out_features: int
    in_features: int
    copies: int
    rows: int
    quantised: bool = True

    @property
    def gemms(self) -> Iterator[Gemm]:
        """The three GEMMs of training."""
        t, o, i = self.rows, self.out_features, self.in_features
        yield Gemm(self, "fprop", t, o, i)
        yield Gemm(self, "dgrad", t, i, o)
        yield Gemm(self, "wgrad", o, i, t)


@dataclass(frozen=True)
class Gemm:
    """(m, k) x (k, n), ``linear.copies`` times a step."""

    linear: Linear
    name: str
    m: int
    n: int
    k: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all copies."""
        return self.linear.copies * self.m * self.n * self.k


def load_model(name_or_path: str | Path) -> ModelShape:
    """The model shape of this name, or in this YAML file.

    Raises:
        ValueError: unknown name (with the nearest one), or a faulty file (file:line:column).
    """
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")) or os.sep in text:
        return load_yaml(Path(text), ModelShape)
    names = list_models()
    if text not in names:
        hint = did_you_mean(text, names) or f"; known: {', '.join(names)}"
        raise ValueError(f"unknown model '{text}'{hint}")
    return load_yaml(FOLDER / f"{text}.yaml", ModelShape)


def list_models() -> list[str]:
    """Names of the built-in model shapes."""
    return [path.stem for path in sorted(FOLDER.glob("*.yaml"))]
