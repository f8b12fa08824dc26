"""Graphed training: the steps of `Trainer` as two CUDA graphs that are replayed.

A small model's step is over before the host has launched its thousands of kernels. So they are
recorded once per run, as one graph for a micro-batch and one for the update, and all that changes
from step to step lies on the GPU and is advanced there:

    which micro-batch and step it is, counted by the graphs themselves
    the order of the sequences, from which a batch is cut
    the learning rates of all steps, and the losses as they come

The host only replays, and looks at the losses when it has to stop for something else. Once a step's
loss or gradient is not finite, a flag on the GPU turns that update and all later ones into nothing,
so the weights stay as they were before it; when the host looks, the step is run again eagerly to
find the layer and tensor, as `Trainer` does.

What is captured are two ordinary methods, which the CPU runs as they are: its losses are the
eager trainer's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from suites.batches import Batches, cut_sequences
from suites.models import LanguageModel
from suites.schedule import TrainingSettings
from suites.training import Trainer, make_optimizer

WARM_UP = 3  # rounds before capturing, in which kernels are compiled and libraries set up


class GraphedTrainer(Trainer):
    """A Trainer of a dense model that takes many steps at a time.

    Its rows of batches, rates and losses are those of the whole run, so a run cannot go on beyond
    `settings.steps`.
    """

    def __init__(self, model: LanguageModel, batches: Batches, settings: TrainingSettings) -> None:
        device = next(model.parameters()).device
        self._rate = torch.zeros((), device=device)
        super().__init__(model, batches, settings)
        rates = [settings.learning_rate_at(step) for step in range(settings.steps)]
        self._rates = torch.tensor(rates, device=device)
        self._order = batches.order(settings.micro_batches)
        self._positions = torch.arange(settings.steps, device=device)
        self._losses = torch.zeros(settings.steps, device=device)
        self._loss = torch.zeros((), device=device)
        # Number of the coming step and micro-batch; the latter is what quantised layers draw by.
        self._at_step = torch.zeros((), dtype=torch.int64, device=device)
        self._at_micro = torch.zeros((), dtype=torch.int64, device=device)
        for layer in model.quantization.layers:
            layer.step = self._at_micro
        self._failed = torch.zeros((), device=device)  # 1 from the first bad step on
        self._failed_at = torch.zeros((), dtype=torch.int64, device=device)
        # AdamW leaves out an update while this says so, as it does for gradient scalers.
        self.optimizer.found_inf = self._failed  # type: ignore[attr-defined]
        self._gradients = [torch.zeros_like(p) for p in model.parameters()]
        for parameter, gradient in zip(model.parameters(), self._gradients, strict=True):
            parameter.grad = gradient
        self._run_micro: Callable[[], None] | None = None
        self._run_update: Callable[[], None] = self._update

    def advance(self, limit: int) -> None:
        """Take all steps up to `limit`.

        Raises:
            DivergedError: a loss or gradient is not finite; weights are as before that step.
        """
        assert self.step < limit <= self.settings.steps
        if self._run_micro is None:
            self._run_micro, self._run_update = self._prepare()
        started = time.perf_counter()
        redraw = self.model.quantization.recipe.signs == "step"
        for step in range(self.step, limit):
            for micro in self._micro_batches(step):
                if redraw:
                    self.model.quantization.set_step(micro)
                self._run_micro()
            self._run_update()
        losses = self._losses[self.step : limit].tolist()
        seconds = (time.perf_counter() - started) / len(losses)
        failed_at = int(self._failed_at) if self._failed.item() else limit
        self.losses += losses[: failed_at - self.step]
        self.step_seconds += [seconds] * (failed_at - self.step)
        self.step = failed_at
        if failed_at < limit:
            raise self._locate_divergence()

    def train_step(self) -> None:
        """One step."""
        self.advance(self.step + 1)

    def clear_gradients(self) -> None:
        """Zero the gradients where they lie: the graphs know no other place."""
        torch._foreach_zero_(self._gradients)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state of the same run."""
        super().load_state_dict(state)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate
        self._rewind()
        self._run_micro = None  # the optimizer's state has moved

    def _make_optimizer(self) -> torch.optim.AdamW:
        capturable = self.device.type == "cuda"
        return make_optimizer(self.model, self.settings, self._rate, capturable)

    def _prepare(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """What runs a micro-batch and an update: replays on a GPU, elsewhere the methods."""
        if self.device.type != "cuda":
            return self._micro, self._update
        gc.collect()  # an earlier run's graphs hold all memory that they ever used
        current, stream = torch.cuda.current_stream(), torch.cuda.Stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._rewind()
                self._failed.fill_(1)  # practice must not change the weights
                self._micro()
                self._update()
            self._rewind()
        micro, update = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(micro, stream=stream):
            self._micro()
        with torch.cuda.graph(update, pool=micro.pool(), stream=stream):
            self._update()
        current.wait_stream(stream)
        return micro.replay, update.replay

    def _rewind(self) -> None:
        """Set the counters on the device to the coming step, and forget what went before."""
        self._at_step.fill_(self.step)
        self._at_micro.fill_(self.step * self.settings.accumulate)
        self._failed.zero_()
        self._loss.zero_()
        self.clear_gradients()

    def _micro(self) -> None:
        """Add the gradients and the loss of the coming micro-batch."""
        chosen = self._order.index_select(0, self._at_micro.view(1)).view(-1)
        loss = self._backward(*cut_sequences(self.batches.stream, chosen, self.batches.sequence))
        self._loss += loss / self.settings.accumulate
        self._at_micro += 1

    @torch.no_grad()
    def _update(self) -> None:
        """The coming step's clipped update, unless this or an earlier step is not finite."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        is_bad = ~torch.isfinite(norm + self._loss)
        is_first = is_bad & (self._failed == 0)
        self._failed_at.copy_(torch.where(is_first, self._at_step, self._failed_at))
        self._failed.copy_(torch.where(is_bad, 1.0, self._failed))
        self._rate.copy_(self._rates.index_select(0, self._at_step.view(1)).view(()))
        self.optimizer.step()
        here = self._positions == self._at_step
        self._losses.copy_(torch.where(here, self._loss, self._losses))
        self._loss.zero_()
        self.clear_gradients()
        self._at_step += 1


def choose_trainer(model: LanguageModel) -> tuple[type[Trainer], str]:
    """The trainer for a model on its device, and why that one."""
    if next(model.parameters()).device.type != "cuda":
        return Trainer, "eager: graphs are for GPUs"
    if model.config.experts:
        return Trainer, "eager: the host reads how many tokens each expert of a mixture gets"
    return GraphedTrainer, "two CUDA graphs, replayed"
