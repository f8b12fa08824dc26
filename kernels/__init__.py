"""How tensors are quantised and multiplied: a slow, obvious reference beside every fast path."""

from kernels.convert import Conversion, convert
from kernels.fidelity import Fidelity, bucket_utilisation, fidelity
from kernels.grouped import GroupedLinear
from kernels.hadamard import Hadamard
from kernels.linear import QuantizedLinear
from kernels.observe import Observation, observe
from kernels.quantize import quantize
from kernels.quantized import Counters, Quantized
from kernels.rounding import Draws

__all__ = [
    "Conversion",
    "Counters",
    "Draws",
    "Fidelity",
    "GroupedLinear",
    "Hadamard",
    "Observation",
    "QuantizedLinear",
    "Quantized",
    "bucket_utilisation",
    "convert",
    "fidelity",
    "observe",
    "quantize",
]
