"""What the importer accepts, what it refuses, and what it says."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.estimated_dims import dim_size
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.ir.reading.importer import MAX_PROTO_BYTES, import_model, import_onnx


def model_of(nodes, *, inputs=None, outputs=None, initializers=(), opset=17, ir_version=8):
    value = helper.make_tensor_value_info
    inputs = inputs if inputs is not None else [value("x", TensorProto.FLOAT, [2, 4])]
    outputs = outputs if outputs is not None else [value("y", TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )


def write(tmp_path, model, name="model.onnx"):
    path = tmp_path / name
    path.write_bytes(model.SerializeToString())
    return path


def refused(path, **kwargs):
    with pytest.raises(CompileError) as caught:
        import_onnx(path, **kwargs)
    return caught.value.diagnostics


def node(op, inputs, outputs, **kwargs):
    return helper.make_node(op, inputs, outputs, **kwargs)


RELU = [node("Relu", ["x"], ["y"])]


def test_missing_file_and_folder(tmp_path):
    assert [d.code for d in refused(tmp_path / "none.onnx")] == ["MCM-I001"]
    assert [d.code for d in refused(tmp_path)] == ["MCM-I001"]


def test_a_name_that_the_system_refuses(tmp_path):
    assert [d.code for d in refused(tmp_path / ("n" * 300))] == ["MCM-I001"]


def test_empty_file(tmp_path):
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    assert [d.code for d in refused(path)] == ["MCM-I002"]


@pytest.mark.parametrize("content", [b"hello, this is not protobuf", b"\x00" * 64, b"PK\x03\x04ab"])
def test_not_protobuf(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    (fault,) = refused(path)
    assert fault.code == "MCM-I003"
    assert fault.hint


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_truncated_file(tmp_path, share):
    weight = numpy_helper.from_array(np.ones((4, 64), np.float32), "w")
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 64])]
    data = model_of([node("MatMul", ["x", "w"], ["y"])], initializers=[weight], outputs=out)
    data = data.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data[: int(len(data) * share)])
    assert [d.code for d in refused(path)] == ["MCM-I003"]


def test_protobuf_of_another_kind(tmp_path):
    path = tmp_path / "tensor.pb"
    path.write_bytes(numpy_helper.from_array(np.ones(3, np.float32), "t").SerializeToString())
    assert refused(path)[0].code == "MCM-I003"


def test_file_beyond_the_limit_of_protobuf(tmp_path):
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(MAX_PROTO_BYTES + 1)
    (fault,) = refused(path)
    assert fault.code == "MCM-I006"
    assert str(MAX_PROTO_BYTES + 1) in fault.message


def test_empty_graph_and_graph_without_work(tmp_path):
    assert [d.code for d in refused(write(tmp_path, model_of([], outputs=[])))] == ["MCM-I004"]
    constant = node("Constant", [], ["c"], value_float=1.0)
    idle = model_of([constant], outputs=[])
    assert [d.code for d in refused(write(tmp_path, idle))] == ["MCM-I004"]


@pytest.mark.parametrize("output", [None, "x", "w"])
def test_graph_whose_outputs_no_node_makes(tmp_path, output):
    value = helper.make_tensor_value_info
    outputs = [] if output is None else [value(output, TensorProto.FLOAT, [2, 4])]
    weight = numpy_helper.from_array(np.ones((2, 4), np.float32), "w")
    model = model_of(RELU, outputs=outputs, initializers=[weight])
    assert [d.code for d in refused(write(tmp_path, model))] == ["MCM-I004"]


@pytest.mark.parametrize("opset", [0, 99])
def test_opset_out_of_range(tmp_path, opset):
    (fault,) = refused(write(tmp_path, model_of(RELU, opset=opset)))
    assert fault.code == "MCM-I005"
    assert str(opset) in fault.message


def test_missing_opset(tmp_path):
    model = model_of(RELU)
    del model.opset_import[:]
    assert "MCM-I007" in [d.code for d in refused(write(tmp_path, model))]


def test_newer_ir_version_is_lowered_with_a_note(tmp_path):
    path = write(tmp_path, model_of(RELU, ir_version=int(onnx.IR_VERSION)))
    model, notes = import_onnx(path)
    assert model.ir_version <= int(onnx.IR_VERSION)
    lowered = model.ir_version < int(onnx.IR_VERSION)
    assert ("MCM-I043" in [d.code for d in notes]) == lowered


def test_duplicate_value(tmp_path):
    nodes = [*RELU, node("Sigmoid", ["x"], ["y"])]
    (fault,) = refused(write(tmp_path, model_of(nodes)))
    assert fault.code == "MCM-I010"
    assert "'y'" in fault.message


def test_undefined_value_offers_the_nearest_name(tmp_path):
    nodes = [node("Relu", ["x"], ["hidden"]), node("Relu", ["hiden"], ["y"], name="second")]
    (fault,) = refused(write(tmp_path, model_of(nodes)))
    assert fault.code == "MCM-I011"
    assert "'second'" in fault.at
    assert "'hidden'" in fault.hint


def test_undefined_value_in_a_subgraph(tmp_path):
    value = helper.make_tensor_value_info
    branch = helper.make_graph(
        [node("Relu", ["ghost"], ["b"])], "branch", [], [value("b", TensorProto.FLOAT, [2, 4])]
    )
    nodes = [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    inputs = [value("x", TensorProto.FLOAT, [2, 4]), value("c", TensorProto.BOOL, [])]
    faults = refused(write(tmp_path, model_of(nodes, inputs=inputs)))
    assert {d.code for d in faults} == {"MCM-I011"}


def test_cycle_names_its_nodes(tmp_path):
    nodes = [
        node("Add", ["x", "c"], ["a"], name="first"),
        node("Relu", ["a"], ["b"], name="second"),
        node("Relu", ["b"], ["c"], name="third"),
        node("Relu", ["c"], ["y"], name="behind"),
    ]
    (fault,) = refused(write(tmp_path, model_of(nodes)))
    assert fault.code == "MCM-I012"
    assert "3 nodes" in fault.message
    assert "behind" not in fault.message


def test_output_that_nobody_produces(tmp_path):
    nodes = [node("Relu", ["x"], ["z"])]
    assert [d.code for d in refused(write(tmp_path, model_of(nodes)))] == ["MCM-I013"]


def test_all_structural_faults_are_reported_at_once(tmp_path):
    nodes = [node("Relu", ["p"], ["a"]), node("Relu", ["q"], ["a"])]
    codes = sorted(d.code for d in refused(write(tmp_path, model_of(nodes))))
    assert codes == ["MCM-I010", "MCM-I011", "MCM-I011", "MCM-I013"]


def test_nodes_out_of_order_are_sorted_with_a_note(tmp_path):
    nodes = [node("Relu", ["a"], ["y"]), node("Sigmoid", ["x"], ["a"])]
    model, notes = import_onnx(write(tmp_path, model_of(nodes)))
    assert [n.op_type for n in model.graph] == ["Sigmoid", "Relu"]
    assert [d.code for d in notes] == ["MCM-I042"]
    assert check_invariants(model) == []


def test_duplicate_and_missing_node_names(tmp_path):
    nodes = [
        node("Relu", ["x"], ["a"], name="same"),
        node("Relu", ["a"], ["b"], name="same"),
        node("Relu", ["b"], ["c"]),
        node("Relu", ["c"], ["y"], name="same_1"),
    ]
    model, _ = import_onnx(write(tmp_path, model_of(nodes)))
    names = [n.name for n in model.graph]
    assert len(set(names)) == 4
    assert names[0] == "same"
    assert names[3] == "same_1"
    renamed = list(model.graph)[1]
    assert renamed.metadata_props["mcm.original_name"] == "same"


def nan_weight(shape):
    array = np.zeros(shape, np.float32)
    array.flat[0] = np.nan
    return numpy_helper.from_array(array, "w")


def test_nan_in_weights(tmp_path):
    model = model_of([node("Add", ["x", "w"], ["y"])], initializers=[nan_weight([4])])
    (fault,) = refused(write(tmp_path, model))
    assert fault.code == "MCM-I024"
    assert "1 of 4" in fault.message


def test_infinity_and_scalar_nan_are_fine(tmp_path):
    mask = numpy_helper.from_array(np.array([0, -np.inf, 0, 0], np.float32), "m")
    nodes = [node("Add", ["x", "m"], ["a"]), node("Add", ["a", "w"], ["y"])]
    model, _ = import_onnx(write(tmp_path, model_of(nodes, initializers=[mask, nan_weight([])])))
    assert model.graph.num_nodes() == 2


def test_symbolic_dimensions(tmp_path):
    value = helper.make_tensor_value_info
    inputs = [
        value("x", TensorProto.FLOAT, ["batch", 4]),
        value("z", TensorProto.FLOAT, ["batch", "seq"]),
    ]
    outputs = [value("y", TensorProto.FLOAT, ["batch", 4])]
    model = model_of(
        [node("Relu", ["x"], ["y"]), node("Relu", ["z"], ["a"])], inputs=inputs, outputs=outputs
    )
    path = write(tmp_path, model)
    faults = refused(path)
    assert [d.code for d in faults] == ["MCM-I030", "MCM-I030"]
    assert "'batch'" in faults[0].message
    assert [d.hint for d in faults] == [None, "give sizes, such as --dim batch=1 --dim seq=128"]
    faults = refused(path, dims={"batch": 2, "sequence": 3})
    assert {d.code for d in faults} == {"MCM-I030", "MCM-U005"}

    imported, _ = import_onnx(path, dims={"batch": 2, "seq": 3})
    shapes = {v.name: tuple(v.shape) for v in [*imported.graph.inputs, *imported.graph.outputs]}
    assert shapes == {"x": (2, 4), "z": (2, 3), "y": (2, 4)}
    assert SOURCE.get(imported).dims == {"batch": 2, "seq": 3}

    by_shape, _ = import_onnx(path, dims={"seq": 3}, shapes={"x": (2, 4)})
    assert [tuple(v.shape) for v in by_shape.graph.inputs] == [(2, 4), (2, 3)]


def test_shape_that_contradicts(tmp_path):
    path = write(tmp_path, model_of(RELU))
    for shape in ((2, 5), (2,), (2, 4, 1)):
        assert [d.code for d in refused(path, shapes={"x": shape})] == ["MCM-I031"]
    assert [d.code for d in refused(path, shapes={"nope": (1,)})] == ["MCM-U005"]


def test_dimension_without_a_name(tmp_path):
    value = helper.make_tensor_value_info
    model = model_of(
        RELU,
        inputs=[value("x", TensorProto.FLOAT, [None, 4])],
        outputs=[value("y", TensorProto.FLOAT, None)],
    )
    path = write(tmp_path, model)
    (fault,) = refused(path)
    assert fault.code == "MCM-I030"
    assert fault.hint == "give sizes, such as --shape x=1,4"
    imported, _ = import_onnx(path, shapes={"x": (3, 4)})
    assert tuple(imported.graph.outputs[0].shape) == (3, 4)


def test_constants_are_lifted_but_kept_in_the_source(tmp_path):
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "c")
    nodes = [node("Constant", [], ["c"], value=tensor), node("Add", ["x", "c"], ["y"])]
    model, _ = import_onnx(write(tmp_path, model_of(nodes)))
    assert [n.op_type for n in model.graph] == ["Add"]
    assert [n.op_type for n in SOURCE.get(model).original.graph] == ["Constant", "Add"]


def test_shapes_that_only_a_run_can_tell(tmp_path):
    value = helper.make_tensor_value_info
    nodes = [
        node("NonZero", ["x"], ["where"], name="where"),
        node("Cast", ["where"], ["y"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, outputs=[value("y", TensorProto.FLOAT, None)])
    imported, notes = import_onnx(write(tmp_path, model))
    assert [d.code for d in notes] == ["MCM-I041"]
    rank, found = imported.graph.outputs[0].shape
    assert rank == 2
    assert 0 < dim_size(found) <= 8


@pytest.mark.parametrize("place", ["graph", "node", "value", "property"])
@pytest.mark.parametrize("text", [7, "half of a \udcff"], ids=["number", "half"])
def test_what_no_file_can_hold_is_told_of_a_model_in_memory(place, text):
    value = ir.Value(name="x", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.Node("", "Relu", [value], name="relu")
    node.outputs[0].name = "y"
    graph = ir.Graph([value], node.outputs, nodes=[node], opset_imports={"": 17}, name="g")
    if place == "graph":
        graph.name = text
    elif place == "node":
        node.name = text
    elif place == "value":
        node.outputs[0].name = text
    else:
        node.metadata_props["mine"] = text
    with pytest.raises(CompileError) as caught:
        import_model(ir.Model(graph, ir_version=8), "mine")
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-I003"
    assert found.message == f"no file can hold the model: {text!a} is no text"


def test_model_in_memory_is_left_alone(tmp_path):
    path = write(tmp_path, model_of([node("Relu", ["x"], ["y"])]))
    given = ir.load(path)
    imported, _ = import_model(given, "mine")
    assert imported is not given
    assert not given.graph[0].name
    assert imported.graph[0].name
    again, _ = import_model(given, "mine")
    assert SOURCE.get(imported).sha256 == SOURCE.get(again).sha256


def test_hash_follows_content(tmp_path):
    one = write(tmp_path, model_of(RELU), "one.onnx")
    two = write(tmp_path, model_of([node("Sigmoid", ["x"], ["y"])]), "two.onnx")
    hashes = [SOURCE.get(import_onnx(p)[0]).sha256 for p in (one, two, one)]
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_name_inside_a_subgraph_may_shadow_an_output_of_its_node(tmp_path):
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["state", "x_t"], ["next"]), node("Neg", ["next"], ["y"])],
        "body",
        [value("state", TensorProto.FLOAT, [4]), value("x_t", TensorProto.FLOAT, [4])],
        [value("next", TensorProto.FLOAT, [4]), value("y", TensorProto.FLOAT, [4])],
    )
    start = numpy_helper.from_array(np.zeros(4, np.float32), "start")
    scan = node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    model, _ = import_onnx(write(tmp_path, model_of([scan], initializers=[start])))
    assert [n.op_type for n in model.graph] == ["Scan"]


def test_a_subgraph_that_returns_an_outer_value(tmp_path):
    value = helper.make_tensor_value_info
    branch = helper.make_graph([], "branch", [], [value("a", TensorProto.FLOAT, [2, 4])])
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    condition = value("c", TensorProto.BOOL, [])
    x = value("x", TensorProto.FLOAT, [2, 4])
    faults = refused(write(tmp_path, model_of(nodes, inputs=[x, condition])))
    assert [d.code for d in faults] == ["MCM-I013"] * 2
    assert "Identity" in faults[0].hint


def test_the_reason_why_no_run_is_possible_is_given_without_a_stack_trace(tmp_path, capfd):
    weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    (fault,) = refused(write(tmp_path, model_of(nodes, initializers=[weight])))
    assert fault.code == "MCM-I058"
    assert "Incompatible dimensions" in fault.message
    assert str(tmp_path) not in fault.message
    assert capfd.readouterr().err == ""
