"""Synthetic result rows of every kind, for the tests of the report.

Nothing here was measured: curves are formulas with seeded noise, costs are round numbers. They only
have to be *shaped* like real rows, failures, gaps and all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from suites.rows import Quantity, Row, Series, emulated, measured, modelled, published

# final loss above BF16 in percent, gain of a GEMM output, its SQNR in dB
RECIPES = {
    "bf16": (0.0, 1.0, 52.0),
    "e2m1-ref": (1.26, 0.9921, 17.1),
    "ufp4": (0.97, 1.0007, 18.6),
    "nvfp4": (1.19, 0.9932, 17.4),
}
GRIDS = {
    "e2m1": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    "e1m2": tuple(k / 4 for k in range(8)),
    "int4": tuple(float(k) for k in range(8)),
}
# SQNR in dB without and with a Hadamard rotation of 16, and gain without and with
BIAS = {
    ("e2m1", "gaussian"): (20.53, 20.51, 0.9959, 0.9960),
    ("e1m2", "gaussian"): (21.39, 21.40, 1.0006, 1.0006),
    ("e2m1", "swiglu"): (21.13, 19.98, 0.9980, 0.9983),
    ("e1m2", "swiglu"): (18.88, 22.89, 1.0110, 1.0004),
    ("e2m1", "student-t3"): (21.11, 20.24, 0.9975, 0.9977),
    ("e1m2", "student-t3"): (18.98, 22.34, 1.0090, 1.0003),
}
LAYERS = tuple(f"blocks.{i}.{part}" for i in range(3) for part in ("qkv", "out", "fc1", "fc2"))
GEMMS = ("fprop", "dgrad", "wgrad")
OPERANDS = {"fprop": ("x", "w"), "dgrad": ("dy", "w"), "wgrad": ("dy", "x")}
LIBRARIES = ("osu018", "asap7")


def all_rows(seeds: int = 3, steps: int = 300) -> list[Row]:
    """Rows of every kind, as one run folder would hold them."""
    return [
        *training(seeds, steps),
        *comparison(),
        *fidelity(),
        *bias(),
        *depth(),
        *grids(),
        *kernels(),
        *devices(),
        *throughput(),
        *energy(),
        *area(),
        *circuits(),
        *codesign(),
    ]


def training(seeds: int = 3, steps: int = 300, recipes: dict | None = None) -> Iterator[Row]:
    """One row per recipe and seed, and one recipe that diverged."""
    for recipe, (percent, _, _) in (recipes or RECIPES).items():
        for seed in range(seeds):
            yield _trained(recipe, seed, steps, percent)
    yield Row(
        kind="training",
        status="diverged",
        config={"recipe": "mxfp4", "seed": 0, "model": "2M", "steps": steps},
        values={"validation_loss": emulated(math.nan, "nats/token")},
        facts={"device": "synthetic CPU", "gemm_path": "emulated"},
        error="step 41, blocks.2.fc2, dy.wgrad: not finite",
    )


def _trained(recipe: str, seed: int, steps: int, percent: float) -> Row:
    random = Random(f"{recipe}-{seed}")
    made = measured if recipe == "bf16" else emulated
    final = 4.9 * (1 + percent / 100) + random.gauss(0, 0.004)
    xs = list(range(1, steps + 1))
    ys = [final + 3.4 * math.exp(-x / (steps / 5)) + random.gauss(0, 0.05) for x in xs]
    marks = xs[steps // 10 - 1 :: max(1, steps // 10)]
    return Row(
        kind="training",
        config={
            "recipe": recipe,
            "seed": seed,
            "model": "2M",
            "steps": steps,
            "learning_rate": 3e-3,
        },
        values={
            "validation_loss": made(final, "nats/token"),
            "bits_per_byte": made(final / math.log(2) / 4.25, "bits/byte"),
            "tail_train_loss": made(final - 0.05, "nats/token"),
            "tokens_per_second": measured(9800 - 1400 * (recipe != "bf16"), "tokens/s"),
            "step_seconds": measured(0.42 + 0.07 * (recipe != "bf16"), "s"),
            "peak_memory_gib": measured(1.31, "GiB"),
            "energy_joules": Quantity(
                value=None, unit="J", origin="measured", status="unavailable", note="no counter"
            ),
        },
        facts={
            "device": "synthetic CPU",
            "profile": "cpu",
            "gemm_path": "native" if recipe == "bf16" else "emulated",
            "gemm_reason": "this device has no FP4 tensor core",
            "converted": 0 if recipe == "bf16" else 12,
            "kept": ["embedding", "head", "norm"],
            "parameters": 2_100_000,
            "epochs": 0.4,
        },
        series={
            "train_loss": _series(xs, ys),
            "validation_loss": _series(
                marks, [final + 3.4 * math.exp(-x / (steps / 5)) for x in marks]
            ),
        },
    )


def _series(x: list, y: list, x_label: str = "step", y_label: str = "loss") -> Series:
    return Series(x=x, y=y, x_label=x_label, y_label=y_label, unit="nats/token")


def comparison() -> Iterator[Row]:
    """Verdicts against bf16, and one of ufp4 against the E2M1 reference."""
    yield _compared("e2m1-ref", "bf16", 1.26, 0.31, "worse", "the interval excludes zero")
    yield _compared("ufp4", "bf16", 0.97, 0.28, "worse", "the interval excludes zero")
    yield _compared("nvfp4", "bf16", 1.19, 1.42, "not resolved", "the interval includes zero")
    yield _compared("ufp4", "e2m1-ref", -0.29, 0.36, "not resolved", "the interval includes zero")


def _compared(
    recipe: str, baseline: str, percent: float, half: float, verdict: str, reason: str
) -> Row:
    return Row(
        kind="comparison",
        config={"recipe": recipe, "baseline": baseline, "metric": "validation_loss"},
        values={
            "degradation_percent": emulated(percent, "%"),
            "ci_low": emulated(percent - half, "%"),
            "ci_high": emulated(percent + half, "%"),
            "smallest_resolvable": emulated(half, "%"),
            "seeds": emulated(3, ""),
        },
        facts={"verdict": verdict, "reason": reason},
    )


def fidelity() -> Iterator[Row]:
    """Every operand and output, per layer and GEMM, at two steps."""
    for recipe, (_, gain, sqnr) in list(RECIPES.items())[1:]:
        for gemm in GEMMS:
            for operand in (*(f"{o}.{gemm}" for o in OPERANDS[gemm]), "output"):
                yield _observed(recipe, "all", "all", gemm, operand, gain, sqnr)
                for step in (20, 300):
                    for layer in LAYERS:
                        yield _observed(recipe, step, layer, gemm, operand, gain, sqnr)


def _observed(
    recipe: str, step: int | str, layer: str, gemm: str, operand: str, gain: float, sqnr: float
) -> Row:
    random = Random(f"{recipe}-{step}-{layer}-{gemm}-{operand}")
    db = sqnr + (0 if operand == "output" else 3) + random.gauss(0, 0.7)
    return Row(
        kind="fidelity",
        config={
            "recipe": recipe,
            "seed": 0 if step != "all" else "all",
            "step": step,
            "layer": layer,
            "gemm": gemm,
            "operand": operand,
        },
        values={
            "gain": emulated(gain + random.gauss(0, 0.0012), "1"),
            "sqnr_db": emulated(db, "dB"),
            "relative_l2": emulated(10 ** (-db / 20), "1"),
            "utilisation": emulated(0.8 + random.random() / 8, "1"),
        },
    )


def bias() -> Iterator[Row]:
    """Gain and SQNR per format and distribution, with and without a rotation."""
    for (fmt, distribution), (plain_db, rotated_db, plain_gain, rotated_gain) in BIAS.items():
        for hadamard, db, gain in (
            ("none", plain_db, plain_gain),
            (16, rotated_db, rotated_gain),
        ):
            yield Row(
                kind="bias",
                config={
                    "format": fmt,
                    "distribution": distribution,
                    "hadamard": hadamard,
                    "rounding": "nearest",
                },
                values={
                    "gain": emulated(gain, "1"),
                    "sqnr_db": emulated(db, "dB"),
                    "utilisation": emulated(0.9, "1"),
                },
            )


def depth() -> Iterator[Row]:
    """Gain through depth, forward and backward, beside the product law."""
    for recipe, (_, gain, _) in list(RECIPES.items())[1:]:
        for direction in ("forward", "backward"):
            for index, layer in enumerate(LAYERS[3::4]):
                law = gain ** (4 * (index + 1))
                yield Row(
                    kind="depth",
                    config={"recipe": recipe, "layer": layer, "direction": direction},
                    values={
                        "gain": emulated(1 - (1 - law) * 0.6, "1"),
                        "predicted_gain": modelled(law, "1"),
                    },
                )


def grids() -> Iterator[Row]:
    """The code books, as a number line needs them."""
    for name, magnitudes in GRIDS.items():
        levels = [-m for m in magnitudes[:0:-1]] + list(magnitudes)
        yield Row(
            kind="grid",
            config={"format": name},
            values={"max": published(max(levels), "1"), "bits_per_element": published(6.0, "bit")},
            facts={
                "codes": 16 if name != "int4" else 15,
                "levels": levels,
                "midpoints": [(a + b) / 2 for a, b in zip(levels, levels[1:], strict=False)],
                "max": max(levels),
                "bits_per_element": 6.0,
            },
        )


def kernels() -> Iterator[Row]:
    """Timed kernels beside two roofs; a rival that ran, and one that could not."""
    copy, layer = ("copy", "share of the copy's rate"), ("BF16 nn.Linear", "times BF16 nn.Linear")
    for operation, fmt, time, ratio, (roof, meaning) in (
        ("quantise row nearest", "e2m1", 12.1, 0.81, copy),
        ("quantise row nearest", "e1m2", 11.8, 0.83, copy),
        ("quantise row rht", "e1m2", 12.9, 0.76, copy),
        ("linear forward+backward", "ufp4", 410.0, 1.44, layer),
    ):
        yield Row(
            kind="kernel",
            config={"operation": operation, "format": fmt, "shape": "4096x4096"},
            values={
                "time_us": measured(time, "us"),
                "spread": measured(0.03, "1"),
                "bytes_per_second": measured(3.9e12, "B/s"),
                "share_of_roof" if roof == "copy" else "times_roof": measured(ratio, "1", meaning),
                "eager_share" if roof == "copy" else "eager_times": measured(ratio, "1", meaning),
            },
            facts={"path": "triton", "reason": "no FP4 MMA", "roof": roof, "launches": 1},
        )
    rival = {"operation": "quantise row nearest", "format": "e2m1", "shape": "4096x4096"}
    yield Row(
        kind="kernel",
        config={**rival, "rival": "somebody", "mode": "compiled"},
        values={
            "time_us": measured(60.5, "us"),
            "share_of_roof": measured(0.016, "1", copy[1]),
            "times_ours": measured(5.0, "1"),
        },
        facts={"path": "somebody 1.0, compiled", "reason": "the same numbers", "roof": copy[0]},
    )
    yield Row(
        kind="kernel",
        config={**rival, "rival": "nobody", "mode": "eager"},
        values={"time_us": Quantity(value=None, unit="us", origin="measured", note="not there")},
        facts={"path": "nobody absent, eager", "reason": "not installed"},
    )


def devices() -> Iterator[Row]:
    """Data sheet figures."""
    for device, bf16, fp8, fp4 in (("H200", 989.0, 1979.0, None), ("B200", 2250.0, 4500.0, 9000.0)):
        source = "vendor data sheet, dense"
        yield Row(
            kind="device",
            config={"device": device},
            values={
                "bf16_tflops": published(bf16, "TFLOP/s", source),
                "fp8_tflops": published(fp8, "TFLOP/s", source),
                "fp4_tflops": published(fp4, "TFLOP/s", source),
                "hbm_bandwidth": published(8.0 if fp4 else 4.8, "TB/s", source),
                "tdp_w": published(1000.0 if fp4 else 700.0, "W", source),
            },
        )


def throughput() -> Iterator[Row]:
    """Modelled step times per device, and one that was measured."""
    for device, factor in (("B200", 1.0), ("B200 with E1M2 at the FP4 rate", 1.02)):
        for recipe, fmt, time in (
            ("bf16", "bf16", 9.1),
            ("nvfp4", "nvfp4", 3.4),
            ("ufp4", "e1m2", 3.5),
        ):
            yield Row(
                kind="throughput",
                config={
                    "device": device,
                    "model": "dense-1.5b",
                    "format": fmt,
                    "recipe": recipe,
                    "gemm": "step",
                },
                values={
                    "time_us": modelled(time * factor * 1e4, "us"),
                    "tokens_per_second": modelled(2.0e6 / time / factor, "tokens/s"),
                },
                facts={"bound": "compute"},
            )
    yield Row(
        kind="throughput",
        config={
            "device": "H200",
            "model": "60m",
            "format": "bf16",
            "recipe": "bf16",
            "gemm": "step",
        },
        values={
            "time_us": measured(2.1e4, "us"),
            "tokens_per_second": measured(1.2e6, "tokens/s"),
        },
        facts={"bound": "compute"},
    )


def energy() -> Iterator[Row]:
    """Modelled energy per token, and measured joules of one GPU."""
    for fmt, joules, pj in (("bf16", 8.1e-3, 0.9), ("nvfp4", 3.2e-3, 0.21), ("e1m2", 3.0e-3, 0.19)):
        yield Row(
            kind="energy",
            config={"device": "B200", "format": fmt, "model": "dense-1.5b"},
            values={
                "joules_per_token": modelled(joules, "J/token"),
                "pj_per_mac": modelled(pj, "pJ"),
            },
        )
    yield Row(
        kind="energy",
        config={"device": "H200", "format": "bf16", "model": "60m"},
        values={"joules_per_token": measured(5.1e-4, "J/token")},
    )


def area() -> Iterator[Row]:
    """The gate-count model of arXiv 2510.25602."""
    for fmt, value in (("nvfp4", 0.38), ("nvint4", 0.34), ("mxfp8", 1.0)):
        yield Row(
            kind="area",
            config={"format": fmt, "model": "gate-count 2510.25602", "part": "total"},
            values={"area_normalised": modelled(value, "MXFP8 = 1")},
        )


def circuits() -> Iterator[Row]:
    """Synthesised dot-product units by part, also one that does both grids."""
    parts = {
        "nvfp4": (310, 420, 610),
        "nve1m2": (190, 400, 540),
        "e2m1+e1m2 as e1m2": (360, 460, 640),
    }
    for library, scale in zip(LIBRARIES, (27.0, 0.06), strict=True):
        for fmt, (decode, product, accumulate) in parts.items():
            sizes = {
                "decode": decode,
                "product": product,
                "accumulate": accumulate,
                "scale": 500,
                "fp32": 1400,
            }
            for part, size in {**sizes, "total": sum(sizes.values())}.items():
                yield Row(
                    kind="circuit",
                    config={"format": fmt, "library": library, "lanes": 16, "part": part},
                    values={
                        "area_um2": modelled(size * scale, "um2"),
                        "energy_fj_per_mac": modelled(size * scale / 40, "fJ"),
                        "delay_ps": modelled(900 * scale**0.5, "ps"),
                        **_added(fmt, part),
                    },
                    facts={
                        "tool": "Yosys 0.57",
                        "corner": "typical",
                        "activity": "codes of a training step",
                        "checks": "256 code pairs, 4096 random vectors",
                    },
                )


def _added(fmt: str, part: str) -> dict[str, Quantity]:
    joint_total = "+" in fmt and part == "total"
    return {"added_area_percent": modelled(3.7, "%")} if joint_total else {}


def codesign() -> Iterator[Row]:
    """Quality joined with cost: two of the points are on the front."""
    for fmt, recipe, loss, db, size, energy_fj, time, front in (
        ("e2m1", "e2m1-ref", 1.26, 17.1, 3240.0, 81.0, 34.1, False),
        ("e1m2", "ufp4", 0.97, 18.6, 3030.0, 75.8, 35.0, True),
        ("nvfp4", "nvfp4", 1.19, 17.4, 3240.0, 81.0, 33.9, True),
    ):
        yield Row(
            kind="codesign",
            config={"format": fmt, "recipe": recipe, "device": "B200", "library": "asap7"},
            values={
                "loss_degradation": emulated(loss, "%"),
                "sqnr_db": emulated(db, "dB"),
                "area": modelled(size * 0.06, "um2"),
                "energy": modelled(energy_fj * 0.06, "fJ/MAC"),
                "step_time": modelled(time, "ms"),
            },
            facts={"on_front": front},
        )


ENVIRONMENTS = [
    {
        "command": ["bench.py", "--suite", "pretrain-small", "--seeds", "3"],
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "hardware": "synthetic CPU",
        "python": "3.12.1",
        "packages": {"torch": "2.11.0", "triton": "3.6.0", "numpy": "2.3.0"},
        "captured": "2026-01-01T00:00:00+00:00",
    }
]

HOSTILE = (
    "</script><script>stolen=1</script>",
    "<img src=x onerror=stolen=1>",
    '"><svg onload=stolen=1>',
    "=cmd|' /C calc'!A0",
    "%{x} $\\alpha$ {{ 7*7 }}",
    "формат 数 صيغة",
)


def hostile_rows() -> list[Row]:
    """All kinds of rows, with every name replaced by one that tries to break out."""
    wicked = iter(HOSTILE * 20)
    renamed: dict[str, str] = {}

    def rename(key: str, value: object) -> object:
        if key not in ("recipe", "baseline", "format", "distribution", "device", "layer"):
            return value
        if value not in renamed:
            renamed[str(value)] = f"{next(wicked)} {value}"
        return renamed[str(value)]

    return [
        row.model_copy(
            update={
                "config": {key: rename(key, value) for key, value in row.config.items()},
                "facts": {**row.facts, "reason": HOSTILE[1]},
                "error": HOSTILE[0] if row.error else None,
            }
        )
        for row in all_rows()
    ]
