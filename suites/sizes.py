"""Sizes: the shapes of the language models that are trained here, and what follows from them.

A size is data; parameters and floating-point operations are derived. Widths of the sizes for GPUs
are multiples of 128, the edge of a matrix unit's tile. Only GEMMs with parameters and attention are
counted, at two operations per multiply-add, backward twice forward:

    operations per token = 6 * (parameters of active linear layers) + 6 * layers * sequence * width

the second term being QK' and AV, each causal and so half of 2 * sequence * width forward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ModelConfig:
    """A decoder: widths in elements; `hidden` is the inner width of one SwiGLU.

    Attributes:
        experts: experts per block, 0 for a dense model.
        top_k: experts that each token visits.
        tied: whether head and embedding share their weights.
    """

    name: str
    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int = 4096
    experts: int = 0
    top_k: int = 0
    tied: bool = False

    def with_vocabulary(self, vocabulary: int) -> ModelConfig:
        """This shape for a corpus with so many kinds of tokens."""
        return replace(self, vocabulary=vocabulary)

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    @property
    def linear_shapes(self) -> dict[str, tuple[int, int, int]]:
        """Linear layers of a block: name -> (out-features, in-features, visits of a token)."""
        visits = self.top_k if self.experts else 1
        return {
            "attention.qkv": (3 * self.width, self.width, 1),
            "attention.out": (self.width, self.width, 1),
            "mlp.gate_up": (2 * self.hidden, self.width, visits),
            "mlp.down": (self.width, self.hidden, visits),
        }

    @property
    def parameters(self) -> int:
        """All parameters, tied weights counted once."""
        attention = 4 * self.width**2
        swiglus = 3 * self.width * self.hidden * max(self.experts, 1)
        router = self.experts * self.width
        norms = 2 * self.width
        ends = self.vocabulary * self.width * (1 if self.tied else 2) + self.width
        return self.layers * (attention + swiglus + router + norms) + ends

    def operations_per_token(self, sequence: int) -> int:
        """Floating-point operations of forward and backward, per token."""
        block = sum(out * into * visits for out, into, visits in self.linear_shapes.values())
        block += self.experts * self.width
        linear = self.layers * block + self.vocabulary * self.width
        return 6 * linear + 6 * self.layers * sequence * self.width


SIZES = {
    size.name: size
    for size in (
        ModelConfig("tiny", layers=2, width=64, heads=2, hidden=128),
        ModelConfig("small", layers=4, width=128, heads=4, hidden=384),
        ModelConfig("medium", layers=6, width=384, heads=6, hidden=1024),
        ModelConfig("large", layers=12, width=512, heads=8, hidden=1408),
        ModelConfig("tiny-moe", layers=2, width=64, heads=2, hidden=64, experts=4, top_k=2),
        ModelConfig("small-moe", layers=4, width=128, heads=4, hidden=192, experts=8, top_k=2),
        ModelConfig("medium-moe", layers=6, width=384, heads=6, hidden=512, experts=16, top_k=2),
    )
}
