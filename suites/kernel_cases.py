"""The operations that kernel-speed times: each with its inputs, its roof and its check."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from formats import OPERANDS, BlockFormat, Recipe, load_format, load_recipe
from kernels import Hadamard, QuantizedLinear, convert, dispatch, quantize
from kernels.dispatch import Path
from kernels.emulate import Emulated, Treatment
from kernels.gemms import multiply, operands
from kernels.reference import Plan, quantize_reference
from kernels.rounding import Draws
from kernels.targets import target_of

BYTES = 2  # of a BF16 element
HADAMARD_SIZE = 16
CHECKED_ROWS = 256
AXES = {"row": (1,), "column": (0,), "both": (1, 0)}
GEMM_TOLERANCE = 5e-3  # of BF16 results
# No matrix unit multiplies 4-bit operands more than eight times as fast as BF16 ones.
FASTEST_GEMM = 1 / 8


@dataclass(frozen=True)
class Case:
    """An operation to time.

    Attributes:
        candidate, roof: called with one of the inputs.
        check: raises ValueError unless the candidate computes what it should.
        bytes_moved: by the candidate, each tensor counted once.
        least_share: the least time the candidate can take, as a share of the roof's.
        rate: whether the ratio compares rates (of bytes) rather than times.
        layer: the roof's, where it is one, for rivals to take its weights.
    """

    device: torch.device
    inputs: Sequence[Any]
    candidate: Callable[[Any], Any]
    roof: Callable[[Any], Any]
    roof_name: str
    check: Callable[[], None]
    bytes_moved: float
    least_share: float
    rate: bool
    path: Path
    layer: nn.Linear | None = None

    @property
    def meaning(self) -> str:
        """What the ratio says."""
        return f"share of the {self.roof_name}'s rate" if self.rate else f"times {self.roof_name}"

    def share(self, time_us: float, roof_us: float) -> float:
        """The candidate's ratio to its roof."""
        return self.least_share * roof_us / time_us if self.rate else time_us / roof_us

    def machine(self) -> dict[str, str | float]:
        """Power and clock at this moment, which the times depend on."""
        if self.device.type != "cuda":
            return {"threads": torch.get_num_threads()}
        return {
            "power_w": torch.cuda.power_draw(self.device) / 1000,
            "clock_mhz": torch.cuda.clock_rate(self.device),
        }


def make_case(config: Mapping[str, Any], device_type: str) -> Case:
    """The case of a cell.

    Raises:
        ValueError: the operation cannot run on this device.
    """
    device = torch.device(device_type)
    torch.manual_seed(0)
    if config["operation"].startswith("quantise"):
        return _quantiser(config, device)
    if config["operation"] == "scaled gemm":
        return _gemm(config, device)
    return _layer(config, device)


def _random(shape: Sequence[int], device: torch.device) -> Tensor:
    return torch.randn(*shape, device=device).bfloat16()


def _treatments(config: Mapping[str, Any], device: torch.device) -> list[Treatment]:
    _, orientation, variant = config["operation"].split()
    signs = None
    if "rht" in variant:
        drawn = Hadamard.from_seed(HADAMARD_SIZE, 0).signs
        signs = torch.tensor(drawn, dtype=torch.int8, device=device)
    step = torch.zeros((), dtype=torch.int64, device=device)
    draws = [Draws(0, step, axis) if "stochastic" in variant else None for axis in (0, 1)]
    fmt = load_format(config["format"])
    return [Treatment(fmt, axis, signs, draws[axis]) for axis in AXES[orientation]]


def _quantiser(config: Mapping[str, Any], device: torch.device) -> Case:
    treatments = _treatments(config, device)
    inputs = [_random(config["shape"], device) for _ in range(config["inputs"])]
    out = torch.empty_like(inputs[0])

    def candidate(x: Tensor) -> list[Emulated]:
        return dispatch.emulate(x, treatments, torch.bfloat16)

    def check() -> None:
        x = _random((CHECKED_ROWS, config["shape"][1]), device)
        for treatment, result in zip(treatments, candidate(x), strict=True):
            _check_quantised(x, treatment, result)

    size = inputs[0].numel() * BYTES
    return Case(
        device=device,
        inputs=inputs,
        candidate=candidate,
        roof=out.copy_,
        roof_name="copy",
        check=check,
        bytes_moved=size * (1 + len(treatments)),
        least_share=(1 + len(treatments)) / 2,
        rate=True,
        path=dispatch.quantise_path(target_of(device)),
    )


def _check_quantised(x: Tensor, treatment: Treatment, result: Emulated) -> None:
    hadamard = None
    if treatment.signs is not None:
        hadamard = Hadamard(tuple(treatment.signs.tolist()))
    plan = Plan(treatment.format, treatment.draws, hadamard)
    expected = quantize_reference(x, treatment.axis, plan).values()
    actual = result.values if treatment.axis == 1 else result.values.t()
    expected = expected[: actual.shape[0], : actual.shape[1]].to(actual.dtype)
    if not torch.equal(actual, expected):
        wrong = int((actual != expected).sum())
        raise ValueError(f"{treatment.format.name}: {wrong} values differ from the reference")


def _gemm(config: Mapping[str, Any], device: torch.device) -> Case:
    from kernels.triton_gemm import multiply_scaled

    if device.type != "cuda":
        raise ValueError("scaled GEMMs need a GPU")
    fmt = load_format(config["format"])
    tokens, outs, ins = config["shape"]
    path = dispatch.proven(fmt, torch.device("cuda", torch.cuda.current_device()))
    pairs = []
    for _ in range(config["inputs"]):
        x, w = _random((tokens, ins), device), _random((outs, ins), device)
        pairs.append((x, w, quantize(x, fmt), quantize(w, fmt)))

    def check() -> None:
        _check_product(fmt, ins, device)

    return Case(
        device=device,
        inputs=pairs,
        candidate=lambda pair: multiply_scaled(pair[2], pair[3]),
        roof=lambda pair: pair[0] @ pair[1].t(),
        roof_name="BF16 matmul",
        check=check,
        bytes_moved=fmt.storage_bytes((tokens + outs, ins)) + tokens * outs * BYTES,
        least_share=FASTEST_GEMM,
        rate=False,
        path=path,
    )


def _check_product(fmt: BlockFormat, depth: int, device: torch.device) -> None:
    from kernels.triton_gemm import multiply_scaled

    left = quantize(_random((CHECKED_ROWS, depth), device), fmt)
    expected = left.dequantize().double() @ left.dequantize().double().t()
    error = (multiply_scaled(left, left).double() - expected).norm() / expected.norm()
    if not error < GEMM_TOLERANCE:
        raise ValueError(f"{fmt.name}: the product is off by {float(error):.1e}")


def _layer(config: Mapping[str, Any], device: torch.device) -> Case:
    tokens, outs, ins = config["shape"]
    # Of a recipe only its operands matter here: what a model keeps, this one layer is not.
    recipe = replace(load_recipe(config["recipe"]), keep=(), keep_first=0.0, keep_last=0.0)
    if recipe.is_high_precision:
        raise ValueError(f"recipe '{recipe.name}' quantises nothing: its layers are the roof")
    plain = nn.Linear(ins, outs, bias=False, device=device, dtype=torch.bfloat16)
    quantised = convert(copy.deepcopy(plain), recipe)
    assert isinstance(quantised, QuantizedLinear)
    pairs = [
        (_random((tokens, ins), device).requires_grad_(), _random((tokens, outs), device))
        for _ in range(config["inputs"])
    ]

    def check() -> None:
        _check_layer(quantised, outs, ins, device)

    return Case(
        device=device,
        inputs=pairs,
        candidate=training_step(quantised, quantised.weight),
        roof=training_step(plain, plain.weight),
        roof_name="BF16 nn.Linear",
        check=check,
        bytes_moved=3 * BYTES * (tokens * ins + tokens * outs + outs * ins),
        least_share=1.0,
        rate=False,
        path=_layer_path(recipe, device),
        layer=plain,
    )


def _layer_path(recipe: Recipe, device: torch.device) -> Path:
    quantiser = dispatch.quantise_path(target_of(device))
    reason = f"operands by {quantiser.name}: {quantiser.reason}"
    if recipe.has_factors:
        epilogue = dispatch.epilogue_path(device.type, torch.bfloat16)
        reason += f"; tensor scales by {epilogue.name}: {epilogue.reason}"
    return Path("bf16-gemm", "emulated", reason)


def training_step(
    forward: Callable[[Tensor], Tensor], weight: Tensor
) -> Callable[[tuple[Tensor, Tensor]], list[Tensor | None]]:
    """Forward and backward of a layer for (x, dy), giving y, dx and dw."""

    def run(pair: tuple[Tensor, Tensor]) -> list[Tensor | None]:
        x, dy = pair
        x.grad = weight.grad = None
        y = forward(x)
        y.backward(dy)
        return [y.detach(), x.grad, weight.grad]

    return run


def _check_layer(layer: QuantizedLinear, outs: int, ins: int, device: torch.device) -> None:
    """Every operand equals the reference, and the output is the product of two of them."""
    x, dy = _random((CHECKED_ROWS, ins), device), _random((CHECKED_ROWS, outs), device)
    tensors = {"x": x, "w": layer.weight.detach(), "dy": dy}
    found = {}
    for kind, tensor in tensors.items():
        names = [name for name in OPERANDS if name.startswith(f"{kind}.")]
        for name, operand in zip(
            names, operands(layer.numerics, tensor, x.dtype, *names), strict=True
        ):
            found[name] = operand
            if not layer.treatment(name).format.is_high_precision:
                _check_quantised(tensor, layer.treatment(name), operand)
    product = multiply(found["x.fprop"], found["w.fprop"], x.dtype, transpose_right=True)
    if not torch.equal(layer(x), product):
        raise ValueError("the layer's output is not the product of its operands")
