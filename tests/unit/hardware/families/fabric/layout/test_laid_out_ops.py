"""Which ops count: those whose results are not known before, and of which something comes."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.ir.reading.importer import import_model
from mcm_hardware.families.fabric.layout.op_work import laid_out_ops

GRAPHS = {
    "whatever leads to an output": (
        "(float[2,8] x) => (float[2,8] y) { a = Relu(x) b = Transpose(a) c = Exp(b) "
        "d = Transpose(c) y = Add(d, x) }",
        "Relu Transpose Exp Transpose Add",
    ),
    "nothing reads the end of a chain": (
        "(float[2,8] x) => (float[2,8] y) { y = Relu(x) a = Exp(x) b = Neg(a) c = Abs(b) }",
        "Relu",
    ),
    "what follows from shapes and weights": (
        "(float[2,8] x) => (float[2,8] y) <float[8] w = {1,2,3,4,5,6,7,8}> "
        "{ s = Shape(x) f = Cast<to=1>(s) n = ReduceSum<keepdims=0>(f) k = Mul(n, w) v = Exp(w) "
        "a = Add(k, v) y = Add(x, a) }",
        "Add",
    ),
    "outputs that are known before": (
        "(float[2,8] x) => (float[2,8] y, float[2] z) <float[2] w = {1,2}> "
        "{ z = Exp(w) y = Relu(x) }",
        "Relu",
    ),
    "random numbers are not known before": (
        "(float[2,8] x) => (float[2,8] y) { r = RandomNormal<shape=[2,8]>() y = Add(x, r) }",
        "RandomNormal Add",
    ),
    "of an empty slice nothing is read": (
        "(float[2,8] x) => (float[2,8] y) <int64[1] o = {0}> { a = Exp(x) s = Slice(a, o, o, o) "
        "c = Neg(s) b = Relu(x) y = Concat<axis=0>(b, c) }",
        "Relu Concat",
    ),
    "of what only gives its shape nothing is read": (
        "(float[2,8] x) => (float[2,8] y) { a = Exp(x) r = RandomNormalLike(a) y = Add(x, r) }",
        "RandomNormalLike Add",
    ),
    "an output has no elements": (
        "(float[2,8] x) => (float[2,8] y, float[0,8] z) <int64[1] o = {0}> "
        "{ y = Relu(x) a = Exp(x) z = Slice(a, o, o, o) }",
        "Relu Slice",
    ),
    "bodies read what is around them": (
        "(float[2,8] x, bool c) => (float[2,8] y) { a = Exp(x) b = Neg(x) y = If (c) "
        "<then_branch = t () => (float[2,8] u) { u = Relu(a) }, "
        "else_branch = e () => (float[2,8] v) { v = Relu(x) }> }",
        "Exp If",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_ops_that_count(name: str) -> None:
    text, expected = GRAPHS[name]
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')
    model, _ = import_model(ir.from_proto(proto), "counted")
    assert [node.op_type for node in laid_out_ops(model.graph)] == expected.split()
