"""How each rival is called: its quantise-dequantise and its layer, from the rival's own modules.

They are imported when they are needed, from wherever ``kernel_rivals`` has made them importable.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Config = Mapping[str, Any]
Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Quantiser:
    """A rival's quantise-dequantise: [rows, columns] to the same, rotated where it rotates.

    Attributes:
        rotation: [n, n] that pieces of rows were multiplied by, or None.
    """

    call: Forward
    rotation: Tensor | None = None


@dataclass(frozen=True)
class Adapter:
    """How one rival is called.

    Attributes:
        quantiser: from a cell's configuration.
        layer: from that and the plain layer, a forward function and the weight it trains.
        hollow: packages whose own ``__init__`` is not run, as it wants what is not needed here.
    """

    quantiser: Callable[[Config], Quantiser]
    layer: Callable[[Config, nn.Linear], tuple[Forward, Tensor]]
    hollow: tuple[str, ...] = ()


def _in_mode(function: Forward, mode: str) -> Forward:
    """As it is, or compiled.

    In one graph: what the compiler cannot take would run eagerly under the name "compiled". And for
    one shape, because a second one would get slower code that fits both.
    """
    if mode != "compiled":
        return function
    return torch.compile(function, fullgraph=True, dynamic=False)


def _torchao_quantiser(config: Config) -> Quantiser:
    makers = {"nvfp4": _torchao_nvfp4, "mxfp4-rceil": _torchao_mxfp4}
    return Quantiser(_in_mode(makers[config["format"]](), config["mode"]))


def _torchao_nvfp4() -> Forward:
    nvfp4 = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")

    def call(x: Tensor) -> Tensor:
        scale = nvfp4.per_tensor_amax_to_scale(x.abs().max())
        return nvfp4.NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale).dequantize()

    return call


def _torchao_mxfp4() -> Forward:
    mx = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
    rule = mx.ScaleCalculationMode.RCEIL

    def call(x: Tensor) -> Tensor:
        return mx.MXTensor.to_mx(x, torch.float4_e2m1fn_x2, 32, rule).dequantize()

    return call


def _torchao_layer(config: Config, plain: nn.Linear) -> tuple[Forward, Tensor]:
    """The three GEMMs that its MXFP8 layer consists of, with other element types."""
    training = importlib.import_module("torchao.prototype.moe_training.mxfp8_linear")
    elements = (torch.float4_e2m1fn_x2,) * 3
    options = (
        training.KernelPreference.EMULATED,
        training.MXFP8Dim0CastKernelChoice.TORCH,
        training.MXFP8Dim1CastKernelChoice.TORCH,
        training.ScaleCalculationMode.RCEIL,
        False,  # the weight gradient is quantised too
    )
    weight = copy.deepcopy(plain.weight)

    def forward(x: Tensor) -> Tensor:
        return training.mx_mm.apply(x, weight, *elements, 32, *options)

    return _in_mode(forward, config["mode"]), weight


def _microxcaling_specs(mode: str) -> Any:
    finalize = importlib.import_module("mx.specs").finalize_mx_specs
    element = "fp4_e2m1"
    return finalize(
        {
            "scale_bits": 8,
            "block_size": 32,
            "a_elem_format": element,
            "w_elem_format": element,
            "custom_cuda": mode == "cuda",
        }
    )


def _microxcaling_dtype(mode: str) -> torch.dtype:
    """Its CUDA kernels take FP32 only; the conversions are then part of the time."""
    return torch.float32 if mode == "cuda" else torch.bfloat16


def _microxcaling_quantiser(config: Config) -> Quantiser:
    quantise = importlib.import_module("mx.mx_ops").quantize_mx_op
    specs, dtype = (make(config["mode"]) for make in (_microxcaling_specs, _microxcaling_dtype))

    def call(x: Tensor) -> Tensor:
        return quantise(x.to(dtype), specs, elem_format="fp4_e2m1", axes=[-1]).to(x.dtype)

    return Quantiser(call)


def _microxcaling_layer(config: Config, plain: nn.Linear) -> tuple[Forward, Tensor]:
    linear: Any = importlib.import_module("mx.linear")
    specs, dtype = (make(config["mode"]) for make in (_microxcaling_specs, _microxcaling_dtype))
    layer = linear.Linear(plain.in_features, plain.out_features, bias=False, mx_specs=specs)
    layer.weight = nn.Parameter(plain.weight.detach().to(dtype, copy=True))
    # Its operands are exact in BF16. In FP32 its GEMMs would take many times as long, and it would
    # be no rival.
    linear.f_linear = _in_bf16(nn.functional.linear)
    linear.torch_matmul = _in_bf16(torch.matmul)
    return lambda x: layer(x.to(dtype)).to(x.dtype), layer.weight


def _in_bf16(gemm: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda left, right: gemm(left.bfloat16(), right.bfloat16()).to(left.dtype)


def _fouroversix_quantiser(config: Config) -> Quantiser:
    package = importlib.import_module("fouroversix.quantize")
    # Its name until version 1.0.5.
    quantise = getattr(package, "quantize_to_fp4", None) or package.quantize
    random = config["operation"].endswith("rht+stochastic")
    options = package.QuantizationConfig(
        dtype=config["format"],
        scale_rule="static_6",
        rht=random,
        round_style="stochastic" if random else "nearest",
    )
    rotation = package.get_rht_matrix() if random else None
    return Quantiser(lambda x: package.dequantize(quantise(x, options)), rotation)


def _fouroversix_layer(config: Config, plain: nn.Linear) -> tuple[Forward, Tensor]:
    options = importlib.import_module("fouroversix.model.config").ModuleQuantizationConfig(
        dtype=config["recipe"].partition("-")[0],
        scale_rule="static_6",
        weight_scale_2d=True,
        keep_master_weights=True,
    )
    linear = importlib.import_module("fouroversix.model.modules.linear")
    # As above: where it has no kernel of its own it multiplies decoded operands in FP32.
    gemms: Any = importlib.import_module("fouroversix.matmul.pytorch")
    gemms.dequantize = _decoded_to_bf16(importlib.import_module("fouroversix.quantize").dequantize)
    layer = linear.FourOverSixLinear(copy.deepcopy(plain), options)
    # Its backward pass takes one batch of tokens.
    return lambda x: layer(x[None])[0], layer.weight


def _decoded_to_bf16(dequantize: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda tensor, dtype: dequantize(tensor, dtype=torch.bfloat16)


ADAPTERS = {
    "torchao": Adapter(_torchao_quantiser, _torchao_layer),
    "microxcaling": Adapter(_microxcaling_quantiser, _microxcaling_layer, hollow=("mx",)),
    # Elsewhere in these it imports transformers.
    "fouroversix": Adapter(
        _fouroversix_quantiser,
        _fouroversix_layer,
        hollow=("fouroversix", "fouroversix.model", "fouroversix.model.modules"),
    ),
}
