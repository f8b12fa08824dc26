import pytest

from hwmodels.measured import Measured, MeasuredGemm, MeasuredStep, load_measured


def test_a_step_has_its_own_tokens():
    (measured,) = load_measured()
    few = measured.steps[0].model_copy(update={"tokens": 8192})
    assert measured.shape(few).tokens == 8192 and measured.shape(few).name == few.model


def test_steps_of_a_model_that_is_not_there_are_an_error():
    step = MeasuredStep(model="medum", tokens=1, recipe="bf16", time_us=1.0)
    with pytest.raises(ValueError, match="steps of 'medum', which is not among models"):
        Measured(device="h200", source="a test", date="2026-11", steps=(step,))


def test_bytes_of_a_gemm_are_those_of_its_operands():
    half = MeasuredGemm(m=2, n=4, k=8, operands="fp8", time_us=1.0)
    full = MeasuredGemm(m=2, n=4, k=8, operands="bf16", time_us=1.0)
    assert (half.piece.bytes, full.piece.bytes) == (8 * 6 + 16, 2 * 8 * 6 + 16)


def test_what_was_fitted_to_is_small():
    """No layer, no quantiser's step and one FP8 GEMM: the rest can show the model wrong."""
    (measured,) = load_measured()
    assert all(layer.use == "check" for layer in measured.layers)
    fitted = [step for step in measured.steps if step.use == "fit"]
    assert [(step.model, step.recipe) for step in fitted] == [("medium", "bf16")]
    assert measured.passes is not None
    assert (measured.passes.model, measured.passes.tokens) == (fitted[0].model, fitted[0].tokens)
    rates = [gemm.operands for gemm in measured.gemms if gemm.use == "fit"]
    assert rates.count("fp8") == 1 and rates.count("bf16") == 5
