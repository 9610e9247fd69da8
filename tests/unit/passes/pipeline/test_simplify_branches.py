"""What `simplify` does with certain branches, and with what they reveal."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext
from mcm_passes.pipeline.preparing import Simplify

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def simplified(text):
    proto = onnx.parser.parse_model(HEAD + text)
    model, _ = import_model(ir.from_proto(proto), "m")
    # The pass asks nothing of its target.
    context = PassContext(None, None, None, report=lambda _: None)  # pyright: ignore
    Simplify().run(model, context)
    assert check_invariants(model) == []
    return proto, model


def test_a_condition_that_folds_decides_the_branch():
    proto, model = simplified("""
        m (float[2,3] x) => (float[2,3] y) <int64 two = {2}> {
            s = Shape (x)  r = Size (s)  c = Equal (r, two)
            y = If (c) <
                then_branch = a () => (float[2,3] p) { q = Neg (x) p = Relu (q) },
                else_branch = b () => (float[2,3] p) { p = Abs (x) }
            >
        }
    """)
    assert [node.op_type for node in model.graph] == ["Neg", "Relu"]
    assert all(value.type is not None for node in model.graph for value in node.outputs)
    feeds = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    assert same_bits(run_model(proto, feeds)["y"], run_model(ir.to_proto(model), feeds)["y"])


def test_a_vector_that_becomes_a_constant_of_range_becomes_a_scalar():
    proto, model = simplified("""
        m (int64 first) => (float[M] y) <int64[1] four = {4}, int64 one = {1}> {
            limit = Identity (four)  r = Range (first, limit, one)  y = Cast <to = 1> (r)
        }
    """)
    assert [node.op_type for node in model.graph] == ["Range", "Cast"]
    feeds = {"first": np.array(1)}
    assert same_bits(run_model(proto, feeds)["y"], run_model(ir.to_proto(model), feeds)["y"])
