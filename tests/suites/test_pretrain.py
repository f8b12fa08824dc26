"""pretrain: which cells run, what they give, and that facts, not names, decide the losses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import formats
from formats.schema import RecipeRecord
from kernels.cpu import cpu_path
from suites.catalog import load_suite, resolve_settings
from suites.degradation import METRICS, TAILS
from suites.experiment import Cell, Context, Device, Selection
from suites.pretrain import Pretrain
from suites.pretrain_settings import PretrainSettings
from suites.rows import Row, read_row
from suites.schedule import TrainingSettings

TRAINING = TrainingSettings(
    steps=6,
    batch=2,
    sequence=32,
    warmup_steps=2,
    validation_sequences=8,
    validation_every=3,
    checkpoint_every=2,
)
LIBRARY = Path(formats.__file__).parent / "library"


@pytest.fixture
def settings(text_file: Path) -> PretrainSettings:
    corpus = {"path": str(text_file), "vocabulary": 300}
    return PretrainSettings(
        model="tiny", recipes=["bf16", "ufp4"], fidelity_steps=[3], corpus=corpus, training=TRAINING
    )


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context("cpu", "cpu", tmp_path / "cache", tmp_path / "run")


def run(
    settings: PretrainSettings,
    context: Context,
    selection: Selection = Selection(),  # noqa: B008
) -> list[Row]:
    experiment = Pretrain()
    cells = experiment.cells(settings, selection)
    rows = [row for cell in cells for row in experiment.run(cell, context)]
    rows = [read_row(row.to_json()) for row in rows]
    return [*rows, *experiment.derive(rows)]


def labels(cells: Sequence[Cell]) -> list[str]:
    return [cell.label for cell in cells]


def losses(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    return {r.config["recipe"]: r.series["train_loss"].y for r in rows if r.kind == "training"}


def test_cells_are_recipes_of_one_seed_after_another(settings: PretrainSettings) -> None:
    cells = Pretrain().cells(settings, Selection(seeds=2))
    assert labels(cells) == ["bf16 seed 0", "ufp4 seed 0", "bf16 seed 1", "ufp4 seed 1"]
    assert len({cell.key for cell in cells}) == 4


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(recipes=("nvfp4",)), ["bf16", "nvfp4"]),
        (Selection(recipes=("nvfp4", "bf16")), ["bf16", "nvfp4"]),
        (Selection(formats=("int4", "e2m1")), ["bf16", "int4", "e2m1"]),
        (Selection(formats=("int4",), recipes=("ufp4",)), ["bf16", "ufp4+int4"]),
    ],
)
def test_selection_replaces_the_recipes_but_not_the_baseline(
    settings: PretrainSettings, selection: Selection, names: list[str]
) -> None:
    cells = Pretrain().cells(settings, selection)
    assert labels(cells) == [f"{name} seed 0" for name in names]


def test_settings_are_read_without_torch() -> None:
    code = (
        "import sys; from suites import bias, pretrain, smoke;"
        "pretrain.PretrainSettings(); bias.BiasSettings(); smoke.SmokeSettings(parts={});"
        "print('torch' in sys.modules)"
    )
    root = LIBRARY.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_rows_hold_losses_fidelity_and_comparisons(
    settings: PretrainSettings, context: Context
) -> None:
    rows = run(settings, context)
    baseline, quantised = (row for row in rows if row.kind == "training")
    assert baseline.config["recipe"] == "bf16"
    for row in (baseline, quantised):
        assert row.status == "ok"
        assert row.series["validation_loss"].x == [3, 6]
        assert row.values["validation_loss"].value == row.series["validation_loss"].y[-1]
        assert row.values["tokens_per_second"].origin == "measured"
        assert 0 < row.facts["epochs"] < 4
    assert baseline.values["validation_loss"].origin == "measured"
    assert quantised.values["validation_loss"].origin == "emulated"
    assert len(quantised.facts["converted"]) == 2 * 4
    assert quantised.facts["quantise_path"] == cpu_path().name
    assert "quantise_path" not in baseline.facts
    assert baseline.facts["converted"] == []

    fidelity = [row for row in rows if row.kind == "fidelity" and row.config["layer"] != "all"]
    assert {row.config["recipe"] for row in fidelity} == {"ufp4"}
    assert len(fidelity) == 2 * 4 * 9  # blocks, layers, six operands and three outputs
    assert all(0.9 < row.values["gain"].value < 1.1 for row in fidelity)  # type: ignore[operator]

    comparisons = {r.config["metric"]: r for r in rows if r.kind == "comparison"}
    assert set(comparisons) == {*METRICS, *TAILS}
    assert {r.facts["verdict"] for r in comparisons.values()} == {"not resolved"}


def test_user_file_with_the_facts_of_a_built_in_gives_identical_losses(
    settings: PretrainSettings, context: Context, tmp_path: Path
) -> None:
    mine = tmp_path / "my-grid.yaml"
    mine.write_text(
        "name: my-grid\nsummary: nvfp4 again\nelement: {values: [0, 0.5, 1, 1.5, 2, 3, 4, 6]}\n"
        "block: 16\nscale: {format: e4m3, rule: amax}\ntensor_scale: fp32\nsource: a test\n"
    )
    rows = run(settings, context, Selection(formats=(str(mine), "nvfp4")))
    curves = losses(rows)
    assert curves["my-grid"] == curves["nvfp4"]
    assert curves["my-grid"] != curves["bf16"]


def test_interrupted_cell_resumes_to_the_same_rows(
    settings: PretrainSettings, context: Context, tmp_path: Path
) -> None:
    cell = Pretrain().cells(settings, Selection())[1]
    whole = list(Pretrain().run(cell, context))
    seen: list[int] = []

    def interrupt(done: int, total: int, note: str) -> None:
        seen.append(done)
        if done == 5:
            raise KeyboardInterrupt

    interrupted = Context("cpu", "cpu", context.cache_dir, tmp_path / "other", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(Pretrain().run(cell, interrupted))
    resumed = list(Pretrain().run(cell, _counting(interrupted, seen)))
    assert seen == [1, 2, 3, 4, 5, 5, 6]
    assert resumed[0].series == whole[0].series
    assert resumed[1:] == whole[1:]
    assert list((tmp_path / "other" / "checkpoints").iterdir()) == []


def _counting(context: Context, seen: list[int]) -> Context:
    return Context(
        "cpu", "cpu", context.cache_dir, context.run_dir, lambda done, *rest: seen.append(done)
    )


def test_B74_diverged_run_is_a_row_without_numbers(
    settings: PretrainSettings, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    explosive = settings.model_copy(
        update={"training": TRAINING.model_copy(update={"learning_rate": 1e20})}
    )
    rows = run(explosive, context, Selection(recipes=("ufp4",)))
    for row in (row for row in rows if row.kind == "training"):
        assert row.status == "diverged"
        assert row.values["validation_loss"].value is None
        assert row.values["validation_loss"].status == "diverged"
        assert row.error is not None and row.error.startswith(f"step {row.facts['diverged_step']}")
        assert row.facts["diverged_layer"] in row.error
    assert {r.facts["verdict"] for r in rows if r.kind == "comparison"} == {"not resolved"}


def test_reference_band_counts_only_for_its_own_settings(
    settings: PretrainSettings, context: Context
) -> None:
    def verdict(low: float, high: float, digest: str) -> str:
        band = {"low": low, "high": high, "settings": digest}
        banded = PretrainSettings.model_validate({**settings.model_dump(), "reference_band": band})
        rows = run(banded, context, Selection(recipes=("bf16",)))
        return str(rows[0].facts["reference_band"])

    own = settings.run_digest
    assert verdict(0, 10, own) == "inside 0 to 10 bits per byte"
    assert verdict(0, 0.01, own) == "outside 0 to 0.01 bits per byte"
    assert verdict(0, 10, "other") == f"no band is known for these settings ({own})"


def test_band_of_the_main_suite_belongs_to_its_settings_as_they_are_now() -> None:
    settings = resolve_settings(load_suite("pretrain-small"), PretrainSettings, "cpu", [])
    assert isinstance(settings, PretrainSettings) and settings.reference_band is not None
    assert settings.reference_band.settings == settings.run_digest


@pytest.mark.parametrize("suite", ["pretrain-small", "pretrain-moe"])
@pytest.mark.parametrize("profile", ["cpu", "cuda"])
def test_fidelity_steps_of_the_suites_lie_within_their_runs(suite: str, profile: Device) -> None:
    settings = resolve_settings(load_suite(suite), PretrainSettings, profile, [])
    assert isinstance(settings, PretrainSettings)
    assert 0 <= min(settings.fidelity_steps) <= max(settings.fidelity_steps)
    assert max(settings.fidelity_steps) < settings.training.steps


def test_text_repeated_too_often_fails_the_cell(
    settings: PretrainSettings, context: Context
) -> None:
    limited = TRAINING.model_copy(update={"max_epochs": 0.001})
    with pytest.raises(ValueError, match="training.max_epochs is 0.001"):
        run(settings.model_copy(update={"training": limited}), context)


@pytest.mark.parametrize("path", ["missing", "empty"])
def test_missing_or_empty_text_is_refused_before_anything_runs(
    settings: PretrainSettings, path: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    corpus = settings.corpus.model_copy(update={"path": str(tmp_path / path)})
    with pytest.raises(ValueError, match="corpus.path"):
        Pretrain().cells(settings.model_copy(update={"corpus": corpus}), Selection())


def test_unknown_model_size_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown model size 'huge'"):
        PretrainSettings(model="huge")


def test_estimates_grow_with_work_and_with_quantisation(settings: PretrainSettings) -> None:
    plain, quantised = (
        Pretrain().estimate_seconds(cell) for cell in Pretrain().cells(settings, Selection())
    )
    assert 0 < plain < quantised


def test_recipes_part_only_after_the_steps_in_high_precision(
    settings: PretrainSettings, context: Context
) -> None:
    late = settings.model_copy(
        update={"training": TRAINING.model_copy(update={"high_precision_steps": 2})}
    )
    together, apart = losses(run(late, context)), losses(run(settings, context))
    assert together["bf16"] == apart["bf16"]  # the baseline's run is the same, handed over
    # The third step still starts from equal weights, but quantised.
    assert together["ufp4"][:2] == together["bf16"][:2] != apart["ufp4"][:2]
    assert all(a != b for a, b in zip(together["ufp4"][2:], together["bf16"][2:], strict=True))


def test_core_gets_its_seeds_before_the_others_get_theirs(settings: PretrainSettings) -> None:
    inline = {"name": "mine", "format": "int4", "stochastic": ["dy"]}
    studied = PretrainSettings.model_validate(
        {
            **settings.model_dump(exclude={"recipes"}),
            "recipes": ["bf16", RecipeRecord.model_validate(inline, strict=False), "ufp4"],
            "core": ["bf16", "mine"],
            "core_seeds": 2,
        }
    )
    cells = Pretrain().cells(studied, Selection())
    assert labels(cells) == [
        "bf16 seed 0",
        "mine seed 0",
        "bf16 seed 1",
        "mine seed 1",
        "ufp4 seed 0",
    ]
    assert cells[1].config["recipe"] == inline
    # What the study is made of does not decide what a cell gives: its key is that of any study.
    assert cells[0].key == Pretrain().cells(settings, Selection())[0].key
