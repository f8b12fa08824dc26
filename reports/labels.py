"""How a result is called and printed: the reader's words for the names in the rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Label:
    """Title of a quantity and its format specification (empty: four significant digits)."""

    title: str
    style: str = ""


LABELS = {
    "area": Label("area"),
    "area_normalised": Label("area, relative", ".3f"),
    "area_um2": Label("area", ",.1f"),
    "bf16_tflops": Label("BF16 rate", ",.0f"),
    "bits_per_byte": Label("validation, bits per byte", ".4f"),
    "bytes_per_second": Label("bandwidth"),
    "ci_high": Label("interval, high", "+.2f"),
    "ci_low": Label("interval, low", "+.2f"),
    "degradation_percent": Label("loss degradation", "+.2f"),
    "delay_ps": Label("delay", ",.0f"),
    "energy_fj_per_mac": Label("energy per MAC", ",.2f"),
    "energy_joules": Label("energy", ",.0f"),
    "fp4_tflops": Label("FP4 rate", ",.0f"),
    "fp8_tflops": Label("FP8 rate", ",.0f"),
    "gain": Label("gain", ".4f"),
    "gemm": Label("GEMM"),
    "hadamard": Label("Hadamard size"),
    "hbm_bandwidth": Label("HBM bandwidth"),
    "joules_per_token": Label("energy per token"),
    "loss_degradation": Label("loss degradation", "+.2f"),
    "peak_memory_gib": Label("peak memory", ".2f"),
    "pj_per_mac": Label("energy per MAC", ".3f"),
    "predicted_gain": Label("gain, product law", ".4f"),
    "ratio_to_roof": Label("share of roof", ".2f"),
    "relative_l2": Label("relative L2 error", ".4f"),
    "smallest_resolvable": Label("smallest resolvable", ".2f"),
    "sqnr_db": Label("SQNR", ".2f"),
    "step_seconds": Label("step time", ".3f"),
    "step_time": Label("step time"),
    "tail_train_loss": Label("training loss, tail", ".4f"),
    "tdp_w": Label("TDP", ",.0f"),
    "time_us": Label("time", ",.1f"),
    "tokens_per_second": Label("tokens per second", ",.0f"),
    "utilisation": Label("bucket utilisation", ".3f"),
    "validation_loss": Label("validation loss", ".4f"),
}


def label(name: str) -> Label:
    """The label of a name in a row; names without one are spelled out."""
    return LABELS.get(name, Label(name.replace("_", " ")))
