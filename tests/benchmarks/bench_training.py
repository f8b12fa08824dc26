"""How long a training step takes under each recipe; the table's ratio column is what to look at.

    python -m pytest tests/benchmarks/bench_training.py

Model and batch are those of the suite `pretrain-small` for the device at hand. Nothing is asserted:
the target, at most twice the step in high precision, is for an otherwise idle machine.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from formats import load_recipe
from kernels import convert
from suites.batches import Batches
from suites.catalog import load_suite, resolve_settings
from suites.models import LanguageModel
from suites.pretrain_settings import PretrainSettings
from suites.sizes import SIZES
from suites.training import Trainer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_trainer(recipe: str) -> Trainer:
    settings = resolve_settings(load_suite("pretrain-small"), PretrainSettings, DEVICE, [])
    assert isinstance(settings, PretrainSettings)
    config, training = SIZES[settings.model], settings.training
    model = LanguageModel(config, training.sequence, seed=0).to(DEVICE)
    random = np.random.default_rng(0).integers(config.vocabulary, size=1 << 20, dtype=np.uint16)
    device = torch.device(DEVICE)
    batches = Batches(random, training.batch, training.sequence, device, seed=0)
    return Trainer(convert(model, load_recipe(recipe)), batches, training)


@pytest.mark.benchmark(group="training step")
@pytest.mark.parametrize("recipe", ["bf16", "e2m1-ref", "ufp4", "nvfp4"])
def test_training_step(benchmark: BenchmarkFixture, recipe: str) -> None:
    benchmark.pedantic(make_trainer(recipe).train_step, rounds=15, warmup_rounds=3)
