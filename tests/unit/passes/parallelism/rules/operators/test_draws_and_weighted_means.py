"""Rules that depend on what an op draws, and on how a loss weighs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_passes.parallelism.rules.graph_rules import rules_of


def _rule(node, inputs, outputs, constants=()):
    """The rule of an op in a graph; `inputs` and `outputs` are names with type and shape."""

    def infos(values):
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values]

    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    graph = helper.make_graph([node], "g", infos(inputs), infos(outputs), weights)
    opsets = [helper.make_opsetid("", 17)]
    model = ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    ((_, rule),) = rules_of(model)
    return str(rule)


@pytest.mark.parametrize(
    ("training", "seed", "is_divided"),
    [
        (None, None, True),
        (None, 7, True),
        (True, None, True),
        (False, 7, True),
        (True, 7, False),
        ("asked", 7, False),
        ("asked", None, True),
    ],
)
def test_what_is_drawn_from_a_seed_is_whole(training, seed, is_divided):
    attributes = {} if seed is None else {"seed": seed}
    operands = ["x", "ratio"] if training is None else ["x", "ratio", "training"]
    node = helper.make_node("Dropout", operands, ["y", "mask"], "drop", **attributes)
    inputs = [("x", TensorProto.FLOAT, [4, 6])]
    constants = [("ratio", np.float32(0.5))]
    if training == "asked":
        inputs.append(("training", TensorProto.BOOL, []))
    elif training is not None:
        constants.append(("training", np.bool_(training)))
    outputs = [("y", TensorProto.FLOAT, [4, 6]), ("mask", TensorProto.BOOL, [4, 6])]
    rule = _rule(node, inputs, outputs, constants)
    assert rule.startswith("a b, ") == is_divided
    assert rule.startswith("!a !b, ") != is_divided


@pytest.mark.parametrize("operator", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("weighing", ["weights", "ignore_index"])
@pytest.mark.parametrize(
    ("reduction", "expected"), [("mean", "!a !b, !a"), ("sum", "a+ !b, a+"), ("none", "a !b, a")]
)
def test_only_a_weighted_mean_keeps_the_batch_whole(operator, weighing, reduction, expected):
    operands, attributes = ["x", "labels"], {"reduction": reduction}
    inputs = [("x", TensorProto.FLOAT, [6, 4]), ("labels", TensorProto.INT64, [6])]
    if weighing == "weights":
        operands.append("w")
        inputs.append(("w", TensorProto.FLOAT, [4]))
    else:
        attributes["ignore_index"] = 2
    node = helper.make_node(operator, operands, ["loss"], "loss", **attributes)
    shape = [6] if reduction == "none" else []
    rule = _rule(node, inputs, [("loss", TensorProto.FLOAT, shape)])
    assert rule.split(" -> ")[0].removesuffix(", _") == expected
