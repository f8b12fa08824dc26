"""One cell of `pretrain`: a model is built, trained and measured on the way.

The state between two steps is the trainer's and the two lists below; a checkpoint holds all of it,
so a resumed cell ends with the rows that an uninterrupted one would have had, times apart.
"""

from __future__ import annotations

import dataclasses
import resource
from collections.abc import Iterable
from typing import Any

import torch

from formats import Recipe, load_recipe
from hwmodels.nvml import EnergyWindow
from kernels import convert, observe
from kernels.dispatch import epilogue_path, quantise_path
from kernels.targets import target_of
from suites.averaging import WeightAverage
from suites.batches import Batches, make_validation
from suites.corpus import load_corpus
from suites.experiment import Cell, Context
from suites.graphed import choose_trainer
from suites.models import LanguageModel, router_agreement
from suites.pretrain_rows import GIB, Outcome, fidelity_rows, training_row
from suites.pretrain_settings import PretrainSettings
from suites.rows import NOT_AVAILABLE, Quantity, Row, measured
from suites.sizes import SIZES
from suites.training import DivergedError, load_checkpoint, save_checkpoint


class PretrainCell:
    """A run of one recipe at one seed.

    Raises:
        ValueError: the text is too short, or would be repeated more often than the settings allow.
    """

    def __init__(
        self, settings: PretrainSettings, recipe: Recipe, cell: Cell, context: Context
    ) -> None:
        self.settings, self.recipe, self.context = settings, recipe, context
        self.seed = int(cell.config["seed"])
        self.checkpoint = context.run_dir / "checkpoints" / f"{cell.key}.pt"
        training, device = settings.training, torch.device(context.device)
        if context.device == "cuda":
            torch.cuda.reset_peak_memory_stats()

        self.corpus = load_corpus(settings.corpus, context.cache_dir)
        self.size = SIZES[settings.model].with_vocabulary(self.corpus.vocabulary)
        self.validation = make_validation(
            self.corpus, training.batch, training.sequence, device, training.validation_sequences
        )
        batches = Batches(self.corpus.train, training.batch, training.sequence, device, self.seed)
        batches.check_epochs(training.micro_batches, training.max_epochs)
        self.model = LanguageModel(self.size, training.sequence, self.seed).to(device)
        convert(self.model, recipe, self.seed)
        chosen, self.training_path = choose_trainer(self.model)
        self.trainer = chosen(self.model, batches, training)

        self.average = WeightAverage(self.model)
        self.averaged_loss: float | None = None
        self.energy = NOT_AVAILABLE
        self.validation_losses: list[tuple[int, float]] = []
        self.observations: list[dict[str, dict[str, Any]]] = []

    def run(self) -> Iterable[Row]:
        """Train to the end or to the first number that is not finite; the training row first."""
        if self.checkpoint.exists():
            self._resume()
        diverged = None
        try:
            self._train()
        except DivergedError as error:
            diverged = error
        outcome = self._outcome(diverged)
        yield training_row(outcome)
        yield from fidelity_rows(outcome)
        self.checkpoint.unlink(missing_ok=True)

    def _train(self) -> None:
        """All steps that are left, and the joules of a whole run on a GPU."""
        first, steps = self.trainer.step, self.settings.training.steps
        if not first:
            self._start_in_high_precision()
        if self.context.device != "cuda" or first:
            why = "the run was resumed" if first else "no energy counter is read on a CPU"
            self.energy = measured(None, "J", why)
            while self.trainer.step < steps:
                self._advance()
            return
        window = EnergyWindow(synchronise=torch.cuda.synchronize)
        with window:
            while self.trainer.step < steps:
                self._advance()
        assert window.reading is not None
        what = f"of the board, {window.reading.method}, validations and start included"
        self.energy = measured(window.reading.joules, "J", window.reading.reason or what)

    def _start_in_high_precision(self) -> None:
        """The steps that all recipes of a seed take alike: from equal weights to equal weights."""
        training = self.settings.training
        if not training.high_precision_steps:
            return
        model = LanguageModel(self.size, training.sequence, self.seed).to(self.trainer.device)
        convert(model, load_recipe(self.settings.baseline), self.seed)
        plain = type(self.trainer)(model, self.trainer.batches, training)
        while plain.step < training.high_precision_steps:
            plain.advance(training.high_precision_steps)
        self.trainer.load_state_dict(plain.state_dict())

    def _advance(self) -> None:
        """To the next step at which something is due, with what is due before and after."""
        trainer, training = self.trainer, self.settings.training
        if trainer.step in self._fidelity_steps():
            self._observe()
        trainer.advance(self._next_stop())
        is_last = trainer.step == training.steps
        if is_last or trainer.step % training.validation_every == 0:
            self._validate(is_last)
        if not is_last and trainer.step % training.checkpoint_every == 0:
            self._save()
        self.context.progress(trainer.step, training.steps, f"loss {trainer.losses[-1]:.3f}")

    def _validate(self, is_last: bool) -> None:
        """Of the weights as they are, and at the end of their mean over the tail."""
        trainer = self.trainer
        self.validation_losses.append((trainer.step, trainer.validate(self.validation)))
        if trainer.step > self.settings.training.tail_start:
            self.average.add()
        if is_last:
            with self.average.applied():
                self.averaged_loss = trainer.validate(self.validation)

    def _next_stop(self) -> int:
        """The next step before or after which something is due."""
        step, training = self.trainer.step, self.settings.training
        every = (training.validation_every, training.checkpoint_every)
        ends = [step - step % period + period for period in every]
        starts = [due for due in self._fidelity_steps() if due > step]
        return min(*ends, *starts, training.steps)

    def _fidelity_steps(self) -> list[int]:
        seeds = self.settings.fidelity_seeds
        is_observed = not self.recipe.is_high_precision and (seeds is None or self.seed < seeds)
        return self.settings.fidelity_steps if is_observed else []

    def _observe(self) -> None:
        """Measure every GEMM on the first micro-batch of the coming step; changes no state."""
        with observe(self.model) as records:
            self.trainer.backward(self.trainer.step * self.settings.training.accumulate)
        self.trainer.clear_gradients()
        for record in records:
            values = dataclasses.asdict(record)
            config = {name: values.pop(name) for name in ("layer", "gemm", "operand")}
            self.observations.append(
                {"config": {"step": self.trainer.step, **config}, "values": values}
            )

    def _save(self) -> None:
        state = self.trainer.state_dict()
        state["validation_losses"] = self.validation_losses
        state["observations"] = self.observations
        state["average"] = self.average.state_dict()
        save_checkpoint(self.checkpoint, state)

    def _resume(self) -> None:
        state = load_checkpoint(self.checkpoint)
        self.trainer.load_state_dict(state)
        self.validation_losses = state["validation_losses"]
        self.observations = state["observations"]
        self.average.load_state_dict(state["average"])

    def _outcome(self, diverged: DivergedError | None) -> Outcome:
        trainer = self.trainer
        return Outcome(
            settings=self.settings,
            recipe=self.recipe,
            seed=self.seed,
            model=self.size,
            validation=self.validation,
            losses=trainer.losses,
            validation_losses=self.validation_losses,
            averaged_loss=self.averaged_loss,
            averaged_points=self.average.points,
            step_seconds=trainer.step_seconds,
            energy=self.energy,
            observations=self.observations,
            peak_memory=self._peak_memory(),
            facts=self._facts(),
            diverged=diverged,
            router_agreement=self._router_agreement(),
        )

    def _facts(self) -> dict[str, Any]:
        epochs = self.trainer.batches.epochs(self.settings.training.micro_batches)
        quantization = self.model.quantization
        return {
            "device": self._device_name(),
            "profile": self.context.profile,
            "training_path": self.training_path,
            "gemm_path": quantization.path,
            "gemm_reason": quantization.reason,
            **self._quantiser(),
            "converted": list(quantization.converted),
            "kept": list(quantization.kept),
            "epochs": epochs,
            "corpus_digest": self.corpus.digest,
        }

    def _quantiser(self) -> dict[str, str]:
        """What quantised the operands and took in their factors, if there are any."""
        if not self.model.quantization.layers:
            return {}
        device = torch.device(self.context.device)
        path = quantise_path(target_of(device))
        facts = {"quantise_path": path.name, "quantise_reason": path.reason}
        if not self.recipe.has_factors:
            return facts
        epilogue = epilogue_path(device.type, torch.bfloat16)
        return {**facts, "epilogue_path": epilogue.name, "epilogue_reason": epilogue.reason}

    def _device_name(self) -> str:
        return torch.cuda.get_device_name() if self.context.device == "cuda" else "cpu"

    def _peak_memory(self) -> Quantity:
        if self.context.device == "cuda":
            return measured(torch.cuda.max_memory_allocated() / GIB, "GiB", "allocated on the GPU")
        kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return measured(kibibytes * 1024 / GIB, "GiB", "of the process, earlier cells included")

    def _router_agreement(self) -> float | None:
        """Compare experts chosen on validation text with those of the same weights unquantised."""
        if not self.size.experts:
            return None
        twin = LanguageModel(self.size, self.settings.training.sequence, self.seed)
        twin.to(self.trainer.device).load_state_dict(self.model.state_dict())
        return router_agreement(self.model, twin, self.validation.batches[0][0])
