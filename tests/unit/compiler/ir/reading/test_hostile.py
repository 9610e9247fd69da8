"""Models that are broken or made to do harm: one diagnostic, and never much time or memory."""

from __future__ import annotations

import os
import signal

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.execution.runner import open_session
from mcm_compiler.graph.limits import MAX_VALUE_BYTES, check_run_size, run_bytes
from mcm_compiler.graph.structure import MAX_SUBGRAPH_DEPTH
from mcm_compiler.ir.reading.external_data import MAX_DENSE_BYTES
from mcm_compiler.ir.reading.function_calls import MAX_CALL_DEPTH, MAX_EXPANDED_NODES
from mcm_compiler.ir.reading.importer import import_model, import_onnx
from mcm_compiler.ir.reading.versions import newest_opset
from mcm_compiler.ir.shapes import isolated_inference

VALUE = helper.make_tensor_value_info
HEADER = '<ir_version: 10, opset_import: ["" : 17, "local" : 1]> '
RELU = "g (float[2,4] x) => (float[2,4] y) { [relu] y = Relu (x) }"


def parsed(text, functions=""):
    return parser.parse_model(f"{HEADER}{text}{functions}")


def import_of(model, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return import_onnx(path)


def refused(model, tmp_path):
    with pytest.raises(CompileError) as caught:
        import_of(model, tmp_path)
    for fault in caught.value.diagnostics:
        assert fault.at, fault
        assert fault.hint, fault
        assert len(str(fault)) < 2000
    return caught.value.diagnostics


def codes(model, tmp_path):
    return [d.code for d in refused(model, tmp_path)]


def function(name, text):
    return f'\n<domain: "local", opset_import: ["" : 17, "local" : 1]> {name} (a) => (b) {{{text}}}'


CALL = "g (float[2,4] x) => (float[2,4] y) { y = local.F0 (x) }"


def test_functions_that_call_each_other_in_a_circle(tmp_path):
    circle = function("F0", "b = local.F1 (a)") + function("F1", "b = local.F0 (a)")
    (fault,) = refused(parsed(CALL, circle), tmp_path)
    assert fault.code == "MCM-I015"
    assert "'F0' -> 'F1' -> 'F0'" in fault.message
    itself = function("F0", "b = local.F0 (a)")
    assert codes(parsed(CALL, itself), tmp_path) == ["MCM-I015"]


def layers(count, calls):
    body = " ".join(f"c{i} = local.F{{0}} ({'a' if not i else f'c{i - 1}'})" for i in range(calls))
    text = "".join(
        function(f"F{i}", body.format(i + 1) + f" b = Identity (c{calls - 1})")
        for i in range(count)
    )
    return parsed(CALL, text + function(f"F{count}", "b = Relu (a)"))


def test_functions_that_expand_to_millions_of_nodes_are_counted_first(tmp_path):
    (fault,) = refused(layers(26, 2), tmp_path)
    assert fault.code == "MCM-I016"
    assert str(2**26 + 2**26 - 1) in fault.message
    assert str(MAX_EXPANDED_NODES) in fault.message


def test_functions_within_functions_without_end(tmp_path):
    assert codes(layers(MAX_CALL_DEPTH + 1, 1), tmp_path) == ["MCM-I015"]
    assert codes(layers(3000, 1), tmp_path) == ["MCM-I015"]


def test_calls_that_do_not_fit_the_function(tmp_path):
    bodies = function("F0", "b = Relu (a)")
    for call in ("y, z = local.F0 (x)", "y = local.F0 (x, x)"):
        model = parsed(f"g (float[2,4] x) => (float[2,4] y) {{ {call} }}", bodies)
        assert codes(model, tmp_path) == ["MCM-I017"]


def test_functions_of_a_sane_size_pass(tmp_path):
    model, _ = import_of(layers(3, 2), tmp_path)
    assert [node.op_type for node in model.graph].count("Relu") in (0, 8)  # kept, or inlined


@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        (function("F0", "b = Relu (ghost)"), "MCM-I011"),
        (function("F0", "c = Relu (a)"), "MCM-I013"),
        (function("F0", "b = Add (a, c) c = Relu (b)"), "MCM-I012"),
        (function("F0", "b = Relu (a)") * 2, "MCM-I010"),
        (function("F0", "b = Selu <alpha = 1> (a)"), "MCM-I017"),
    ],
)
def test_bodies_of_functions_are_checked_like_graphs(bodies, code, tmp_path):
    assert codes(parsed(CALL, bodies), tmp_path) == [code]


def test_a_model_that_is_only_functions(tmp_path):
    model = parsed(CALL, function("F0", "b = Relu (a)"))
    model.ClearField("graph")
    assert codes(model, tmp_path) == ["MCM-I003"]


def nested(depth):
    graph = parser.parse_graph("g () => (float[1] y) { y = Constant <value_floats = [1.0]> () }")
    for _ in range(depth):
        outer = parser.parse_graph("g () => (float[1] y) { y = If (c) }")
        for branch in ("then_branch", "else_branch"):
            outer.node[0].attribute.append(helper.make_attribute(branch, graph))
            graph = onnx.GraphProto.FromString(graph.SerializeToString()) if depth < 4 else graph
            if depth >= 4:
                break
        graph = outer
    model = parsed("g (bool c) => (float[1] y) { y = Identity (c) }")
    model.graph.node[0].CopyFrom(graph.node[0])
    return model


def test_ifs_nested_beyond_what_protobuf_reads(tmp_path):
    model = nested(MAX_SUBGRAPH_DEPTH)
    assert "MCM-I014" not in codes(model, tmp_path)  # an If wants both branches
    # Protobuf parses 100 levels, so that the model is put together as bytes.
    data = b""
    for _ in range(60):
        attribute = AttributeProto(name="then_branch", type=AttributeProto.GRAPH)
        attribute.g.ParseFromString(data[:0])
        inner = attribute.SerializeToString().replace(b"\x32\x00", b"")
        node = onnx.NodeProto(op_type="If", output=["y"]).SerializeToString()
        body = inner + b"\x32" + varint(len(data)) + data
        data = field(1, node + field(5, body))
    model = onnx.ModelProto(ir_version=8).SerializeToString() + field(7, data)
    assert codes(model, tmp_path) == ["MCM-I003"]


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def test_ifs_nested_deep_but_readable(tmp_path):
    assert codes(nested(MAX_SUBGRAPH_DEPTH + 1), tmp_path) == ["MCM-I014"]


def with_weight(**fields):
    model = parsed("g (float[2,4] x) => (float[2,4] y) { y = Add (x, w) }")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT)
    for name, content in fields.items():
        if name == "data_type":
            tensor.data_type = content
        elif name == "raw_data":
            tensor.raw_data = content
        else:
            getattr(tensor, name).extend(content)
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"dims": [2**20, 2**20]}, "MCM-I023"),
        ({"dims": [2**40], "raw_data": b"\0" * 16}, "MCM-I023"),
        ({"dims": [2**32, 2**32], "raw_data": b""}, "MCM-I025"),
        ({"dims": [0, 2**62, 2**62]}, "MCM-I025"),
        ({"dims": [-1, -4], "float_data": [1.0] * 4}, "MCM-I025"),
        ({"dims": [4]}, "MCM-I023"),
        ({"dims": [4], "float_data": [1.0] * 4, "int64_data": [1]}, "MCM-I023"),
        ({"dims": [4], "float_data": [1.0] * 4, "raw_data": b"\0" * 16}, "MCM-I023"),
        ({"dims": [4], "data_type": 0, "raw_data": b"\0" * 16}, "MCM-I025"),
        ({"dims": [4], "data_type": 999, "raw_data": b"\0" * 16}, "MCM-I025"),
        ({"dims": [3], "data_type": TensorProto.COMPLEX64, "float_data": [1.0] * 3}, "MCM-I023"),
        ({"dims": [5], "data_type": TensorProto.INT4, "int32_data": [1] * 2}, "MCM-I023"),
        ({"dims": [2], "data_type": TensorProto.STRING, "string_data": [b"a"]}, "MCM-I023"),
    ],
)
def test_tensors_that_declare_what_they_do_not_hold(fields, code, tmp_path):
    assert codes(with_weight(**fields), tmp_path) == [code]


def test_a_tensor_attribute_without_a_tensor(tmp_path):
    model = parsed("g (float[2,4] x) => (float[2,4] y) { c = Constant () y = Add (x, c) }")
    model.graph.node[0].attribute.add(name="value", type=AttributeProto.TENSOR)
    assert codes(model, tmp_path) == ["MCM-I025"]


def test_an_unnamed_weight_and_a_repeated_one(tmp_path):
    model = with_weight(dims=[4], float_data=[1.0] * 4)
    model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
    assert codes(model, tmp_path) == ["MCM-I010"]
    model.graph.initializer[1].name = ""
    assert codes(model, tmp_path) == ["MCM-I009"]


def sparse(values, indices, dims, index_type=np.int64):
    model = parsed("g (float[2,4] x) => (float[2,4] y) { y = Add (x, w) }")
    entry = model.graph.sparse_initializer.add(dims=dims)
    entry.values.CopyFrom(numpy_helper.from_array(np.array(values, np.float32), "w"))
    entry.indices.CopyFrom(numpy_helper.from_array(np.array(indices, index_type), "i"))
    return model


@pytest.mark.parametrize(
    ("values", "indices", "dims", "index_type"),
    [
        ([1.0, 2.0], [0], [4], np.int64),
        ([1.0], [4], [4], np.int64),
        ([1.0], [-1], [4], np.int64),
        ([1.0], [[2, 0]], [2, 4], np.int64),
        ([1.0, 2.0], [1, 1], [4], np.int64),
        ([1.0], [1], [4], np.int32),
        ([1.0], [1], [-4], np.int64),
        ([1.0], [1], [MAX_DENSE_BYTES], np.int64),
        ([1.0], [[1, 2, 3]], [2, 4], np.int64),
    ],
)
def test_sparse_weights_that_contradict_themselves(values, indices, dims, index_type, tmp_path):
    assert codes(sparse(values, indices, dims, index_type), tmp_path) == ["MCM-I026"]


@pytest.mark.parametrize("indices", [[1, 6], [[0, 1], [1, 2]]])
def test_sparse_weights_become_dense(indices, tmp_path):
    model, _ = import_of(sparse([1.0, 2.0], indices, [2, 4]), tmp_path)
    dense = model.graph.initializers["w"].const_value.numpy()
    assert dense.tolist() == [[0, 1, 0, 0], [0, 0, 2, 0]]


def test_a_sparse_constant_becomes_dense(tmp_path):
    model = parsed("g (float[2,4] x) => (float[2,4] y) { w = Constant () y = Add (x, w) }")
    entry = sparse([3.0], [3], [4]).graph.sparse_initializer[0]
    model.graph.node[0].attribute.append(helper.make_attribute("sparse_value", entry))
    imported, _ = import_of(model, tmp_path)
    assert imported.graph.initializers["w"].const_value.numpy().tolist()[3] == 3.0


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,4] x) => (int64[2,4] y) { [relu] y = Relu (x) }",
        "g (float[2,4] x) => (float[2,4] y) <int64[2,4] a> { [relu] a = Relu (x) y = Selu (a) }",
        "g (float[2,4] x) => (int64[2,5] y) { [relu] y = Relu (x) }",
    ],
)
def test_declared_types_that_inference_contradicts(text, tmp_path):
    fault, *_ = refused(parsed(text), tmp_path)
    assert fault.code == "MCM-I032"
    assert fault.at == "node 'relu' (Relu)"


@pytest.mark.parametrize(
    ("text", "name", "declared"),
    [
        ("g (float[2,4] x) => (float[2,5] y) { y = Relu (x) }", "y", "[2, 5]"),
        ("g (float[2,4] x) => (float[2,4,1] y) { y = Relu (x) }", "y", "[2, 4, 1]"),
        (
            "g (float[2,4] x) => (float[2,4] y) <float[7] a> { a = Relu (x) y = Selu (a) }",
            "a",
            "[7]",
        ),
        (
            "g (float[2,4] x) => (float[9,9] y) <float[9,9] a> { a = Relu (x) y = Selu (a) }",
            "a",
            "[9, 9]",
        ),
    ],
)
def test_declared_shapes_that_inference_contradicts_are_dropped_as_in_onnxruntime(
    text, name, declared, tmp_path
):
    model, notes = import_of(parsed(text), tmp_path)
    (warning,) = [d for d in notes if d.code == "MCM-I044"]
    assert warning.severity is Severity.NOTE
    assert warning.at == f"value '{name}'"
    assert f"is declared as {declared} and is [2, 4]" in warning.message
    assert all(v.shape == (2, 4) for node in model.graph for v in node.outputs)


def test_a_stale_shape_is_found_behind_others_and_a_foreign_one_is_kept(tmp_path):
    text = "g (float[2,4] x) => (float[9,9] h99) { h0 = Relu (x) "
    text += " ".join(f"h{i} = Relu (h{i - 1})" for i in range(1, 100)) + " }"
    model = parsed(text)
    model.graph.value_info.extend(
        helper.make_tensor_value_info(f"h{i}", TensorProto.FLOAT, [9, 9]) for i in range(99)
    )
    model.graph.node[50].domain = "local"
    imported, notes = import_of(model, tmp_path)
    (warning,) = [d for d in notes if d.code == "MCM-I044"]
    assert "50 values" in warning.message
    shapes = [node.outputs[0].shape for node in imported.graph]
    assert shapes[:50] == [(2, 4)] * 50
    assert shapes[50:] == [(9, 9)] * 50


def test_a_stale_shape_within_a_branch(tmp_path):
    """The branch and the If declare the same, so that inference of the If sees no contradiction."""
    model = parsed(
        "g (float[7,4] x, bool c) => (float[3,4] y) <float[3,4] h, float[3,4] i> { h = Relu (x) "
        "i = If (c) <then_branch = t () => (float[3,4] a) { a = Selu (h) }, "
        "else_branch = e () => (float[3,4] b) { b = Neg (h) }> y = Exp (i) }"
    )
    imported, notes = import_of(model, tmp_path)
    assert [d.code for d in notes] == ["MCM-I044"]
    assert all(v.shape == (7, 4) for node in imported.graph for v in node.outputs)


def test_shapes_that_contradict_each_other_without_being_declared(tmp_path):
    """onnxruntime refuses them on any data."""
    model = parsed("g (float[2,4] x, float[3] w) => (y) { y = Add (x, w) }")
    assert [d.code for d in refused(model, tmp_path)] == ["MCM-I058"]


def test_values_beyond_all_memory_are_never_made(tmp_path):
    made = {
        "c = Constant <value_ints = [1048576, 1048576]> () a = ConstantOfShape (c)": "a",
        "c = Constant <value_ints = [1048576, 1048576]> () a = Tile (x, c)": "a",
        "c = Constant <value_ints = [1048576, 1048576, 2, 4]> () a = Expand (x, c)": "a",
        "c = Constant <value_ints = [0, 0, 0, 1099511627776]> () a = Pad (x, c)": "a",
    }
    for text, name in made.items():
        model = parsed(
            f"g (float[2,4] x) => (float[2,4] y) {{ {text} b = Shape ({name}) "
            "s = ReduceSum (b) f = Cast <to = 1> (s) y = Add (x, f) }"
        )
        (fault,) = refused(model, tmp_path)
        assert fault.code == "MCM-I034"
        assert str(MAX_VALUE_BYTES) in fault.message


def test_an_input_beyond_all_memory(tmp_path):
    model = parsed("g (float[1048576,1048576] x) => (y) { y = Relu (x) }")
    model.graph.output[0].ClearField("type")
    (fault,) = refused(model, tmp_path)
    assert fault.code == "MCM-I034"


def test_an_input_without_elements_that_no_array_can_be(tmp_path):
    model = parsed("g (float[0,4611686018427387904] x) => (y) { y = Relu (x) }")
    model.graph.output[0].ClearField("type")
    (fault,) = refused(model, tmp_path)
    assert fault.code == "MCM-I034"
    assert "no array has the shape [0, 4611686018427387904]" in fault.message


@pytest.mark.forks
def test_inference_without_an_end(tmp_path, monkeypatch):
    def endless(proto, strict):
        while True:
            pass

    monkeypatch.setattr(isolated_inference, "MAX_CPU_S", 1)
    monkeypatch.setattr(isolated_inference, "_infer", endless)
    (fault,) = refused(parsed(RELU), tmp_path)
    assert fault.code == "MCM-I018"
    assert "stopped after 1 s" in fault.message


def test_a_kernel_larger_than_what_it_slides_over_is_refused(tmp_path):
    """onnx's inference makes a negative size, and onnxruntime runs the model on no data."""
    model = parsed(
        "g (float[1,1,6,6] x) => (float[a,b,c,d] y)"
        " { p = AveragePool <kernel_shape = [64, 1]> (x) y = Relu (p) }"
    )
    (fault,) = refused(model, tmp_path)
    assert fault.code == "MCM-I058"
    assert "'x' [1,1,6,6]" in (fault.at or "")


def test_the_memory_of_a_run_is_estimated_from_shapes(tmp_path):
    model, _ = import_of(
        parsed(
            "g (float[256] x) => (float[256] y) { a = Relu (x) b = Relu (a) c = Add (a, b) "
            "y = Relu (c) }"
        ),
        tmp_path,
    )
    assert run_bytes(model, 2) == 1024 * (2 + 3)
    check_run_size(model, 2)
    with pytest.raises(CompileError) as caught:
        check_run_size(model, 2**21)
    assert caught.value.diagnostics[0].code == "MCM-V004"


def node_with(attribute, op="Selu"):
    model = parsed(RELU.replace("Relu", op))
    model.graph.node[0].attribute.append(attribute)
    return model


@pytest.mark.parametrize(
    "model",
    [
        node_with(helper.make_attribute("alpha", 1)),
        node_with(helper.make_attribute("alpha", "text")),
        node_with(helper.make_attribute("slope", 1.0)),
        node_with(AttributeProto(name="alpha")),
        parsed("g (float[2,4] x) => (float[2,4] y) { [relu] y = Relu (x, x) }"),
        parsed("g (float[2,4] x) => (float[2,4] y) { [relu] y = Relu () }"),
        parsed('g (float[2,4] x) => (float[2,4] y) { [relu] y = Sum (x, "") }'),
        parsed("g (float[2,4] x) => (float[2,4] y) { [relu] y = Cast (x) }"),
        parsed("g (float[2,4] x) => (float[2,4] y) { [relu] y, z = Relu (x) }"),
        node_with(helper.make_attribute("to", b"\xff"), "Cast"),
        node_with(helper.make_attribute("auto_pad", b"\xff\xfe"), "GlobalLpPool"),
        parsed(
            "g (float[2,4] x, bool c) => (float[2,4] y) { [relu] y = If (c) <"
            "then_branch = t () => (float[2,4] a, float[2,4] d) { a = Relu (x) d = Relu (x) }, "
            "else_branch = e () => (float[2,4] b) { b = Relu (x) }> }"
        ),
    ],
)
def test_nodes_that_do_not_fit_their_op(model, tmp_path):
    (fault,) = refused(model, tmp_path)
    assert fault.code == "MCM-I017"
    assert "'relu'" in fault.at


def test_an_attribute_without_a_type_on_an_op_that_onnx_does_not_know(tmp_path):
    model = parsed("g (float[2,4] x) => (float[2,4] y) { [relu] y = local.Mystery (x) }")
    model.graph.node[0].attribute.add(name="a")
    assert codes(model, tmp_path) == ["MCM-I017"]


@pytest.mark.parametrize("op", ["Constant", "local.Mystery"])
def test_an_attribute_that_refers_to_a_function_outside_of_any(op, tmp_path):
    model = parsed(
        f"g (float[2,4] x, bool c) => (float[2,4] y) {{ [made] m = {op} () y = If (c) <"
        f"then_branch = t () => (float[2,4] a) {{ [inner] a = {op} () }}, "
        "else_branch = e () => (float[2,4] b) { b = Relu (x) }> }"
    )
    for node in (model.graph.node[0], model.graph.node[1].attribute[0].g.node[0]):
        node.attribute.add(name="value", type=AttributeProto.TENSOR, ref_attr_name="given")
    faults = refused(model, tmp_path)
    assert [(d.code, d.at.split("'")[1]) for d in faults] == [
        ("MCM-I017", "made"),
        ("MCM-I017", "inner"),
    ]
    assert all("'given'" in d.message for d in faults)


def test_an_attribute_that_is_given_twice(tmp_path):
    model = node_with(helper.make_attribute("alpha", 1.0))
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 2.0))
    assert codes(model, tmp_path) == ["MCM-I017"]


def test_an_output_that_nobody_makes_and_an_undefined_value_in_a_branch(tmp_path):
    text = "g (float[2,4] x) => (float[2,4] y, float[2,4] z) { y = Relu (x) }"
    assert codes(parsed(text), tmp_path) == ["MCM-I013"]
    text = (
        "g (float[2,4] x, bool c) => (float[2,4] y) { y = If (c) <"
        "then_branch = t () => (float[2,4] a) { a = Relu (ghost) }, "
        "else_branch = e () => (float[2,4] b) { b = Relu (x) }> }"
    )
    assert codes(parsed(text), tmp_path) == ["MCM-I011"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("b (float[2] s, float[2] n) => (float[2] n, float[2] o) { o = Relu (n) }", "an input"),
        ("b (float[2] s, float[2] n) => (float[2] s, float[2] o) { o = Relu (n) }", "an input"),
        ("b (float[2] s, float[2] n) => (float[2] o, float[2] o) { o = Add (s, n) }", "twice"),
        ("b (float[2] s, float[2] n) => (float[2] o, float[2] n) { o = Add (s, n) }", None),
    ],
)
def test_results_of_a_scan_that_onnxruntime_leaves_unwritten(body, why, tmp_path):
    model = parsed(
        "g (float[2] i, float[3,2] x) => (float[2] y, float[3,2] z) { [scan] "
        f"y, z = Scan <num_scan_inputs = 1, body = {body}> (i, x) }}"
    )
    if why is None:
        import_of(model, tmp_path)
        return
    (fault,) = refused(model, tmp_path)
    assert fault.code == "MCM-I013"
    assert "'scan'" in fault.at
    assert why in fault.message


def test_a_cycle_inside_a_branch(tmp_path):
    text = (
        "g (float[2,4] x, bool c) => (float[2,4] y) { y = If (c) <"
        "then_branch = t () => (float[2,4] a) { a = Relu (d) d = Relu (a) }, "
        "else_branch = e () => (float[2,4] b) { b = Relu (x) }> }"
    )
    assert codes(parsed(text), tmp_path) == ["MCM-I012"]


def test_opsets(tmp_path):
    model = parsed(RELU)
    model.opset_import[0].version = 99
    assert codes(model, tmp_path) == ["MCM-I005"]
    model.opset_import[0].version = -(2**63)
    assert codes(model, tmp_path) == ["MCM-I005"]
    model = parsed(RELU)
    model.opset_import.add(domain="ai.onnx", version=12)
    assert codes(model, tmp_path) == ["MCM-I007"]


def using(domain, op, imports):
    """A model of one op, with the opset imports of `imports` alone."""
    model = parsed(f"g (float[2,4] x) => (float[2,4] y) {{ y = {op} (x) }}")
    model.graph.node[0].domain = domain
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*entry) for entry in imports)
    return model


@pytest.mark.parametrize(
    ("domain", "op", "imports", "added"),
    [
        ("com.microsoft", "Gelu", [("", 17)], ("com.microsoft", 1)),
        ("", "Relu", [("com.microsoft", 1)], ("", newest_opset())),
        ("ai.onnx", "Relu", [("com.microsoft", 1)], ("", newest_opset())),
        ("ai.onnx.ml", "Normalizer", [("", 17)], ("ai.onnx.ml", None)),
    ],
)
def test_imports_that_onnxruntime_does_without_are_added(domain, op, imports, added, tmp_path):
    model = using(domain, op, imports)
    open_session(model)
    imported, notes = import_of(model, tmp_path)
    (note,) = [d for d in notes if d.code == "MCM-I045"]
    assert note.severity is Severity.NOTE
    version = imported.graph.opset_imports[added[0]]
    assert version >= 1
    assert added[1] in (None, version)
    in_memory, _ = import_model(ir.from_proto(model), "m")
    assert in_memory.graph.opset_imports[added[0]] == version


@pytest.mark.parametrize(
    ("domain", "imports"),
    [("", []), ("com.microsoft", []), ("acme", [("", 17)]), ("ai.onnx.training", [("", 17)])],
)
def test_imports_that_onnxruntime_misses(domain, imports, tmp_path):
    model = using(domain, "Relu", imports)
    with pytest.raises(CompileError):
        open_session(model)
    (fault,) = refused(model, tmp_path)
    assert fault.code == "MCM-I007"
    assert f"'{domain or 'ai.onnx'}'" in fault.message


def test_a_function_that_does_not_import_what_it_uses(tmp_path):
    body = '<domain: "local", opset_import: ["" : 17]> F0 (a) => (b) { b = com.microsoft.Gelu (a) }'
    model = parser.parse_model(f"{HEADER}{CALL}\n{body}")
    with pytest.raises(CompileError):
        open_session(model)
    (fault,) = refused(model, tmp_path)
    assert (fault.code, fault.at) == ("MCM-I007", "function 'F0'")


@pytest.mark.parametrize("version", [0, -1, -(2**63)])
def test_an_ir_version_that_is_none(version, tmp_path):
    model = parsed(RELU)
    model.ir_version = version
    assert codes(model, tmp_path) == ["MCM-I003"]


def test_an_ir_version_beyond_all_is_lowered(tmp_path):
    model = parsed(RELU)
    model.ir_version = 2**62
    imported, notes = import_of(model, tmp_path)
    assert imported.ir_version <= int(onnx.IR_VERSION)
    assert [d.code for d in notes] == ["MCM-I043"]


def test_before_ir_version_4_weights_leave_the_inputs(tmp_path):
    model = with_weight(dims=[4], float_data=[1.0] * 4)
    model.ir_version = 3
    model.graph.input.append(VALUE("w", TensorProto.FLOAT, [4]))
    imported, _ = import_of(model, tmp_path)
    assert imported.ir_version == 4
    assert [v.name for v in imported.graph.inputs] == ["x"]


def test_inputs_without_a_type(tmp_path):
    model = parsed(RELU)
    model.graph.input[0].ClearField("type")
    assert codes(model, tmp_path) == ["MCM-I033"]
    model.graph.input[0].type.tensor_type.elem_type = 0
    assert codes(model, tmp_path) == ["MCM-I033"]
    model.graph.input[0].type.tensor_type.elem_type = 77
    assert codes(model, tmp_path) == ["MCM-I033"]


def test_an_output_whose_declared_type_says_nothing(tmp_path):
    model = parsed(RELU)
    model.graph.output[0].type.tensor_type.elem_type = 0
    imported, _ = import_of(model, tmp_path)
    assert imported.graph.outputs[0].dtype.name == "FLOAT"


def test_negative_dimensions_are_open_ones(tmp_path):
    model = parsed(RELU)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -7
    assert codes(model, tmp_path) == ["MCM-I030"]
    model = parsed("g (float[2,4] x) => (float[2,4] y) { [op] y = local.Mystery (x) }")
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = -1
    imported, _ = import_of(model, tmp_path)
    assert imported.graph.outputs[0].shape is None


def test_text_that_is_not_utf8(tmp_path):
    data = parsed(RELU).SerializeToString()
    for good, bad in ((b"relu", b"r\xff\xfeu"), (b"Relu", b"\xed\xa0\x80u")):
        (fault,) = refused(data.replace(good, bad), tmp_path)
        assert fault.code == "MCM-I008"
        assert "node[0] of graph of the model" in fault.at


@pytest.mark.parametrize(
    "name",
    ["a/b/../c", "new\nline", "nul\0", "\u202eright to left", "\u00e9\U0001f600", "x" * 10_000,
     "\x1b[31m", "..", "error[MCM-X006]: not me"],
)  # fmt: skip
def test_names_of_every_kind_are_taken_and_printed_safely(name, tmp_path):
    model = parsed("g (float[2,4] x) => (float[2,4] y) { [one] m = Relu (x) [two] y = Selu (m) }")
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
    model.graph.node[0].name = name
    imported, _ = import_of(model, tmp_path)
    assert imported.graph[0].name == name
    model.graph.node[1].input.append(name + "?")
    for fault in refused(model, tmp_path):
        assert str(fault).count("\n") == 2
        assert str(fault).isascii()


def test_a_chain_of_20_000_nodes(tmp_path):
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(20_000)]
    graph = helper.make_graph(
        nodes, "g", [VALUE("v0", TensorProto.FLOAT, [4])], [VALUE("v20000", TensorProto.FLOAT, [4])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported, notes = import_of(model, tmp_path)
    assert imported.graph.num_nodes() == 20_000
    assert notes == []


@pytest.mark.forks
def test_a_model_that_crashes_the_inference_of_onnx(monkeypatch, tmp_path):
    def crash(_proto, _strict):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("mcm_compiler.ir.shapes.isolated_inference._infer", crash)
    (fault,) = refused(parsed(RELU), tmp_path)
    assert fault.code == "MCM-I018"
    assert "SIGKILL" in fault.message
