"""observe: fidelity of every quantised operand and GEMM output on the real tensors of a step.

    with observe(model) as records:
        model(batch).backward()

Each operand is compared with its own (rotated) high-precision tensor, each output with the FP32
GEMM of the tensors before quantisation. The step runs several times slower while it is observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from formats import GEMM_OPERANDS
from kernels.fidelity import Fidelity, bucket_utilisation, fidelity
from kernels.hadamard import Hadamard
from kernels.linear import Multiplied, QuantizedLinear
from kernels.reference import Plan, quantize_reference


@dataclass(frozen=True)
class Observation:
    """Figures of one operand, or with operand "output" of one GEMM's result.

    ``utilisation`` and ``non_finite`` (count of NaN and Inf inputs) are None for outputs.
    """

    layer: str
    gemm: str
    operand: str
    gain: float
    relative_l2: float
    sqnr_db: float
    utilisation: float | None = None
    non_finite: int | None = None


@contextmanager
def observe(model: nn.Module) -> Iterator[list[Observation]]:
    """Record every GEMM of a converted model's layers while the context is open.

    Raises:
        ValueError: the model has no quantised layer.
    """
    layers = [module for module in model.modules() if isinstance(module, QuantizedLinear)]
    if not layers:
        raise ValueError("there is no quantised layer to observe; convert the model first")
    records: list[Observation] = []

    @torch.compiler.disable(reason="an observer works in eager mode")
    def record(layer: QuantizedLinear, multiplied: Multiplied) -> None:
        records.extend(_observations(layer, multiplied))

    for layer in layers:
        layer.observer = record
    try:
        yield records
    finally:
        for layer in layers:
            layer.observer = None


@torch.no_grad()
def _observations(layer: QuantizedLinear, done: Multiplied) -> list[Observation]:
    left, right = done.left.float(), done.right.float()
    if done.gemm == "fprop":
        exact = left @ right.t()
    else:
        exact = left @ right if done.gemm == "dgrad" else left.t() @ right
    names = GEMM_OPERANDS[done.gemm]
    pairs = zip(names, (left, right), strict=True)
    found = [_operand(layer, done.gemm, name, tensor) for name, tensor in pairs]
    output = fidelity(exact, done.output.view(exact.shape))
    return [o for o in found if o is not None] + [_record(layer, done.gemm, "output", output)]


def _operand(layer: QuantizedLinear, gemm: str, name: str, tensor: Tensor) -> Observation | None:
    treatment = layer.treatment(name)
    if treatment.format.is_high_precision:
        return None
    hadamard = None
    if treatment.signs is not None:
        hadamard = Hadamard(tuple(treatment.signs.tolist()))
    plan = Plan(treatment.format, treatment.draws, hadamard)
    quantized = quantize_reference(tensor, treatment.axis, plan)
    rows_RK = tensor.movedim(treatment.axis, -1)
    figures = fidelity(plan.prepare(rows_RK), quantized.decoded())
    utilisation = bucket_utilisation(quantized.unpacked(), quantized.grid)
    counts = (utilisation, quantized.counters.non_finite)
    return _record(layer, gemm, name, figures, *counts)


def _record(
    layer: QuantizedLinear,
    gemm: str,
    operand: str,
    figures: Fidelity,
    utilisation: float | None = None,
    non_finite: int | None = None,
) -> Observation:
    return Observation(
        layer.layer_name,
        gemm,
        operand,
        figures.gain,
        figures.relative_l2,
        figures.sqnr_db,
        utilisation,
        non_finite,
    )
