"""Result rows -> tables: each table is defined here once, for every output.

Most tables are a *view* of one kind of row: which settings name a line, which quantities and facts
fill it. The tables that join kinds (the answer, the cost of a second grid, the paper's numbers)
are in reports/answer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.labels import label
from reports.select import of_kind
from reports.table import Cell, Column, Table, common_unit, number_cell, text_cell
from suites.rows import Row


@dataclass(frozen=True)
class View:
    """A table of one kind of row: names of settings, quantities and facts, in column order.

    Rows that lack one of them show "n/a" there; what no row has is no column.
    """

    id: str
    kind: str
    title: str
    config: tuple[str, ...]
    values: tuple[str, ...]
    facts: tuple[str, ...] = ()
    note: str = ""

    def table(self, rows: Sequence[Row]) -> Table:
        """The view of those rows that are of its kind, without columns that say nothing."""
        chosen = of_kind(rows, self.kind)
        columns = [Column(label(name).title) for name in self.config]
        columns += [
            Column(label(name).title, common_unit(row.values.get(name) for row in chosen))
            for name in self.values
        ]
        columns += [Column(label(name).title) for name in self.facts]
        cells = tuple(self._cells(row) for row in chosen)
        table = Table(self.id, self.title, tuple(columns), cells, self.note)
        return table.without_empty_columns().with_constants_noted()

    def _cells(self, row: Row) -> tuple[Cell, ...]:
        absent = "n/a" if row.status == "ok" else row.status
        return (
            *(text_cell(row.config.get(name)) for name in self.config),
            *(number_cell(row.values.get(name), label(name).style, absent) for name in self.values),
            *(text_cell(row.facts.get(name)) for name in self.facts),
        )


COMPARISONS = View(
    "comparisons",
    "comparison",
    "Comparisons, with what the budget could have resolved",
    ("recipe", "baseline", "metric"),
    ("degradation_percent", "ci_low", "ci_high", "smallest_resolvable", "seeds"),
    ("verdict", "reason"),
)
TRAINING = View(
    "training",
    "training",
    "Training runs",
    ("recipe", "seed", "model", "steps", "lr"),
    (
        "validation_loss",
        "bits_per_byte",
        "tail_train_loss",
        "tokens_per_second",
        "step_seconds",
        "peak_memory_gib",
        "energy_joules",
    ),
    ("device", "gemm_path", "gemm_reason", "converted", "parameters", "epochs"),
    "Speed is of this machine emulating the format, not of hardware that has it.",
)
BIAS = View(
    "bias",
    "bias",
    "Gain and SQNR of formats on known distributions",
    ("format", "distribution", "hadamard", "rounding"),
    ("gain", "sqnr_db", "utilisation"),
)
FIDELITY = View(
    "fidelity",
    "fidelity",
    "Every observation inside the runs",
    ("recipe", "seed", "step", "layer", "gemm", "operand"),
    ("gain", "sqnr_db", "relative_l2", "utilisation"),
)
DEPTH = View(
    "depth",
    "depth",
    "Gain through depth",
    ("recipe", "direction", "layer"),
    ("gain", "predicted_gain"),
)
KERNELS = View(
    "kernels",
    "kernel",
    "Kernels, timed",
    ("operation", "format", "shape"),
    ("time_us", "spread", "bytes_per_second", "ratio_to_roof"),
    ("path", "reason"),
)
DEVICES = View(
    "devices",
    "device",
    "Devices, from data sheets",
    ("device",),
    ("bf16_tflops", "fp8_tflops", "fp4_tflops", "hbm_bandwidth", "tdp_w"),
)
THROUGHPUT = View(
    "throughput",
    "throughput",
    "Throughput per device",
    ("device", "model", "recipe", "format", "gemm"),
    ("time_us", "tokens_per_second"),
    ("bound",),
)
ENERGY = View(
    "energy",
    "energy",
    "Energy per device and circuit",
    ("device", "circuit", "model", "format"),
    ("joules_per_token", "pj_per_mac"),
)
AREA = View(
    "area",
    "area",
    "Area by the published gate-count model",
    ("format", "model", "library", "part"),
    ("area_um2", "area_normalised"),
)
CIRCUITS = View(
    "circuits",
    "circuit",
    "Synthesised circuits by part",
    ("library", "format", "lanes", "part"),
    ("area_um2", "energy_fj_per_mac", "delay_ps"),
    ("tool", "corner", "activity", "checks"),
)
CODESIGN = View(
    "codesign",
    "codesign",
    "Quality beside cost",
    ("format", "recipe", "device", "library"),
    ("loss_degradation", "sqnr_db", "area", "energy", "step_time"),
    ("on_front",),
)
