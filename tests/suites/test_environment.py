"""What a run ran on is captured as plain JSON, and names nobody."""

from __future__ import annotations

import getpass
import json
import platform

import pytest

from suites.environment import capture_environment, choose_device, hardware_name


def test_the_capture_is_json_with_the_facts_a_reader_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    captured = capture_environment("cpu")
    text = json.dumps(captured, allow_nan=False)
    assert captured["packages"]["torch"]
    assert captured["hardware"] == captured["cpu"]["name"] == hardware_name("cpu")
    assert captured["variables"]["TRITON_INTERPRET"] == "1"
    assert "hidden" not in text and platform.node() not in text
    assert getpass.getuser() not in captured["variables"].values()


def test_the_cpu_is_taken_when_asked_for() -> None:
    device, reason = choose_device("cpu")
    assert device == "cpu"
    assert "--device cpu" in reason


def test_auto_and_cuda_agree_on_whether_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto")[0] == "cpu"
    with pytest.raises(ValueError, match="finds no GPU"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    assert choose_device("auto") == ("cuda", "a GPU was found: a GPU")
