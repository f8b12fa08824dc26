"""Schedule: the learning rate of each step, and settings that cannot be meant."""

from __future__ import annotations

import pytest

from suites.schedule import TrainingSettings


def rates(**settings: object) -> list[float]:
    training = TrainingSettings(learning_rate=1.0, **settings)  # type: ignore[arg-type]
    return [training.learning_rate_at(step) for step in range(training.steps)]


def test_warmup_is_linear_and_reaches_the_peak() -> None:
    assert rates(steps=100, warmup_steps=4)[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_cosine_falls_all_the_way_to_its_final_fraction() -> None:
    cosine = rates(steps=1000, warmup_steps=0, final_fraction=0.1)
    assert all(high > low for high, low in zip(cosine, cosine[1:], strict=False))
    assert cosine[500] == pytest.approx(0.55)
    assert cosine[-1] == pytest.approx(0.1, abs=1e-4)


def test_wsd_is_flat_and_then_straight() -> None:
    wsd = rates(steps=100, warmup_steps=10, decay="wsd", decay_fraction=0.2, final_fraction=0.0)
    assert set(wsd[9:81]) == {1.0}
    assert wsd[80:] == pytest.approx([1 - step / 20 for step in range(20)])


def test_wsd_whose_decay_would_begin_in_the_warmup_decays_after_it() -> None:
    wsd = rates(steps=10, warmup_steps=5, decay="wsd", decay_fraction=1.0, final_fraction=0.0)
    assert wsd[4:] == pytest.approx([1.0, 1.0, 0.8, 0.6, 0.4, 0.2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 10, "warmup_steps": 10}, "warmup_steps 10 is not below steps 10"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"decay": "linear"}, "cosine"),
        ({"step": 10}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingSettings(**settings)  # type: ignore[arg-type]
