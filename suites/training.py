"""Training: one model, one stream of batches, AdamW; stops at the first number that is not finite.

A step is a pure function of the weights, the optimizer's state and the step's number. The batches
depend on seed and number alone, and so does stochastic rounding, whose draws are counted from the
number of the micro-batch (`model.quantization.set_step`). So a run that was interrupted and resumed
from a checkpoint gives bit for bit the losses of one that was not, and a step that went wrong can
be run again to see where: `Trainer` does so to name the layer and tensor that was first not finite.

Profiles: FP32 on the CPU; on CUDA BF16 autocast, batches cut on the GPU, and gradients whose sums
have a fixed order. `suites.graphed` takes the same steps faster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from suites.batches import Batches, Validation
from suites.elementwise import cross_entropy
from suites.models import LanguageModel
from suites.schedule import TrainingSettings


class DivergedError(ArithmeticError):
    """A loss or gradient is not finite: where that was first seen."""

    def __init__(self, step: int, layer: str, tensor: str) -> None:
        super().__init__(f"step {step}: {tensor} of {layer} is not finite")
        self.step, self.layer, self.tensor = step, layer, tensor


class Trainer:
    """A training run that advances step by step and can be saved between steps.

    The model is one that `kernels.convert` returned, under whatever recipe, high precision
    included.

    Attributes:
        step: steps taken.
        losses: mean training loss of each step, nats per token, load-balance loss not included.
        step_seconds: wall time of each step.
    """

    def __init__(self, model: LanguageModel, batches: Batches, settings: TrainingSettings) -> None:
        self.model, self.batches, self.settings = model, batches, settings
        self.device = next(model.parameters()).device
        self.optimizer = self._make_optimizer()
        self.step = 0
        self.losses: list[float] = []
        self.step_seconds: list[float] = []

    def advance(self, limit: int) -> None:
        """Take at least one step and end at most at `limit`, as many as are cheap to take at once.

        Raises:
            DivergedError: as from train_step.
        """
        assert self.step < limit
        self.train_step()

    def train_step(self) -> None:
        """Forward and backward over the step's micro-batches, then one clipped AdamW update.

        Raises:
            DivergedError: the loss or the gradient is not finite; weights are as before the step.
        """
        started = time.perf_counter()
        loss = sum(self.backward(micro).item() for micro in self._micro_batches(self.step))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        if not torch.isfinite(norm + loss):
            raise self._locate_divergence()
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate_at(self.step)
        self.optimizer.step()
        self.clear_gradients()
        self.losses.append(loss / self.settings.accumulate)
        self.step += 1
        self._synchronise()
        self.step_seconds.append(time.perf_counter() - started)

    def backward(self, micro: int) -> Tensor:
        """Add the gradients of a micro-batch, numbered over the whole run; its mean loss."""
        self.model.quantization.set_step(micro)
        return self._backward(*self.batches(micro))

    def clear_gradients(self) -> None:
        """Forget the gradients that `backward` has added up."""
        self.optimizer.zero_grad()

    @torch.no_grad()
    def validate(self, validation: Validation) -> float:
        """Mean loss over the validation set, nats per token."""
        self.model.quantization.set_step(self.step * self.settings.accumulate)
        total, tokens = 0.0, 0
        for inputs, targets in validation.batches:
            with self._precision():
                logits, _ = self.model(inputs)
            total += cross_entropy(logits, targets).item() * targets.numel()
            tokens += targets.numel()
        return total / tokens

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "losses": self.losses,
            "step_seconds": self.step_seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state of the same run."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.losses, self.step_seconds = state["losses"], state["step_seconds"]

    def _make_optimizer(self) -> torch.optim.AdamW:
        return make_optimizer(self.model, self.settings, self.settings.learning_rate)

    def _backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        # Forward too: a compiled function goes back only under the setting that it went forth.
        with reproducible(self.device):
            with self._precision():
                logits, balance = self.model(inputs)
            loss = cross_entropy(logits, targets)
            objective = loss + self.settings.balance_weight * balance
            (objective / self.settings.accumulate).backward()
        return loss.detach()

    def _micro_batches(self, step: int) -> range:
        first = step * self.settings.accumulate
        return range(first, first + self.settings.accumulate)

    def _precision(self) -> torch.autocast:
        enabled = self.device.type == "cuda"
        # Casts that are cached would be captured once and then be those of old weights.
        return torch.autocast(self.device.type, torch.bfloat16, enabled, cache_enabled=False)

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _locate_divergence(self) -> DivergedError:
        """Run the step's micro-batches again, watching every tensor."""
        for micro in self._micro_batches(self.step):
            self.clear_gradients()
            found = first_non_finite(self.model, partial(self.backward, micro))
            if found is not None:
                return DivergedError(self.step, *found)
        return DivergedError(self.step, "all layers", "sum of the gradients")


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Let gradients be sums of a fixed order: attention's on a GPU are not unless asked to."""
    if device.type != "cuda":
        yield
        return
    # cuBLAS's own default on Hopper; torch wants to see it said.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    deterministic: Any = torch.utils.deterministic
    filled = deterministic.fill_uninitialized_memory
    deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        deterministic.fill_uninitialized_memory = filled


def make_optimizer(
    model: nn.Module,
    settings: TrainingSettings,
    learning_rate: float | Tensor,
    capturable: bool = False,
) -> torch.optim.AdamW:
    """AdamW that decays matrices only; one fused update on either device.

    Args:
        learning_rate: a number, or a tensor that is changed in place.
        capturable: whether its step may be captured in a CUDA graph.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, learning_rate, settings.betas, fused=True, capturable=capturable
    )


def first_non_finite(model: nn.Module, run: Callable[[], object]) -> tuple[str, str] | None:
    """(layer, tensor) that is not finite first when `run` goes forward and backward.

    Tensors are a layer's input "x", weight "w", output "y", the gradient of its output "dy" and of
    its weight "dw"; only modules without children are layers. None: all are finite.
    """
    found: list[tuple[str, str]] = []

    def check(layer: str, tensor: str, value: Tensor | None) -> None:
        if value is not None and not torch.isfinite(value).all():
            found.append((layer, tensor))

    def watch(layer: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        check(layer, "x", inputs[0])
        check(layer, "w", getattr(module, "weight", None))
        check(layer, "y", output)
        if output.requires_grad:
            output.register_hook(lambda gradient: check(layer, "dy", gradient))

    layers = {name: m for name, m in model.named_modules() if not list(m.children())}
    handles = [
        module.register_forward_hook(lambda m, x, y, name=name: watch(name, m, x, y))
        for name, module in layers.items()
    ]
    run()
    for handle in handles:
        handle.remove()
    for name, module in layers.items():
        check(name, "dw", getattr(getattr(module, "weight", None), "grad", None))
    return found[0] if found else None


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    torch.save(state, partial)
    os.replace(partial, path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A state that save_checkpoint wrote."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
