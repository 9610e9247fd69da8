import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.differentiation.optimisers import add_loss
from tests.oracles.central_differences import onnxruntime_of

HEADER = '<ir_version: 8, opset_import: ["" : 18]> graph '


def model_of(text):
    return ir.from_onnx_text(HEADER + text)


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_cross_entropy_over_the_last_dimension(shape):
    dims = ",".join(map(str, shape))
    model = model_of(f"(float[{dims}] x) => (float[{dims}] y) {{ y = Identity(x) }}")
    name = add_loss(model.graph, "cross_entropy:y", 18)
    assert [value.name for value in model.graph.inputs] == ["x", "y.labels"]
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=shape), rng.integers(0, 3, shape[:-1])
    chances = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(chances, labels[..., None], -1)).mean()
    found = onnxruntime_of(proto)({"x": x.astype("f"), "y.labels": labels})
    assert found[name] == pytest.approx(expected, rel=1e-5)


def test_squares():
    model = model_of("(float[2,2] x) => (float[2,2] loss) { loss = Identity(x) }")
    name = add_loss(model.graph, "squares:loss", 18)
    assert name == "loss_2"
    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    found = onnxruntime_of(ir.to_proto(model))({"x": x, "loss.target": np.zeros_like(x)})
    assert found[name] == pytest.approx(7.5)


@pytest.mark.parametrize("text", ["", "y", "squares", "other:y", "squares:y"])
def test_what_names_no_loss_to_add_stays(text):
    model = model_of('(float x) => (float y, float "squares:y") { y, "squares:y" = Split(x) }')
    assert add_loss(model.graph, text, 18) == text
    assert len(model.graph.outputs) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("squares:z", "no output 'z'"),
        ("squares:n", "'n' cannot have squares: it is"),
        ("cross_entropy:y", "without a class axis"),
        ("squares:s", "sizes must be known"),
    ],
)
def test_outputs_that_cannot_have_the_loss_are_told(text, words):
    model = model_of(
        "(float[3] x, float[N] u) => (float[3] y, int64 n, float[N] s) "
        "{ y = Neg(x) n = Size(x) s = Neg(u) }"
    )
    with pytest.raises(CompileError, match=words) as caught:
        add_loss(model.graph, text, 18)
    assert caught.value.diagnostics[0].code == "MCM-D032"
