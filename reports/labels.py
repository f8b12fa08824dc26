"""How a result is called and printed: the reader's words for the names in the rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Label:
    """Title of a quantity and its format specification (empty: four significant digits)."""

    title: str
    style: str = ""


LABELS = {
    "added_area_percent": Label("area added", "+.1f"),
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
    "eager_share": Label("eager", ".3g"),
    "eager_times": Label("eager", ".2f"),
    "elements": Label("elements", ",.0f"),
    "energy_fj_per_mac": Label("energy per MAC", ",.2f"),
    "energy_joules": Label("energy", ",.0f"),
    "error_percent": Label("model's error", "+.1f"),
    "fp4_tflops": Label("FP4 rate", ",.0f"),
    "fp8_tflops": Label("FP8 rate", ",.0f"),
    "gain": Label("gain", ".4f"),
    "gain_standard_error": Label("gain, standard error"),
    "gemm": Label("GEMM"),
    "gemm_path": Label("path"),
    "gemm_reason": Label("because"),
    "kept": Label("kept in high precision"),
    "hadamard": Label("Hadamard size"),
    "hbm_bandwidth": Label("HBM bandwidth"),
    "joules_per_token": Label("energy per token"),
    "leakage_nw": Label("leakage", ",.1f"),
    "loss_degradation": Label("loss degradation", "+.2f"),
    "memory_gb": Label("memory", ",.0f"),
    "modelled_us": Label("time by model"),
    "our_sqnr_db": Label("our SQNR", ".2f"),
    "peak_memory_gib": Label("peak memory", ".2f"),
    "pj_per_mac": Label("energy per MAC", ".3f"),
    "predicted_gain": Label("gain, product law", ".4f"),
    "ratio_to_nvfp4": Label("relative to nvfp4", ".3f"),
    "relative_l2": Label("relative L2 error", ".4f"),
    "replayed_share": Label("replayed", ".3g"),
    "replayed_times": Label("replayed", ".2f"),
    "share_of_roof": Label("share of roof", ".3g"),
    "smallest_resolvable": Label("smallest resolvable", ".2f"),
    "sqnr_db": Label("SQNR", ".2f"),
    "sqnr_db_standard_error": Label("SQNR, standard error"),
    "step_ratio": Label("step time ratio", ".2f"),
    "step_seconds": Label("step time", ".4f"),
    "step_time": Label("step time"),
    "tail_train_loss": Label("training loss, tail", ".4f"),
    "tdp_w": Label("TDP", ",.0f"),
    "time_us": Label("time"),
    "times_ours": Label("times ours", ".2f"),
    "times_roof": Label("times roof", ".2f"),
    "tokens_per_second": Label("tokens per second", ",.0f"),
    "uniform_fj_per_mac": Label("energy per MAC, random codes", ",.2f"),
    "utilisation": Label("bucket utilisation", ".3f"),
    "validation_loss": Label("validation loss", ".4f"),
    "vectors": Label("vectors", ",.0f"),
}


def label(name: str) -> Label:
    """The label of a name in a row; names without one are spelled out."""
    return LABELS.get(name, Label(name.replace("_", " ")))
