import jax
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.generators.appended_gradients import append_gradients
from tests.oracles.central_differences import onnxruntime_of

MAX_POOL = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,2,7,6] x, float[2,2,{h},{w}] f) => (float loss) {{
    y = MaxPool<kernel_shape=[3, 2], {how}>(x)
    p = Mul(y, f)
    loss = ReduceSum<keepdims=0>(p)
}}"""


@pytest.mark.parametrize(
    ("strides", "pads"), [((1, 1), (0, 0, 0, 0)), ((2, 1), (1, 0, 1, 1)), ((2, 3), (1, 1, 2, 0))]
)
def test_largest_of_windows(strides, pads):
    # onnx's reference gives wrong places, so that jax is the oracle.
    def pooled(x):
        pairs = ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
        steps = (1, 1, *strides)
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, 3, 2), steps, pairs)

    x = np.random.default_rng(0).permutation(168).astype(np.float32).reshape(2, 2, 7, 6)
    y = pooled(x)
    factor = np.random.default_rng(1).normal(size=y.shape).astype(np.float32)
    how = f"strides={list(strides)}, pads={list(pads)}"
    proto = onnx.parser.parse_model(MAX_POOL.format(h=y.shape[2], w=y.shape[3], how=how))
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    append_gradients(model, "loss", ["x"])
    made = onnxruntime_of(ir.to_proto(model))({"x": x, "f": factor})["grad/x"]
    due = jax.grad(lambda operand: (pooled(operand) * factor).sum())(x)
    np.testing.assert_allclose(made, due, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ("kernel_shape=[2, 2]", (4, 5)),
        ("kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 1]", (3, 2)),
        ("kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1", (3, 3)),
    ],
)
@pytest.mark.parametrize("kind", ["AveragePool<", "AveragePool<count_include_pad=1, "])
def test_windows(check, kind, attributes, size):
    text = f"(float[1,2,5,6] x) => (float[1,2,{size[0]},{size[1]}] y)"
    check(f"{text} {{ y = {kind}{attributes}>(x) }}")


def test_norms_of_third_order(check):
    text = "(float[1,2,5,6] x) => (float[1,2,3,2] y)"
    text += " { y = LpPool<p=3, kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 1]>(x) }"
    check(text)


@pytest.mark.parametrize("kind", ["AveragePool", "LpPool"])
def test_dilated_windows_in_one_dimension(check, kind):
    text = f"y = {kind}<kernel_shape=[2], dilations=[2]>(x)"
    check(f"(float[2,1,6] x) => (float[2,1,4] y) {{ {text} }}", opset=19)


def test_norms_of_first_order(check):
    check("(float[1,1,6] x) => (float[1,1,5] y) { y = LpPool<kernel_shape=[2], p=1>(x) }")


def test_a_window_of_zeros_has_no_slope(check):
    text = "(float[1,1,3] x, float[1,1,3] z) => (float[1,1,3] y) "
    text += "{ a = Mul(x, z) b = Add(a, x) y = Mul(b, b) }"
    check(text)


def test_places_that_the_op_gives_itself(check):
    text = "(float[1,1,6] x) => (float[1,1,3] y) {"
    check(f"{text} y, places = MaxPool<kernel_shape=[2], strides=[2]>(x) }}")


@pytest.mark.parametrize("kind", ["GlobalMaxPool", "GlobalAveragePool"])
def test_global_pools(check, kind):
    check(f"(float[2,2,3,2] x) => (float[2,2,1,1] y) {{ y = {kind}(x) }}")


def test_unpooling(check):
    text = "(float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,4,4] y)"
    text += " { y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i) }"
    check(text, i=[[[[1, 3], [4, 14]]]])
