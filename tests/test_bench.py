"""The front door as a user meets it: exit statuses, one-line errors, interruption and resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench
from tests.tiny import write_suite

ROOT = Path(__file__).resolve().parent.parent
TINY = [sys.executable, str(ROOT / "tests" / "tiny.py"), "--device", "cpu"]
PRETRAIN = ["--suite", "pretrain-small", "--device", "cpu"]
FORMAT = (
    "name: mine\nelement: {}\nblock: {}\nscale: {{format: e4m3, rule: amax}}\ntensor_scale: fp32\n"
)
RECIPE = "name: mine\nformat: nvfp4\nhadamard: {hadamard}\nkeep: [embedding]\n"

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory with the tiny suite in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDBENCH_FORMATS_DIR", "")
    write_suite(tmp_path)
    yield tmp_path


def start(*arguments: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*TINY, "--suite", "./tiny.yaml", *arguments], **pipes)


def run_tiny(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*TINY, "--suite", "./tiny.yaml", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def wait_for_cells(out: Path, count: int) -> None:
    """Wait until that many cells have started."""
    deadline = time.monotonic() + 30
    while not (out / "ran.txt").exists() or len(ran(out)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ran(out: Path) -> list[int]:
    return [int(line) for line in (out / "ran.txt").read_text().split()]


def summary(out: Path) -> dict:
    return json.loads((out / "summary.json").read_text())


def mine(element: str = "{values: [0, 1, 2, 4]}", block: str = "16") -> str:
    return FORMAT.format(element, block)


BAD_FORMATS = {
    "unknown key": (mine() + "blcok: 16\n", ["mine.yaml:6:1", "blcok", "did you mean 'block'"]),
    "duplicate key": (mine() + "block: 32\n", ["mine.yaml:6:1", "block", "first at line 3"]),
    "wrong type": (mine(block="wide"), ["mine.yaml:3:", "block"]),
    "name is not the stem": (mine().replace("mine", "other"), ["mine.yaml:1:", "name", "mine"]),
    "not monotone": (mine("{values: [0, 2, 1]}"), ["mine.yaml:2:", "increasing"]),
    "empty grid": (mine("{values: []}"), ["mine.yaml:2:", "non-empty"]),
    "non-finite grid": (mine("{values: [0, 1, .inf]}"), ["mine.yaml:2:", "finite"]),
    "too many values": (mine(f"{{values: {list(range(-8, 9))}}}"), ["mine.yaml:2:", "16"]),
    "block 0": (mine(block="0"), ["mine.yaml:3:", "block"]),
    "negative block": (mine(block="-16"), ["mine.yaml:3:", "block"]),
    "not YAML": (mine("{values: [0, 1"), ["mine.yaml:"]),
}
BAD_RECIPES = {
    "Hadamard size": (RECIPE.format(hadamard="{size: 12, gemms: [wgrad]}"), ["power of two"]),
    "unknown format": (RECIPE.format(hadamard="null").replace("nvfp4", "nvpf4"), ["nvfp4"]),
}
BAD_OPTIONS = {
    "no task": ([], ["--suite"]),
    "two tasks": (["--list", "--describe", "nvfp4"], ["not allowed with"]),
    "unknown option": (["--suite", "tiny", "--sets", "a=3"], ["--sets", "did you mean '--set'"]),
    "unknown device": (["--suite", "./tiny.yaml", "--device", "gpu"], ["gpu", "cuda"]),
    "unknown list": (["--list", "formts"], ["formts", "formats"]),
    "unknown description": (["--describe", "nvpf4"], ["nvpf4", "did you mean 'nvfp4'"]),
    "no GPU": (["--suite", "./tiny.yaml", "--device", "cuda"], ["--device cuda", "no GPU"]),
    "missing suite file": (["--suite", "./absent.yaml"], ["absent.yaml"]),
    "unknown format": (["--suite", "./tiny.yaml", "--format", "e2m2"], ["e2m2", "did you mean"]),
    "unknown recipe": (["--suite", "./tiny.yaml", "--recipe", "ufp"], ["did you mean 'ufp4'"]),
    "no seeds": (["--suite", "./tiny.yaml", "--seeds", "0"], ["--seeds 0", "at least 1"]),
    "seeds in words": (["--suite", "./tiny.yaml", "--seeds", "two"], ["--seeds", "two"]),
    "unknown setting": (["--suite", "./tiny.yaml", "--set", "cels=2"], ["did you mean 'cells'"]),
    "unknown inner setting": (
        ["--suite", "./tiny.yaml", "--set", "training.stps=2"],
        ["training.stps", "did you mean 'training.steps'"],
    ),
    "setting of a wrong type": (["--suite", "./tiny.yaml", "--set", "cells=few"], ["cells=few"]),
    "setting without a value": (["--suite", "./tiny.yaml", "--set", "cells"], ["key=value"]),
    "out is a file": (["--suite", "./tiny.yaml", "--out", "tiny.yaml"], ["--out", "is a file"]),
    "out below a file": (["--suite", "./tiny.yaml", "--out", "tiny.yaml/x"], ["is a file"]),
    "out cannot be made": (["--suite", "./tiny.yaml", "--out", "/proc/x"], ["--out /proc/x"]),
    "no formats folder": (["--list", "--formats-dir", "absent"], ["absent"]),
    "option of another task": (["--list", "--seeds", "3"], ["--seeds goes with --suite"]),
    "threshold in words": (["--compare", ".", ".", "--fail-on", "much"], ["--fail-on", "much"]),
    "report of no run": (["--report", "."], ["not a run folder"]),
    "report of another kind": (["--report", ".", "-o", "x.pdf"], ["x.pdf", ".html"]),
}


def refuse(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with status 2, one line that holds these words, and nothing written."""
    before = sorted(Path.cwd().rglob("*"))
    status = bench.main(arguments)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert (status, len(lines), captured.out) == (2, 1, ""), captured.err
    assert all(word in lines[0] for word in words), lines[0]
    assert sorted(Path.cwd().rglob("*")) == before


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_option(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    refuse(*BAD_OPTIONS[case], capsys)


@pytest.mark.parametrize("case", BAD_FORMATS)
def test_bad_format_file(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = BAD_FORMATS[case]
    (folder / "mine.yaml").write_text(text)
    refuse(["--suite", "./tiny.yaml", "--format", "./mine.yaml"], words, capsys)
    refuse(["--describe", "./mine.yaml"], words[:1], capsys)


@pytest.mark.parametrize("case", BAD_RECIPES)
def test_bad_recipe_file(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = BAD_RECIPES[case]
    (folder / "mine.yaml").write_text(text)
    refuse(["--suite", "./tiny.yaml", "--recipe", "./mine.yaml"], ["mine.yaml", *words], capsys)


@pytest.mark.parametrize(
    ("keep", "words"), [("[nothing]", "'nothing'"), ("['*']", "convert nothing")]
)
def test_a_recipe_that_does_not_fit_the_model(
    keep: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.yaml").write_text(f"name: mine\nformat: nvfp4\nkeep: {keep}\n")
    refuse([*PRETRAIN, "--recipe", "./mine.yaml"], ["mine", words], capsys)


@pytest.mark.parametrize(("path", "words"), [("absent", "absent"), ("empty", "empty")])
def test_a_corpus_that_has_no_text(
    path: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    refuse([*PRETRAIN, "--set", f"corpus.path={path}"], ["corpus.path", words], capsys)


@pytest.mark.parametrize(
    ("suite", "words"),
    [("pretrian-small", ["did you mean 'pretrain-small'"]), ("", ["unknown suite ''"])],
)
def test_B126_unknown_suite_is_an_error(
    suite: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(["--suite", suite], words, capsys)


def test_B126_empty_selection_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--suite", "./tiny.yaml", "--device", "cpu", "--set", "cells=0"]
    refuse(arguments, ["leaves no cell"], capsys)


def test_a_run_writes_the_five_files_and_ends_with_0(folder: Path) -> None:
    result = run_tiny("--out", "out")
    assert result.returncode == 0, result.stderr
    names = {path.name for path in (folder / "out").iterdir()}
    files = {"config.yaml", "environment.json", "results.jsonl", "summary.json", "report.html"}
    assert names >= files
    assert "report: out/report.html" in result.stdout
    assert "[5/5] cell 4" in result.stderr
    assert "cell 4" not in result.stdout
    assert summary(folder / "out")["status"] == "ok"


def test_the_default_folder_is_named_by_suite_and_device(folder: Path) -> None:
    assert run_tiny().returncode == 0
    assert (folder / "runs" / "tiny-cpu" / "summary.json").is_file()


def test_a_failed_cell_is_status_1_and_is_retried(folder: Path) -> None:
    write_suite(folder, "failing: [1]")
    result = run_tiny("--out", "out")
    assert result.returncode == 1
    assert "failed" in result.stderr and "RuntimeError: out of luck" in result.stderr
    assert summary(folder / "out")["status"] == "failed"
    write_suite(folder)
    assert run_tiny("--out", "out").returncode == 0
    assert ran(folder / "out") == [0, 1, 2, 3, 4, 1]


def test_B97_a_cell_without_data_is_a_failure(folder: Path) -> None:
    write_suite(folder, "empty: [0]")
    result = run_tiny("--out", "out")
    assert result.returncode == 1
    assert "no data" in result.stderr


def test_no_resume_runs_all_again_and_loses_nothing(folder: Path) -> None:
    assert run_tiny("--out", "out").returncode == 0
    first = (folder / "out" / "results.jsonl").read_text()
    assert run_tiny("--out", "out", "--no-resume").returncode == 0
    assert ran(folder / "out") == [0, 1, 2, 3, 4] * 2
    assert (folder / "out" / "results.jsonl").read_text().startswith(first)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_B121_interrupt_keeps_finished_cells(folder: Path, kind: signal.Signals) -> None:
    out = folder / "out"
    process = start("--out", "out", "--set", "seconds=0.3")
    wait_for_cells(out, 3)
    process.send_signal(kind)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors and "Traceback" not in errors
    states = [cell["status"] for cell in summary(out)["cells"]]
    assert (summary(out)["status"], states) == ("interrupted", ["ok", "ok"] + 3 * ["pending"])
    assert run_tiny("--out", "out", "--set", "seconds=0.3").returncode == 0
    assert ran(out) == [0, 1, 2, 2, 3, 4]


def test_B121_kill_9_loses_only_the_cell_in_flight(folder: Path) -> None:
    out = folder / "out"
    process = start("--out", "out", "--set", "seconds=0.3")
    wait_for_cells(out, 3)
    process.kill()
    process.communicate(timeout=30)
    assert run_tiny("--out", "out", "--set", "seconds=0.3").returncode == 0
    assert ran(out) == [0, 1, 2, 2, 3, 4]
    assert summary(out)["status"] == "ok"


def test_B121_a_fault_of_ours_keeps_finished_cells(folder: Path) -> None:
    write_suite(folder, "crashing: [2]")
    result = run_tiny("--out", "out")
    assert result.returncode == 1
    assert "KeyError" in result.stderr
    states = [cell["status"] for cell in summary(folder / "out")["cells"]]
    assert states == ["ok", "ok", "pending", "pending", "pending"]


def test_two_processes_in_one_folder_are_locked_out(folder: Path) -> None:
    process = start("--out", "out", "--set", "seconds=1")
    wait_for_cells(folder / "out", 1)
    second = run_tiny("--out", "out")
    process.kill()
    process.communicate(timeout=30)
    assert second.returncode == 2
    assert "another process" in second.stderr


def test_B122_half_a_last_line_is_dropped_with_a_warning(folder: Path) -> None:
    assert run_tiny("--out", "out").returncode == 0
    results = folder / "out" / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-40])
    result = run_tiny("--out", "out")
    assert result.returncode == 0
    assert "half a line" in result.stderr
    assert ran(folder / "out") == [0, 1, 2, 3, 4, 4]
    assert run_tiny("--out", "out").returncode == 0
    assert len(ran(folder / "out")) == 6


def test_B122_damage_in_the_middle_names_the_line(folder: Path) -> None:
    assert run_tiny("--out", "out").returncode == 0
    results = folder / "out" / "results.jsonl"
    lines = results.read_text().splitlines()
    lines[2] = lines[2][:30]
    results.write_text("\n".join(lines) + "\n")
    result = run_tiny("--out", "out")
    assert result.returncode == 2
    assert "results.jsonl:3" in result.stderr
    assert results.read_text().splitlines() == lines


def test_B125_only_rank_0_writes(folder: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, *TINY[1:], "--suite", "./tiny.yaml", "--out", "out"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert ran(folder / "out") == [0, 1, 2, 3, 4]
    assert result.stdout.count("report: ") == 1


def test_dry_run_and_show_config_write_nothing(folder: Path) -> None:
    for option, words in (("--dry-run", "about 5.0 s"), ("--show-config", "steps: 7")):
        result = run_tiny(option, "--set", "training.steps=7")
        assert (result.returncode, words in result.stdout) == (0, True), result.stderr
    assert [path.name for path in folder.iterdir()] == ["tiny.yaml"]


def test_report_is_remade_from_the_folder_alone(folder: Path) -> None:
    assert run_tiny("--out", "out").returncode == 0
    page = (folder / "out" / "report.html").read_text()
    assert bench.main(["--report", "out", "-o", "again/page.html"]) == 0
    assert (folder / "again" / "page.html").read_text() == page
    for name in ("page.md", "page.csv"):
        assert bench.main(["--report", "out", "-o", name]) == 0
        assert (folder / name).stat().st_size > 0


def test_compare_fails_on_a_worsening(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tiny("--out", "a").returncode == 0
    assert run_tiny("--out", "b", "--set", "loss=2.2").returncode == 0
    assert bench.main(["--compare", "a", "b"]) == 0
    assert bench.main(["--compare", "a", "b", "--fail-on", "5%"]) == 1
    assert bench.main(["--compare", "a", "b", "--fail-on", "20%"]) == 0
    assert bench.main(["--compare", "b", "a", "--fail-on", "5%"]) == 0
    assert "worse by more than 5 %" in capsys.readouterr().out


def test_describe_tells_what_follows(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--describe", "nvfp4"]) == 0
    text = capsys.readouterr().out
    # Two records bear this name: the format, with 16 codes, and the recipe, with six operands.
    for words in ("4.5", "1111", "-6", "SQNR on Gaussian", "dB", "dy.wgrad", "stochastic"):
        assert words in text


@pytest.mark.parametrize("option", ["--help", "--list", "--describe"])
def test_quick_answers_need_no_torch(option: str) -> None:
    """A fault in a file, the lists and the help answer at once, so torch must not be imported."""
    Path("bad.yaml").write_text("name: bad\nelement: e9m9\n")
    arguments = [option, "./bad.yaml"] if option == "--describe" else [option]
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    command = [sys.executable, str(ROOT / "bench.py"), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == (2 if option == "--describe" else 0), result.stderr
    modules = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert modules & {"formats.registry"}
    assert not modules & {"torch", "triton", "plotly", "numpy"}
