import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.generators.appended_gradients import append_gradients
from tests.oracles.central_differences import onnxruntime_of

BY_CHANNEL = "(float[3,4,2] x, float[{n}] s, float[{n}] b) => (float[3,4,2] y)"


@pytest.mark.parametrize(("axis", "shape"), [(-1, "3"), (1, "2,3")])
@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
def test_over_the_last_dimensions(check, kind, axis, shape):
    bias = ", b" if kind == "LayerNormalization" else ""
    text = f"(float[2,2,3] x, float[{shape}] s, float[{shape}] b) => (float[2,2,3] y)"
    check(f"{text} {{ z = {kind}<axis={axis}>(x, s{bias}) y = Add(z, b) }}", opset=23)


STATISTICS = """<ir_version: 8, opset_import: ["" : 18]>
g (float[3,4] x, float[4] s) => (float loss) <int64[1] a = {{1}}> {{
    {made}
    n = Mul(y, d)
    p = Add(n, m)
    q = Mul(p, p)
    loss = ReduceSum<keepdims=0>(q)
}}"""
SPELT_OUT = """m = ReduceMean(x, a)
    c = Sub(x, m)
    c2 = Mul(c, c)
    v = ReduceMean(c2, a)
    e = Constant<value_float=0.1>()
    w = Add(v, e)
    r = Sqrt(w)
    d = Reciprocal(r)
    u = Mul(c, d)
    y = Mul(u, s)"""


def test_statistics_that_the_loss_reads():
    feeds = {"x": np.arange(12.0, dtype="f").reshape(3, 4) ** 1.5, "s": np.ones(4, "f")}
    found = []
    for made in ("y, m, d = LayerNormalization<epsilon=0.1>(x, s)", SPELT_OUT):
        proto = onnx.parser.parse_model(STATISTICS.format(made=made))
        for index, node in enumerate(proto.graph.node):
            node.name = f"n{index}"
        model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
        append_gradients(model, "loss", ["x", "s"])
        found.append(onnxruntime_of(ir.to_proto(model))(feeds))
    for name in ("loss", "grad/x", "grad/s"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-3, atol=1e-4)


def test_by_channel(check):
    check(BY_CHANNEL.format(n=4) + " { y = InstanceNormalization(x, s, b) }")


def test_a_batch_in_training(check):
    text = "(float[3,2,2] x, float[2] s, float[2] b) => (float[3,2,2] y)"
    text += " <float[2] m = {0.1, 0.2}, float[2] v = {1.0, 2.0}>"
    check(f"{text} {{ y, nm, nv = BatchNormalization<training_mode=1>(x, s, b, m, v) }}")


def test_a_batch_with_given_statistics(check):
    text = "(float[3,2,2] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float[3,2,2] y)"
    check(f"{text} {{ y = BatchNormalization(x, s, b, m, v) }}", low=0.3, high=2.0)


def test_near_channels(check):
    # onnx's reference takes the batch for the channels, so that there are as many of both.
    text = "y = LRN<size=3, alpha=0.5, bias=2.0>(x)"
    check(f"(float[4,4,2,1] x) => (float[4,4,2,1] y) {{ {text} }}")


@pytest.mark.parametrize("p", [1, 2])
def test_unit_norms(check, p):
    text = f"y = LpNormalization<axis=0, p={p}>(x)"
    check(f"(float[3,2] x) => (float[3,2] y) {{ {text} }}", low=0.2)
