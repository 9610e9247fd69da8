"""Where onnx's inference and onnxruntime differ, a shape is doubted, and hardly anywhere else."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model
from mcm_compiler.ir.shapes.fixed_shapes import may_be_misestimated

VALUE = helper.make_tensor_value_info


def _inferred(
    op_type: str, size: int, opset: int = 19, weights=(), inputs=("x",), **attributes
) -> onnx.ModelProto:
    node = helper.make_node(op_type, [*inputs], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [VALUE("x", TensorProto.FLOAT, [1, 1, size])],
        [VALUE("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(array, np.float32), name) for name, array in weights],
    )
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def _doubted(model: onnx.ModelProto) -> bool:
    (node,) = ir.from_proto(model).graph
    return may_be_misestimated(node)


def _differs(model: onnx.ModelProto) -> bool | None:
    """Whether onnxruntime computes another shape; None where it does not run the model."""
    size = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    dims = model.graph.output[0].type.tensor_type.shape.dim
    try:
        made = run_model(model, {"x": np.zeros((1, 1, size), np.float32)})["y"]
    except CompileError:
        return None
    return [dim.dim_value for dim in dims] != list(made.shape)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("padding", ["NOTSET", "VALID", "SAME_UPPER"])
def test_pools_are_doubted_where_windows_begin_in_the_padding(op_type: str, padding: str) -> None:
    differing = 0
    for kernel, stride, size, dilation in product((1, 2, 3), (1, 2, 3), (4, 5, 6), (1, 2)):
        given = {"auto_pad": padding} if padding != "NOTSET" else {"pads": [kernel // 2] * 2}
        model = _inferred(
            op_type, size, kernel_shape=[kernel], strides=[stride], ceil_mode=1,
            **given, **({"dilations": [dilation]} if dilation > 1 else {}),
        )  # fmt: skip
        differs = _differs(model)
        if differs is None:
            continue
        differing += differs
        if padding.startswith("SAME"):
            assert _doubted(model) or not differs
        else:
            assert _doubted(model) == differs
    assert differing


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_transposed_convolutions(padding: int) -> None:
    for kernel, stride, size in product((1, 2, 3), (2, 3), (3, 4)):
        if padding >= stride:
            continue
        model = _inferred(
            "ConvTranspose", size, weights=[("w", np.zeros((1, 1, kernel)))], inputs=("x", "w"),
            strides=[stride], auto_pad="SAME_LOWER", output_padding=[padding],
        )  # fmt: skip
        assert _doubted(model) or not _differs(model)
        assert padding or not _doubted(model)


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs"),
    [
        ("Resize", 19, ("x", "", "s")),
        ("Resize", 10, ("x", "s")),
        ("Upsample", 9, ("x", "s")),
        ("Upsample", 7, ("x",)),
    ],
)
def test_sizes_that_are_scaled(op_type: str, opset: int, inputs: tuple[str, ...]) -> None:
    differing = 0
    for size, scale in product((20, 28, 30), (1.0, 2.0, 1.25, 1.3, 60 / 28, 1.1, 7 / 6)):
        scales = [1.0, 1.0, scale]
        told = {"scales": scales} if len(inputs) == 1 else {}
        weights = [("s", scales)] if len(inputs) > 1 else []
        model = _inferred(op_type, size, opset, weights, inputs, mode="nearest", **told)
        differs = _differs(model)
        differing += bool(differs)
        assert _doubted(model) or not differs
        if scale in (1.0, 2.0, 1.25):
            assert not _doubted(model)
    assert differing


def test_scales_that_nobody_knows_are_doubted_and_sizes_are_not() -> None:
    assert _doubted(_inferred("Resize", 20, inputs=("x", "", "unknown"), mode="nearest"))
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")
    assert not may_be_misestimated(ir.from_proto(node))
    node.attribute.append(helper.make_attribute("keep_aspect_ratio_policy", "not_larger"))
    assert may_be_misestimated(ir.from_proto(node))


def test_other_ops_and_other_domains_are_not_looked_at() -> None:
    for op_type, domain in (("Relu", ""), ("MaxPool", "own"), ("Resize", "own")):
        node = helper.make_node(op_type, ["x"], ["y"], domain=domain, ceil_mode=1)
        assert not may_be_misestimated(ir.from_proto(node))
