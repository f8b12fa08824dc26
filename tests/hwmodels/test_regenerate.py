import sys

from hwmodels import regenerate


def test_a_missing_library_is_one_line_and_status_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["regenerate", "--liberty", "osu018=nowhere.lib"])
    assert regenerate.main() == 2
    errors = capsys.readouterr().err.strip()
    assert "nowhere.lib: no such Liberty file" in errors and "\n" not in errors
