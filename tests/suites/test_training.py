"""Training: learns, resumes bit for bit, accumulates as it should, says where it went wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from formats import load_recipe
from kernels import convert
from suites.batches import Batches, make_validation
from suites.corpus import Corpus
from suites.models import LanguageModel
from suites.schedule import TrainingSettings
from suites.sizes import SIZES
from suites.training import (
    DivergedError,
    Trainer,
    cross_entropy,
    first_non_finite,
    load_checkpoint,
    make_optimizer,
    reproducible,
    save_checkpoint,
)

CPU = torch.device("cpu")
SETTINGS = TrainingSettings(steps=12, batch=4, sequence=32, warmup_steps=2, learning_rate=1e-2)
QUANTISED = pytest.mark.parametrize("recipe", ["bf16", "ufp4", "nvfp4"])


def make_trainer(
    corpus: Corpus, recipe: str = "ufp4", size: str = "tiny", settings: TrainingSettings = SETTINGS
) -> Trainer:
    config = SIZES[size].with_vocabulary(corpus.vocabulary)
    model = convert(LanguageModel(config, settings.sequence, seed=0), load_recipe(recipe), seed=0)
    batches = Batches(corpus.train, settings.batch, settings.sequence, CPU, seed=0)
    return Trainer(model, batches, settings)


def advance(trainer: Trainer, steps: int) -> list[float]:
    for _ in range(steps):
        trainer.train_step()
    return trainer.losses


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters()}  # type: ignore[union-attr]


@QUANTISED
@pytest.mark.parametrize("size", ["tiny", "tiny-moe"])
def test_loss_falls_well_below_the_first_guess(corpus: Corpus, recipe: str, size: str) -> None:
    losses = advance(make_trainer(corpus, recipe, size), 12)
    assert losses[-1] < losses[0] - 1.0


@QUANTISED
def test_B51_resumed_run_has_the_same_losses_bit_for_bit(
    corpus: Corpus, recipe: str, tmp_path: Path
) -> None:
    straight = advance(make_trainer(corpus, recipe, "tiny-moe"), 10)
    first = make_trainer(corpus, recipe, "tiny-moe")
    advance(first, 5)
    save_checkpoint(tmp_path / "state.pt", first.state_dict())
    torch.manual_seed(12345)  # whatever global random state another process would have
    second = make_trainer(corpus, recipe, "tiny-moe")
    second.load_state_dict(load_checkpoint(tmp_path / "state.pt"))
    assert advance(second, 5) == straight
    assert len(second.step_seconds) == 10


def test_checkpoint_is_written_whole(corpus: Corpus, tmp_path: Path) -> None:
    trainer = make_trainer(corpus)
    save_checkpoint(tmp_path / "deep" / "state.pt", trainer.state_dict())
    save_checkpoint(tmp_path / "deep" / "state.pt", trainer.state_dict())
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["state.pt"]


def test_validation_changes_nothing(corpus: Corpus) -> None:
    validation = make_validation(corpus, 4, 32, CPU, 8)
    plain, validated = make_trainer(corpus), make_trainer(corpus)
    advance(plain, 3)
    for _ in range(3):
        validated.train_step()
        assert validated.validate(validation) == validated.validate(validation)
    assert plain.losses == validated.losses


def test_validation_loss_is_a_mean_over_tokens_not_over_batches(corpus: Corpus) -> None:
    trainer = make_trainer(corpus, "bf16")
    uneven = make_validation(corpus, 3, 32, CPU, 7)  # batches of 3, 3 and 1
    whole = make_validation(corpus, 7, 32, CPU, 7)
    assert trainer.validate(uneven) == pytest.approx(trainer.validate(whole), rel=1e-6)


def test_B63_accumulated_gradient_equals_that_of_one_large_batch(corpus: Corpus) -> None:
    large = SETTINGS.model_copy(update={"batch": 16})
    small = SETTINGS.model_copy(update={"batch": 4, "accumulate": 4})
    one, many = (make_trainer(corpus, "bf16", settings=each) for each in (large, small))
    one.backward(0)
    for micro in range(4):
        many.backward(micro)
    for name, gradient in gradients(one).items():
        assert torch.allclose(gradient, gradients(many)[name], atol=1e-6), name


def test_B63_every_micro_batch_of_a_quantised_step_counts(corpus: Corpus) -> None:
    settings = SETTINGS.model_copy(update={"accumulate": 3})
    trainer, alone = (make_trainer(corpus, "ufp4", settings=settings) for _ in range(2))
    total: dict[str, Tensor] = {}
    for micro in range(3):
        trainer.backward(micro)
        alone.model.zero_grad()
        alone.backward(micro)
        total = {name: g + total.get(name, 0) for name, g in gradients(alone).items()}
    for name, gradient in gradients(trainer).items():
        assert torch.allclose(gradient, total[name], atol=1e-6), name


def test_micro_batches_draw_different_random_bits(corpus: Corpus) -> None:
    trainer = make_trainer(corpus, "ufp4")
    trainer.batches = lambda micro: batch  # type: ignore[assignment]
    batch = make_trainer(corpus).batches(0)
    drawn = []
    for micro in (0, 0, 1):
        trainer.model.zero_grad()
        trainer.backward(micro)
        drawn.append(trainer.model.blocks[0].mlp.down.weight.grad.clone())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_B64_weights_are_quantised_afresh_after_every_update(corpus: Corpus) -> None:
    trainer = make_trainer(corpus, "ufp4")
    inputs, _ = trainer.batches(0)
    with torch.no_grad():
        before = trainer.model(inputs).logits
        trainer.model.blocks[0].mlp.down.weight.mul_(2.0)
        assert not torch.equal(before, trainer.model(inputs).logits)
        trainer.model.blocks[0].mlp.down.weight.mul_(0.5)
        assert torch.equal(before, trainer.model(inputs).logits)


@pytest.mark.parametrize("preserve", [True, False])
def test_B50_B67_recomputed_blocks_have_the_same_gradients(corpus: Corpus, preserve: bool) -> None:
    """Recomputation replays recipe and bits, with the global generator's state or without."""
    plain, recomputed = make_trainer(corpus), make_trainer(corpus)
    for block in recomputed.model.blocks:
        block.forward = _recomputing(block.forward, preserve)
    for trainer in (plain, recomputed):
        trainer.backward(3)
    for name, gradient in gradients(plain).items():
        assert torch.equal(gradient, gradients(recomputed)[name]), name


def _recomputing(forward: Callable[..., object], preserve: bool) -> Callable[..., object]:
    return lambda *inputs: checkpoint(
        forward, *inputs, use_reentrant=False, preserve_rng_state=preserve
    )


@QUANTISED
def test_B74_nan_in_a_gradient_stops_the_run_and_is_located(corpus: Corpus, recipe: str) -> None:
    trainer = make_trainer(corpus, recipe)
    _poison(trainer, trainer.model.blocks[1].mlp.gate_up, step=3)
    with pytest.raises(DivergedError) as error:
        advance(trainer, 5)
    assert (error.value.step, error.value.layer, error.value.tensor) == (
        3,
        "blocks.1.mlp.gate_up",
        "dy",
    )
    assert trainer.step == len(trainer.losses) == 3
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


def _poison(trainer: Trainer, layer: nn.Module, step: int) -> None:
    """Put one NaN into the gradient of a layer's output at a step."""

    def poison(gradient: Tensor) -> Tensor:
        if trainer.step == step:
            gradient = gradient.clone()
            gradient[0, 0, 0] = float("nan")
        return gradient

    layer.register_forward_hook(
        lambda module, inputs, output: output.register_hook(poison) and None
    )


@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
def test_B74_nan_in_a_weight_is_located_at_its_layer(corpus: Corpus, recipe: str) -> None:
    trainer = make_trainer(corpus, recipe)
    with torch.no_grad():
        trainer.model.blocks[0].attention.out.weight[5, 5] = float("nan")
    with pytest.raises(DivergedError, match="step 0: w of blocks.0.attention.out is not finite"):
        trainer.train_step()


def test_nothing_is_found_where_all_is_finite(corpus: Corpus) -> None:
    trainer = make_trainer(corpus)
    assert first_non_finite(trainer.model, lambda: trainer.backward(0)) is None


def test_only_matrices_decay(corpus: Corpus) -> None:
    optimizer = make_optimizer(make_trainer(corpus).model, SETTINGS, learning_rate=1e-3)
    for group in optimizer.param_groups:
        assert {p.ndim >= 2 for p in group["params"]} == {group["weight_decay"] > 0}


def test_clipping_bounds_the_update_direction(corpus: Corpus) -> None:
    settings = SETTINGS.model_copy(update={"clip_norm": 1e-3})
    trainer = make_trainer(corpus, "bf16", settings=settings)
    norms = []
    step = trainer.optimizer.step
    trainer.optimizer.step = lambda: (  # type: ignore[method-assign]
        norms.append(nn.utils.get_total_norm([p.grad for p in trainer.model.parameters()])),
        step(),
    )
    trainer.train_step()
    assert norms[0].item() == pytest.approx(1e-3, rel=1e-3)


def test_cross_entropy_is_computed_in_fp32() -> None:
    logits = torch.randn(2, 3, 300) * 20
    targets = torch.randint(300, (2, 3))
    loss = cross_entropy(logits.bfloat16(), targets)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, cross_entropy(logits.bfloat16().float(), targets))


def test_twins_are_paired(corpus: Corpus) -> None:
    """Recipes of a seed start from equal weights and see equal batches."""
    plain, quantised = make_trainer(corpus, "bf16"), make_trainer(corpus, "ufp4")
    weights = copy.deepcopy(plain.model.state_dict())
    assert all(torch.equal(w, weights[n]) for n, w in quantised.model.state_dict().items())
    assert torch.equal(plain.batches(5)[0], quantised.batches(5)[0])
    first = advance(plain, 1)[0], advance(quantised, 1)[0]
    assert 0 < abs(first[0] - first[1]) < 0.2


def test_a_reproducible_run_leaves_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    deterministic = torch.utils.deterministic
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    for filled in (True, False):
        monkeypatch.setattr(deterministic, "fill_uninitialized_memory", filled)
        with reproducible(torch.device("cuda")):
            assert torch.are_deterministic_algorithms_enabled()
            assert not deterministic.fill_uninitialized_memory
        assert not torch.are_deterministic_algorithms_enabled()
        assert deterministic.fill_uninitialized_memory == filled
