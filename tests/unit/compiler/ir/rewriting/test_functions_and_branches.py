"""Functions are inlined, and branches that are certain."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.function_calls import inline_functions
from mcm_compiler.ir.reading.importer import import_model

X = np.linspace(-2, 2, 4, dtype=np.float32)


def parsed(text):
    return onnx.parser.parse_model(text)


FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
m (float[4] x) => (float[4] y) { a = local.twice (x)  b = local.twice <k = 3.0> (a)  y = Relu (b) }
<domain: "local", opset_import: ["" : 17, "local" : 1]>
twice <k: float = 2.0> (v) => (r) { c = Constant <value_float: float = @k> ()  t = Mul (v, c)
  r = local.shift (t) }
<domain: "local", opset_import: ["" : %s]>
shift (v) => (r) { r = Tanh (v) }
"""


def test_functions_are_inlined_to_the_bit():
    proto = parsed(FUNCTIONS % 17)
    model = ir.from_proto(proto)
    assert inline_functions(model) == 2
    assert not model.functions
    assert [n.op_type for n in model.graph] == ["Constant", "Mul", "Tanh"] * 2 + ["Relu"]
    assert same_bits(run_model(proto, {"x": X})["y"], run_model(ir.to_proto(model), {"x": X})["y"])


def test_a_function_of_other_opsets_stays():
    model = ir.from_proto(parsed(FUNCTIONS % 13))
    assert inline_functions(model) == 1
    assert [key[1] for key in model.functions] == ["shift"]
    assert [n.op_type for n in model.graph].count("shift") == 2


PRIVATE = """
<ir_version: 8, opset_import: ["" : 17, "own.block" : 1]>
m (float[4] x) => (float[4] y) { a = own.block.twice (x)  y = Relu (a) }
<domain: "own.block", opset_import: ["" : 17, "own.block" : 23]>
twice (v) => (r) { t = Add (v, v)  r = %s (t) }
<domain: "own.block", opset_import: ["" : 17, "own.block" : 5]>
shift (v) => (r) { r = Tanh (v) }
"""


def test_the_version_of_a_domain_of_the_models_own_functions_means_nothing():
    proto = parsed(PRIVATE % "own.block.shift")
    model = ir.from_proto(proto)
    assert inline_functions(model) == 2
    assert [n.op_type for n in model.graph] == ["Add", "Tanh", "Relu"]
    assert same_bits(run_model(proto, {"x": X})["y"], run_model(ir.to_proto(model), {"x": X})["y"])


def test_the_version_of_a_domain_with_ops_of_others_counts():
    model = ir.from_proto(parsed(PRIVATE % "own.block.secret"))
    assert inline_functions(model) == 0
    assert [n.op_type for n in model.graph] == ["twice", "Relu"]


@pytest.mark.parametrize("results", ["(v)", "(r, r)"])
def test_a_function_that_returns_its_input_or_one_value_twice_stays(results):
    outputs = "a" if results == "(v)" else "a, b"
    model = ir.from_proto(
        parsed(f"""
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        m (float[4] x) => (float[4] y) {{ {outputs} = local.f (x) y = Relu (a) }}
        <domain: "local", opset_import: ["" : 17]>
        f (v) => {results} {{ r = Abs (v) }}
    """)
    )
    assert inline_functions(model) == 0
    assert len(model.functions) == 1


def test_the_importer_inlines_and_names():
    model, _ = import_model(ir.from_proto(parsed(FUNCTIONS % 17)), "m")
    assert check_invariants(model) == []
    assert not model.functions
    assert all(v.type is not None for node in model.graph for v in node.outputs)


BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
m (float[4] x) => (float[4] y, float[4] z) <bool c = {%d}, float k = {2}> {
    a = Mul (x, k)
    y, s = If (c) <
        then_branch = yes () => (float[4] r, float[4] a2) { a2 = Abs (a) r = Neg (a2) },
        else_branch = no () => (float[4] r, float[4] q) <float k = {5}> {
            r = Mul (x, k) q = Identity (r) }
    >
    z = Sub (s, a)
}
"""


@pytest.mark.parametrize("taken", [0, 1])
def test_the_branch_that_runs_takes_the_place_of_if(taken):
    proto = parsed(BRANCHES % taken)
    model, _ = import_model(ir.from_proto(proto), "m")
    assert check_invariants(model) == []
    assert "If" not in [n.op_type for n in model.graph]
    assert [v.name for v in model.graph.outputs] == ["y", "z"]
    assert all(n.metadata_props[ORIGIN_PROPERTY] == n.name for n in model.graph)
    expected = run_model(proto, {"x": X})
    actual = run_model(ir.to_proto(model), {"x": X})
    assert all(same_bits(expected[name], actual[name]) for name in ("y", "z"))


def test_an_if_that_may_go_either_way_stays():
    text = BRANCHES.replace("(float[4] x) =>", "(float[4] x, bool c) =>").replace(
        "bool c = {%d}, ", ""
    )
    model, _ = import_model(ir.from_proto(parsed(text)), "m")
    assert "If" in [n.op_type for n in model.graph]
