"""Result rows -> tables: a table is defined once, for every output.

Most are a *view* of one kind of row, listed here; some are a *pivot* of one quantity. The few that
join kinds of rows (the answer, the paper's numbers) are with their sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.labels import label
from reports.select import grouped, median, names, of_kind, quantities
from reports.table import ABSENT, Cell, Column, Table, common_unit, number_cell, text_cell
from suites.rows import Row


@dataclass(frozen=True)
class View:
    """A table of one kind of row: its settings, quantities and some of its facts.

    The names give the order of the columns; settings and quantities that rows have beside them
    follow, so that nothing recorded is lost. What a row lacks shows as "n/a". An ``exact`` view has
    no other columns than those named, and each of its lines once.
    """

    id: str
    kind: str
    title: str
    config: tuple[str, ...]
    values: tuple[str, ...]
    facts: tuple[str, ...] = ()
    note: str = ""
    exact: bool = False

    def table(self, rows: Sequence[Row]) -> Table:
        """The view of those rows that are of its kind, without columns that say nothing."""
        chosen = of_kind(rows, self.kind)
        others = [] if self.exact else chosen
        settings = list(dict.fromkeys([*self.config, *(n for row in others for n in row.config)]))
        results = list(dict.fromkeys([*self.values, *(n for row in others for n in row.values)]))
        columns = (
            *(Column(label(name).title) for name in settings),
            *(Column(label(name).title, common_unit(quantities(chosen, name))) for name in results),
            *(Column(label(name).title) for name in self.facts),
        )
        lines = [_line(row, settings, results, self.facts) for row in chosen]
        if self.exact:
            lines = list(dict.fromkeys(lines))
        table = Table(self.id, self.title, columns, tuple(lines), self.note)
        return table.without_empty_columns().with_constants_noted()


def _line(
    row: Row, settings: Sequence[str], results: Sequence[str], facts: Sequence[str]
) -> tuple[Cell, ...]:
    absent = ABSENT if row.status == "ok" else row.status
    return (
        *(text_cell(row.config.get(name)) for name in settings),
        *(number_cell(row.values.get(name), label(name).style, absent) for name in results),
        *(text_cell(row.facts.get(name)) for name in facts),
    )


def pivot(
    id: str,
    title: str,
    rows: Sequence[Row],
    lines: Sequence[str],
    across: str,
    quantity: str,
    note: str = "",
) -> Table:
    """One quantity with a line per combination of settings and a column per value of another.

    Several rows that fall on one cell (seeds, as a rule) give their median.
    """
    heads = names(rows, across)
    unit = common_unit(quantities(rows, quantity))
    body = tuple(
        (
            *map(text_cell, key),
            *(_middle(group, across, head, quantity) for head in heads),
        )
        for key, group in grouped(rows, *lines).items()
    )
    columns = (
        *(Column(label(name).title) for name in lines),
        *(Column(head, unit) for head in heads),
    )
    return Table(id, title, columns, body, note)


def _middle(group: Sequence[Row], across: str, head: str, quantity: str) -> Cell:
    found = [row for row in group if str(row.config.get(across)) == head]
    return number_cell(median(quantities(found, quantity)), label(quantity).style)


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
    ("recipe", "seed", "model", "steps", "learning_rate"),
    (
        "validation_loss",
        "bits_per_byte",
        "tail_train_loss",
        "tokens_per_second",
        "step_seconds",
        "peak_memory_gib",
        "energy_joules",
    ),
    ("device", "parameters", "epochs"),
    "Speed is of this machine emulating the format, not of hardware that has it.",
)
PATHS = View(
    "paths",
    "training",
    "How each recipe was run",
    ("recipe",),
    (),
    ("gemm_path", "gemm_reason", "converted", "kept", "reference_band"),
    exact=True,
)
BIAS = View(
    "bias",
    "bias",
    "Gain and SQNR of formats on known distributions",
    ("format", "distribution", "hadamard", "rounding"),
    ("gain", "sqnr_db", "utilisation"),
)
OPERANDS = View(
    "operands",
    "fidelity",
    "Operands and outputs, summed up",
    ("recipe", "gemm", "operand"),
    ("gain", "sqnr_db", "relative_l2", "utilisation"),
    note="Means over layers, steps and seeds.",
)
DEPTH = View(
    "depth",
    "depth",
    "Gain through depth",
    ("recipe", "direction", "layer"),
    ("gain", "predicted_gain"),
)
# Of a roof's rate, or of its time: on the device, in replayed graphs, in eager mode.
SHARES = ("share_of_roof", "replayed_share", "eager_share")
TIMES = ("times_roof", "replayed_times", "eager_times")
KERNEL_TIMES = View(
    "kernel-times",
    "kernel",
    "Kernels, timed",
    ("operation", "format", "shape", "rival", "mode"),
    ("time_us", *SHARES, *TIMES, "times_ours"),
    exact=True,
)
KERNELS = View(
    "kernels",
    "kernel",
    "Kernels, all that was recorded",
    ("operation", "format", "shape", "rival", "mode"),
    ("time_us", "spread", *SHARES, *TIMES, "bytes_per_second"),
    ("launches", "power_w", "clock_mhz", "cache", "path", "reason"),
)
KERNEL_PATHS = View(
    "kernel-paths",
    "kernel",
    "How they ran",
    (),
    (),
    ("path", "reason"),
    exact=True,
)
CONFORMANCE = View(
    "conformance",
    "conformance",
    "Conformance vectors, by format",
    ("format",),
    ("vectors", "elements"),
    ("file", "sha256"),
    "Files lie in the run folder; `--check FILE` compares somebody's answers with them.",
)
DEVICES = View(
    "devices",
    "device",
    "Devices, from data sheets",
    ("device",),
    ("bf16_tflops", "fp8_tflops", "fp4_tflops", "memory_gb", "hbm_bandwidth", "tdp_w"),
    ("status", "native", "notes"),
)
THROUGHPUT = View(
    "throughput",
    "throughput",
    "Throughput per device",
    ("device", "model", "recipe", "format", "gemm"),
    ("time_us", "tokens_per_second"),
    ("bound", "path", "basis", "optimiser"),
)
VALIDATION = View(
    "validation",
    "throughput",
    "How far the model is from measurements",
    ("device", "model", "recipe", "gemm"),
    ("time_us", "modelled_us", "error_percent"),
    ("bound", "use", "target"),
)
ENERGY = View(
    "energy",
    "energy",
    "Energy per device and circuit",
    ("device", "circuit", "model", "recipe", "format"),
    ("joules_per_token", "pj_per_mac"),
)
AREA = View(
    "area",
    "area",
    "Area by each model",
    ("format", "model", "library", "part"),
    ("area_um2", "area_normalised"),
)
CIRCUITS = View(
    "circuits",
    "circuit",
    "Synthesised circuits by part",
    ("library", "format", "lanes", "part"),
    ("area_um2", "energy_fj_per_mac", "delay_ps"),
    ("tool", "corner", "activity", "checks", "script_hash", "liberty_hash"),
)
CODESIGN = View(
    "codesign",
    "codesign",
    "Quality beside cost",
    ("format", "recipe", "device", "library"),
    ("loss_degradation", "sqnr_db", "area", "energy", "step_time"),
    ("on_front",),
    "SQNR is the mean over all observed GEMM outputs; in The answer it is of the middle GEMM.",
)
