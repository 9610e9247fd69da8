from __future__ import annotations

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import Severity
from mcm_compiler.graph.structure import MAX_SUBGRAPH_DEPTH, check_structure
from mcm_compiler.ir.reading.importer import import_model


def nested(depth):
    text = "g () => (float[1] y) { y = Constant <value_floats = [1.0]> () }"
    graph = onnx.parser.parse_graph(text)
    for _ in range(depth):
        outer = onnx.parser.parse_graph("g (bool c) => (float[1] y) { y = If (c) }")
        outer.node[0].attribute.append(onnx.helper.make_attribute("then_branch", graph))
        graph = outer
    return graph


def test_mcm_i014_subgraphs_nested_too_deep():
    assert check_structure(nested(MAX_SUBGRAPH_DEPTH)) == []
    (fault,) = check_structure(nested(MAX_SUBGRAPH_DEPTH + 1))
    assert fault.code == "MCM-I014"


def test_mcm_i040_a_type_that_nothing_tells():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "acme" : 1]> m (float[4] x) => (float[4] y) {'
        " a = acme.Mystery (x) y = Relu (a) }"
    )
    _, notes = import_model(ir.from_proto(model), "m")
    (warning,) = [note for note in notes if note.severity is Severity.WARNING]
    assert warning.code == "MCM-I040"
    assert "'a'" in (warning.at or "")


def test_the_hint_for_an_undefined_value_is_the_nearest_name_and_always_the_same():
    lines = " ".join(f"v{i} = Relu (x)" for i in range(3000))
    graph = onnx.parser.parse_graph(f"g (float[1] x) => (float[1] y) {{ {lines} y = Relu (v17x) }}")
    (fault,) = check_structure(graph)
    assert fault.code == "MCM-I011"
    assert fault.hint == "the nearest name is 'v17'"
