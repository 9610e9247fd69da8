"""jax is the oracle, since onnx's reference has no groups of several filters."""

import jax
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.generators.appended_gradients import append_gradients
from tests.oracles.central_differences import onnxruntime_of

# Spatial sizes, kernel, strides, dilations, pads, groups, and filters of a group.
CASES = [
    ((7,), (3,), (2,), (1,), (1, 0), 2, 2),
    ((8, 7), (3, 2), (2, 1), (1, 2), (1, 0, 2, 1), 1, 3),
    ((9, 9), (3, 3), (3, 2), (2, 2), (0, 2, 1, 2), 2, 3),
    ((6, 5), (2, 2), (3, 3), (1, 1), (0, 0, 0, 0), 3, 1),
    ((4, 5, 4), (2, 3, 2), (2, 2, 1), (1, 1, 2), (1, 1, 0, 0, 1, 1), 2, 1),
]
CHANNELS = 2  # of a group


def model_of(op_type, arrays, attributes, shape):
    """`y = op(x, w, b)` and the loss `Σ f y`."""
    values = {**arrays, "f": np.zeros(shape, np.float32)}
    inputs = [onnx.helper.make_tensor_value_info(n, 1, a.shape) for n, a in values.items()]
    nodes = [
        onnx.helper.make_node(op_type, list(arrays), ["y"], name="n0", **attributes),
        onnx.helper.make_node("Mul", ["y", "f"], ["p"], name="n1"),
        onnx.helper.make_node("ReduceSum", ["p"], ["loss"], name="n2", keepdims=0),
    ]
    outputs = [onnx.helper.make_tensor_value_info("loss", 1, [])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs)
    imports = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


def gradients(op_type, arrays, factor, attributes):
    """By name, as onnxruntime computes them."""
    proto = model_of(op_type, arrays, attributes, factor.shape)
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    append_gradients(model, "loss", list(arrays))
    made = onnxruntime_of(ir.to_proto(model))({**arrays, "f": factor})
    return {name: made[f"grad/{name}"] for name in arrays}


def conv_in_jax(strides, dilations, pads, group):
    rank = len(strides)
    letters = "DHW"[:rank]
    pairs = [(pads[i], pads[i + rank]) for i in range(rank)]

    def run(x, w, b):
        y = jax.lax.conv_general_dilated(
            x, w, strides, pairs, rhs_dilation=dilations, feature_group_count=group,
            dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
        )  # fmt: skip
        return y + b.reshape(1, -1, *([1] * rank))

    return run


def random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def attributes_of(strides, dilations, pads, group):
    return {"strides": strides, "dilations": dilations, "pads": pads, "group": group}


def close(made, due):
    for name, array in zip(made, due, strict=True):
        np.testing.assert_allclose(made[name], array, rtol=2e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_convolutions(case):
    size, kernel, *how, filters = case
    group = how[-1]
    arrays = {
        "x": random(2, group * CHANNELS, *size),
        "w": random(group * filters, CHANNELS, *kernel),
        "b": random(group * filters),
    }
    y, back = jax.vjp(conv_in_jax(*how), *arrays.values())
    factor = random(*y.shape)
    close(gradients("Conv", arrays, factor, attributes_of(*how)), back(factor))


@pytest.mark.parametrize("case", CASES)
def test_transposed_convolutions(case):
    size, kernel, *how, filters = case
    group = how[-1]
    w = random(group * filters, CHANNELS, *kernel)
    b = np.zeros(group * filters, np.float32)
    wide = np.zeros((2, group * CHANNELS, *size), np.float32)
    y, _ = jax.vjp(conv_in_jax(*how), wide, w, b)
    arrays = {"x": random(*y.shape), "w": w, "b": random(group * CHANNELS)}
    strides, dilations, pads, _ = how
    rank = len(size)
    # Room behind the last window, so that the result is as wide as what was convolved.
    spare = [
        size[i] + pads[i] + pads[i + rank]
        - ((y.shape[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1)
        for i in range(rank)
    ]  # fmt: skip

    def transposed(x, w, bias):
        _, back = jax.vjp(lambda operand: conv_in_jax(*how)(operand, w, b), wide)
        return back(x)[0] + bias.reshape(1, -1, *([1] * rank))

    made, back = jax.vjp(transposed, *arrays.values())
    factor = random(*made.shape)
    more = {**attributes_of(*how), "output_padding": spare}
    close(gradients("ConvTranspose", arrays, factor, more), back(factor))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padding_by_mode(check, mode):
    text = f'y = Conv<auto_pad="{mode}", strides=[2, 2]>(x, w)'
    size = 2 if mode == "VALID" else 3
    check(f"(float[1,1,5,5] x, float[1,1,2,2] w) => (float[1,1,{size},{size}] y) {{ {text} }}")


@pytest.mark.parametrize("attributes", ['auto_pad="SAME_UPPER"', "output_shape=[9]", "pads=[1, 0]"])
def test_padding_of_a_transposed_convolution(check, attributes):
    size = {"a": 8, "o": 9, "p": 8}[attributes[0]]
    text = f"y = ConvTranspose<strides=[2], {attributes}>(x, w)"
    check(f"(float[1,2,4] x, float[2,1,3] w) => (float[1,1,{size}] y) {{ {text} }}")


def test_only_what_is_wanted_is_emitted(check):
    check("(float[1,1,4] x, float[1,1,2] w) => (float[1,1,3] y) { y = Conv(x, w) }", sources=["w"])
