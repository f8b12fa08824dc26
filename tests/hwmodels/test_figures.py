import pytest
from pydantic import ValidationError

from hwmodels.figures import Figure

GOOD = {
    "value": 8.0,
    "unit": "TB/s",
    "source": "a data sheet",
    "date": "2026-11",
    "quality": "primary",
}


@pytest.mark.parametrize("lacking", ["unit", "source", "date", "quality"])
def test_a_number_without_provenance_does_not_load(lacking):
    with pytest.raises(ValidationError, match=lacking):
        Figure.model_validate({key: value for key, value in GOOD.items() if key != lacking})


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_constant_is_a_positive_number(value):
    with pytest.raises(ValidationError):
        Figure.model_validate({**GOOD, "value": value})


def test_provenance_names_what_disagrees():
    figure = Figure.model_validate({**GOOD, "also": ({**GOOD, "value": 9.0, "source": "another"},)})
    assert "but 9 TB/s" in figure.provenance and "another" in figure.provenance
