"""claims: verdicts follow from the rows, whatever was claimed."""

from __future__ import annotations

import pytest

from suites.claims import NOT_RUN, Claim, judge
from tests.suites.study_rows import runs

BETTER = Claim(claim="c", recipe="ufp4", than="e2m1-ref", expected="better")


@pytest.mark.parametrize(
    ("ufp4", "verdict"),
    [
        ([3.96, 3.95, 3.96], "replicated"),
        ([4.04, 4.05, 4.04], "contradicted"),
        ([3.90, 4.10, 4.01], "not resolved"),
    ],
)
def test_verdict_is_the_comparisons_beside_what_is_claimed(ufp4: list[float], verdict: str) -> None:
    found = judge(BETTER, runs(e2m1_ref=[4.0, 4.0, 4.0], ufp4=ufp4))
    assert found.verdict == verdict
    assert found.averaged is None  # these rows do not have it


def test_question_is_answered_and_what_was_not_run_says_so() -> None:
    question = BETTER.model_copy(update={"expected": None})
    assert judge(question, runs(e2m1_ref=[4.0] * 3, ufp4=[3.9, 3.9, 3.91])).verdict == "better"
    assert judge(BETTER, runs(ufp4=[4.0] * 3)).verdict == NOT_RUN
