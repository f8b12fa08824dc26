"""Sizes: what is derived from a shape equals what the model of that shape has."""

from __future__ import annotations

import pytest
from torch import nn

from suites.models import LanguageModel
from suites.sizes import SIZES, ModelConfig

SMALL = [name for name in SIZES if name.startswith(("tiny", "small"))]
TIED = ModelConfig("tied", layers=1, width=32, heads=2, hidden=48, vocabulary=300, tied=True)


@pytest.mark.parametrize("config", [*(SIZES[name] for name in SMALL), TIED], ids=lambda c: c.name)
def test_parameters_are_those_of_the_model(config: ModelConfig) -> None:
    model = LanguageModel(config, sequence=8, seed=0)
    assert config.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", SMALL)
def test_linear_shapes_are_those_of_a_block(name: str) -> None:
    config = SIZES[name]
    block = LanguageModel(config, sequence=8, seed=0).blocks[0]
    for path, (out_features, in_features, visits) in config.linear_shapes.items():
        if config.experts and path.startswith("mlp."):
            path = path.replace("mlp.", "mlp.experts.0.")
            assert visits == config.top_k
        linear = block.get_submodule(path)
        assert isinstance(linear, nn.Linear)
        assert (linear.out_features, linear.in_features) == (out_features, in_features)


def test_operations_of_a_dense_model_by_hand() -> None:
    config = ModelConfig("hand", layers=1, width=10, heads=1, hidden=20, vocabulary=7)
    block = 4 * 10 * 10 + 3 * 10 * 20
    assert config.operations_per_token(5) == 6 * (block + 7 * 10) + 6 * 5 * 10


@pytest.mark.parametrize("config", SIZES.values(), ids=lambda c: c.name)
def test_named_sizes_fill_whole_blocks_of_every_format(config: ModelConfig) -> None:
    assert config.width % 32 == 0
    assert config.hidden % 32 == 0
    assert config.head_width * config.heads == config.width
