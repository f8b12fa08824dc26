import pytest
from pydantic import ValidationError

from suites.pretrain_settings import PretrainSettings


def test_an_unknown_model_size_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="unknown model size 'smal'.*known: tiny, small"):
        PretrainSettings(model="smal")


def test_a_band_holds_for_what_decides_a_run_and_not_for_its_grid() -> None:
    settings = PretrainSettings()
    assert settings.run_digest == PretrainSettings(seeds=3, recipes=["ufp4"]).run_digest
    assert settings.run_digest != PretrainSettings(model="tiny").run_digest
