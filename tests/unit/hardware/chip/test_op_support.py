from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.target import Unsupported
from mcm_hardware.chip.op_support import RUNS_NOTHING, OpSupport, op_name, reads_few_rows
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE
from mcm_hardware.op_costs.node_shapes import NodeShapes

HALF = frozenset({ir.DataType.FLOAT16})


def reasons(graph: ir.Graph, support: OpSupport) -> list[Unsupported | None]:
    return [support.unsupported(node) for node in graph]


def test_ops_by_name(model):
    graph = model("g (float[4] x) => (float[4] y) { a = Relu(x) y = Erf(a) }").graph
    assert reasons(graph, OpSupport(ops=frozenset({"Erf"}))) == [None, Unsupported("op", "Erf")]
    only = OpSupport(ops=frozenset({"Erf"}), only_ops=True)
    assert reasons(graph, only) == [Unsupported("op", "Relu"), None]


def test_ops_of_other_domains():
    gelu = ir.Node("com.microsoft", "Gelu", [])
    support = OpSupport(ops=frozenset({"com.microsoft::Gelu"}))
    assert support.unsupported(gelu) == Unsupported("op", "com.microsoft::Gelu")
    assert support.unsupported(ir.Node("", "Gelu", [])) is None
    assert op_name(ir.Node("ai.onnx", "Gelu", [])) == "Gelu"


def test_types_of_what_is_read_and_made(model):
    graph = model(
        "g (float16[4] x) => (float16[4] y, float[4] b)"
        " { a = Cast<to = 1>(x) b = Relu(a) y = Cast<to = 10>(b) }"
    ).graph
    half = Unsupported("type", "FLOAT16")
    assert reasons(graph, OpSupport(types=HALF)) == [half, None, half]
    only = OpSupport(types=frozenset({ir.DataType.FLOAT16}), only_types=True)
    assert [why is not None for why in reasons(graph, only)] == [True, True, True]


def test_positions_that_are_known_are_no_tensors_of_the_chip(model):
    graph = model(
        "g (float[8] x, int64[1] from) => (float[2] y, float[?] z)"
        " <int64[1] a = {1}, int64[1] b = {3}>"
        " { y = Slice(x, a, b) z = Slice(x, from, b) }"
    ).graph
    support = OpSupport(types=frozenset({ir.DataType.INT64}))
    assert reasons(graph, support) == [None, Unsupported("type", "INT64")]


def test_large_tables_of_which_few_rows_are_read(model):
    graph = model(
        "g (int64[4] few, int64[2000] many) => (float[4,64] y, float[2000,64] z, float[8192,4] c,"
        " float[4,64] s)"
        " <int64[2] large = {8192, 64}, int64[2] small = {64, 64}>"
        " { t = ConstantOfShape (large) u = ConstantOfShape (small) y = Gather (t, few)"
        " z = Gather (t, many) c = Gather <axis = 1> (t, few) s = Gather (u, few) }"
    ).graph
    table = Unsupported("table", "Gather")
    found = reasons(graph, OpSupport(large_tables="host"))
    assert found == [None, None, table, None, None, None]
    assert set(reasons(graph, OpSupport())) == {None}


def test_large_tables_in_blocks():
    shapes = ([8192, 64], [1, 4], [8192, 4])
    table, indices, scales = (
        ir.Value(name=f"v{i}", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.INT64))
        for i, shape in enumerate(shapes)
    )
    for value in (table, scales):
        value.type = ir.TensorType(ir.DataType.UINT8)
        value.const_value = ir.tensor(np.zeros(value.shape.numpy(), np.uint8))
    node = ir.Node("com.microsoft", "GatherBlockQuantized", [table, indices, scales])
    assert not reads_few_rows(node)
    table.const_value = ir.tensor(np.zeros((65536, 64), np.uint8))
    table.shape = ir.Shape((65536, 64))
    assert reads_few_rows(node)
    indices.shape = ir.Shape(["batch", 1])
    assert not reads_few_rows(node)


def test_weights_are_tensors_of_the_chip(model):
    graph = model(
        "g (float[4] x) => (float[4] y) <int64[4] w = {1, 2, 3, 4}>"
        " { a = Cast<to = 1>(w) y = Add(x, a) }"
    ).graph
    support = OpSupport(types=frozenset({ir.DataType.INT64}))
    assert reasons(graph, support) == [Unsupported("type", "INT64"), None]


def test_what_stands_in_a_branch_counts(model):
    graph = model(
        "g (float[4] x, bool c) => (float[4] y) {"
        " y = If (c) <then_branch = t () => (float[4] a) { a = Softmax(x) },"
        " else_branch = e () => (float[4] b) { b = Relu(x) }> }"
    ).graph
    assert reasons(graph, OpSupport(ops=frozenset({"Softmax"}))) == [
        Unsupported("op", "Softmax", inside=True)
    ]
    assert reasons(graph, OpSupport(ops=frozenset({"Erf"}))) == [None]


def test_what_runs_nothing_cannot_be_lacking(model):
    graph = model(
        "g (float16[2,3] x) => (float16[6] y) <int64[1] s = {6}> { y = Reshape(x, s) }"
    ).graph
    assert reasons(graph, OpSupport(types=HALF)) == [None]


def test_views_and_constants_are_what_runs_nothing():
    free: set[str] = set()
    for (domain, op_type), formula in FORMULA_TABLE.items():
        node = ir.Node(domain, op_type, [ir.Value(name="x")])
        try:
            work = formula(NodeShapes(node))
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError):
            continue  # not without a shape, as views and constants do
        if work.execution != "kernel":
            free.add(op_name(node))
    assert free | {"Identity"} == RUNS_NOTHING
