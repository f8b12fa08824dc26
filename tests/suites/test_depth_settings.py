import pytest
from pydantic import ValidationError

from suites.depth_settings import DepthSettings


@pytest.mark.parametrize(
    "wrong", [{"layers": 0}, {"width": 100}, {"networks": ["tower"]}, {"depht": 3}]
)
def test_what_cannot_be_measured_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DepthSettings.model_validate(wrong)
