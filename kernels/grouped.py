"""Experts in one parameter: a linear layer per group of rows, each quantised as if it were alone.

The rows of x lie sorted by expert, and ``splits`` says how many each expert has; none is a number
like any other. Every expert's rows and weight are quantised, and padded to whole blocks, by
themselves, so no block, scale or draw is shared between experts. The cost of that is a launch per
expert.

Shape suffixes: E experts, T tokens, K in-features, N out-features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from formats import Recipe
from kernels.gemms import compute_dtype
from kernels.linear import UnderRecipe
from kernels.linear_op import quantized_linear


class GroupedLinear(nn.Module):
    """One linear layer without bias per expert, in high precision; ``convert`` swaps it.

    Attributes:
        weight: [E, N, K].
    """

    def __init__(self, experts: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.experts, self.in_features, self.out_features = experts, in_features, out_features
        self.weight = nn.Parameter(torch.empty(experts, out_features, in_features))
        bound = 1.0 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x_TK: Tensor, splits: Sequence[int]) -> Tensor:
        """[T, K] to [T, N].

        Args:
            splits: rows of each expert, in order.

        Raises:
            ValueError: splits that are not one per expert or do not add up to T.
        """
        check_splits(splits, self.experts, x_TK.shape[0])
        dtype = compute_dtype(x_TK)
        groups = zip(x_TK.to(dtype).split(list(splits)), self.weight.unbind(), strict=True)
        return torch.cat([self.multiply(*group, expert) for expert, group in enumerate(groups)])

    def multiply(self, x_TK: Tensor, weight_NK: Tensor, expert: int) -> Tensor:
        """One expert's rows times its weight."""
        return nn.functional.linear(x_TK, weight_NK.to(x_TK.dtype))


class QuantizedGroupedLinear(UnderRecipe, GroupedLinear):
    """GroupedLinear's parameter under a recipe; made by ``convert``.

    Expert e draws as a ``QuantizedLinear`` with index ``index + e`` would, its tokens counted from
    zero: ``token_offset`` does not matter here. Observers do not see its GEMMs.
    """

    def __init__(
        self, grouped: GroupedLinear, name: str, index: int, recipe: Recipe, seed: int
    ) -> None:
        nn.Module.__init__(self)
        self.experts, self.weight = grouped.experts, grouped.weight
        self.in_features, self.out_features = grouped.in_features, grouped.out_features
        self.train(grouped.training)
        self.enter(name, index, recipe, seed, grouped.weight.device)

    def multiply(self, x_TK: Tensor, weight_NK: Tensor, expert: int) -> Tensor:
        """One expert's rows times its weight, both quantised."""
        names = self.recipe_name, self.seed, self.index + expert, 0
        return quantized_linear(x_TK, weight_NK, self.step, self.signs, *names)[0]


def check_splits(splits: Sequence[int], experts: int, tokens: int) -> None:
    """Raise ValueError unless there is a count of rows for each expert, and they add up."""
    if len(splits) != experts or min(splits, default=0) < 0 or sum(splits) != tokens:
        raise ValueError(
            f"splits {list(splits)} must be {experts} counts, not negative, that add up to "
            f"the {tokens} rows given"
        )
