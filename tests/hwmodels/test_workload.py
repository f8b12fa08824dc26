import pytest

from hwmodels.workload import ModelShape, list_models, load_model


@pytest.mark.parametrize(
    ("name", "billions"), [("dense-1.5b", 1.5), ("moe-7.9b-a1.3b", 7.9), ("moe-124b", 124)]
)
def test_the_paper_like_models_have_the_paper_sizes(name, billions):
    assert load_model(name).parameters / 1e9 == pytest.approx(billions, rel=0.05)
    assert name in list_models()


def test_gemm_shapes_of_a_linear_layer():
    model = ModelShape(
        name="m", layers=1, width=8, heads=1, hidden=16, vocabulary=32, sequence=4, tokens=64
    )
    qkv = next(layer for layer in model.linears if layer.name == "attention.qkv")
    shapes = {gemm.name: (gemm.m, gemm.n, gemm.k) for gemm in qkv.gemms}
    assert shapes == {"fprop": (64, 24, 8), "dgrad": (64, 8, 24), "wgrad": (24, 8, 64)}
    assert sum(gemm.macs for gemm in qkv.gemms) == 3 * 64 * 24 * 8


def test_experts_share_the_tokens_evenly():
    model = load_model("moe-7.9b-a1.3b")
    expert = next(layer for layer in model.linears if layer.name == "experts.down")
    assert expert.rows * model.experts == model.tokens * model.top_k


def test_an_unknown_model_is_an_error():
    with pytest.raises(ValueError, match="unknown model 'dense-1.5'; did you mean 'dense-1.5b'"):
        load_model("dense-1.5")
