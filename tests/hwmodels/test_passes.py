import pytest

from hwmodels.passes import optimiser_passes, passes
from hwmodels.workload import ModelShape, load_model

TINY = ModelShape(
    name="t", layers=2, width=8, heads=1, hidden=16, vocabulary=32, sequence=4, tokens=64
)
STREAM = 64 * 8  # elements


def moved(name: str, model: ModelShape = TINY) -> float:
    (one,) = (piece for piece in passes(model) if piece.name == name)
    return one.bytes


def test_bytes_of_the_passes_over_the_stream():
    """FP32 is read and written where the residual stream is, BF16 where GEMMs are."""
    assert moved("norm forward") == 5 * (4 + 2) * STREAM
    assert moved("norm backward") == 5 * (4 + 4 + 2) * STREAM
    assert moved("residual forward") == 4 * (4 + 4 + 2) * STREAM
    assert moved("residual backward") == 4 * ((4 + 2) + 3 * 4) * STREAM
    assert moved("heads forward") == 2 * 8 * 2 * STREAM


def test_bytes_of_the_passes_over_the_wide_tensors():
    assert moved("swiglu forward") == 2 * 3 * 2 * 64 * 16
    assert moved("swiglu backward") == 2 * 5 * 2 * 64 * 16
    assert moved("loss forward") + moved("loss backward") == 3 * 2 * 64 * 32


def test_weights_are_copied_and_their_gradients_added():
    weights = sum(lin.copies * lin.out_features * lin.in_features for lin in TINY.linears)
    assert moved("weight copies") == 6 * weights
    assert moved("weight gradients") == 18 * weights


def test_only_mixtures_dispatch():
    mixture = load_model("moe-7.9b-a1.3b")
    assert moved("dispatch", mixture) > 0
    assert "dispatch" not in {piece.kind for piece in passes(TINY)}


def test_the_optimiser_clips_updates_and_clears():
    found = {piece.name: piece.bytes / TINY.parameters for piece in optimiser_passes(TINY, "adamw")}
    assert found == {"optimiser clip": 12, "optimiser adamw": 28, "optimiser clear": 4}
    with pytest.raises(ValueError, match="unknown optimiser 'muon'"):
        list(optimiser_passes(TINY, "muon"))
