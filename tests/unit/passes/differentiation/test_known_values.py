"""What exporters compute from shapes is known, and what depends on inputs is not."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_passes.differentiation.rules.operands import known_value

TEXT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,3] x, float[N,3] open) => (float[2,3] y) <int64[1] two = {2}, int64 one = {1}> {
    shape = Shape(x)
    width = Gather(shape, one)
    twice = Mul(width, two)
    back = Neg(twice)
    size = Size(x)
    unknown = Shape(open)
    most = ReduceMax<keepdims=0>(x)
    y = Neg(x)
}"""


def value(name):
    model = ir.from_proto(onnx.parser.parse_model(TEXT))
    graph = model.graph
    found = {v.name: v for node in graph for v in node.outputs}
    return {**found, **graph.initializers, **{v.name: v for v in graph.inputs}}[name]


@pytest.mark.parametrize(("name", "due"), [("two", [2]), ("back", [-6]), ("size", 6)])
def test_known(name, due):
    np.testing.assert_array_equal(known_value(value(name)), due)


@pytest.mark.parametrize("name", ["x", "most", "unknown"])
def test_unknown(name):
    assert known_value(value(name)) is None
