"""External data from untrusted files."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_onnx
from mcm_compiler.options import CompileOptions


def model_with(location, *, offset=0, length=64, dims=(4, 4)):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    weight.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": str(offset)}
    if length is not None:
        entries["length"] = str(length)
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "model"
    inner.mkdir()
    np.arange(32, dtype=np.float32).tofile(inner / "w.data")
    np.arange(32, dtype=np.float32).tofile(tmp_path / "secret.data")
    return inner


def codes(folder, model):
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CompileError) as caught:
        import_onnx(path)
    return [d.code for d in caught.value.diagnostics]


def test_good_data_stays_mapped(folder):
    path = folder / "model.onnx"
    path.write_bytes(model_with("w.data", offset=64).SerializeToString())
    model, _ = import_onnx(path)
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert tensor.numpy()[0, 0] == 16


@pytest.mark.parametrize(
    "location", ["../secret.data", "/etc/passwd", "", "a\0b", "sub/../../secret.data"]
)
def test_location_outside_the_folder(folder, location):
    assert codes(folder, model_with(location)) == ["MCM-I021"]


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
    return path


def beside(folder, path, location="w.data"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model_with(location).SerializeToString())
    return path


def cached(folder, below=""):
    """As caches of model hubs keep it: model and data are links to files of a folder of all."""
    blobs, shown = folder / "blobs", folder / "snapshots" / "abc" / below
    beside(folder, blobs / "1111")
    (folder / "w.data").rename(blobs / "2222")
    link(shown / "w.data", blobs / "2222")
    return link(shown / "model.onnx", blobs / "1111")


def hard_linked(folder):
    os.link(folder.parent / "secret.data", folder / "hard.data")
    return beside(folder, folder / "model.onnx", "hard.data")


def linked_out(folder):
    link(folder / "link.data", folder.parent / "secret.data")
    return beside(folder, folder / "model.onnx", "link.data")


def linked_within(folder):
    link(folder / "deep" / "link.data", folder / "w.data")
    return beside(folder, folder / "model.onnx", "deep/link.data")


def chained(folder):
    model = cached(folder)
    link(folder / "again" / "w.data", model.parent / "w.data")
    return link(folder / "again" / "model.onnx", model)


def cached_but_for_data(folder):
    model = cached(folder)
    (model.parent / "w.data").unlink()
    link(model.parent / "w.data", folder.parent / "secret.data")
    return model


def cached_without_data(folder):
    return link(folder / "other" / "model.onnx", beside(folder, folder / "model.onnx"))


LAYOUTS = {
    "hub": cached,
    "hub-deeper": lambda folder: cached(folder, "onnx"),
    "chain": chained,
    "hard": hard_linked,
    "within": linked_within,
    "dots": lambda folder: beside(folder, folder / "model.onnx", "../model/./w.data"),
    "whole-folder": lambda folder: (
        link(folder.parent / "way", folder) / beside(folder, folder / "model.onnx").name
    ),
    "out": linked_out,
    "hub-out": cached_but_for_data,
    "hub-missing": cached_without_data,
    "directory": lambda folder: beside(folder, folder / "model.onnx", "."),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_links_lead_where_onnxruntime_follows_them(folder, layout):
    path = LAYOUTS[layout](folder)
    try:
        ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:  # the runtime raises a type of its own per status code
        with pytest.raises(CompileError) as caught:
            import_onnx(path)
        assert caught.value.diagnostics[0].code in ("MCM-I020", "MCM-I021")
        assert caught.value.diagnostics[0].at == "tensor 'w'"
    else:
        import_onnx(path)


def constant(weight):
    node = helper.make_node("Constant", [], ["w"])
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(weight)
    return node


def in_a_constant(model):
    model.graph.node.insert(0, constant(model.graph.initializer.pop()))


def in_a_branch(model, keep=False):
    weight, (node,) = model.graph.initializer.pop(), model.graph.node
    out = [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    inner = helper.make_node(node.op_type, node.input, ["t"])
    nodes = [inner] if keep else [constant(weight), inner]
    body = helper.make_graph(nodes, "b", [], out, [weight] if keep else [])
    truth = helper.make_tensor("", TensorProto.BOOL, [], [True])
    condition = helper.make_node("Constant", [], ["c"], value=truth)
    branch = helper.make_node("If", ["c"], node.output, then_branch=body, else_branch=body)
    del model.graph.node[:]
    model.graph.node.extend([condition, branch])


def in_a_function(model):
    weight, (node,) = model.graph.initializer.pop(), model.graph.node
    inner = helper.make_node(node.op_type, node.input, node.output)
    nodes, opsets = [constant(weight), inner], [helper.make_opsetid("", 17)]
    made = helper.make_function("own", "F", ["x"], node.output, nodes, opsets)
    model.functions.append(made)
    model.opset_import.append(helper.make_opsetid("own", 1))
    node.CopyFrom(helper.make_node("F", ["x"], node.output, domain="own"))


@pytest.mark.parametrize(
    "move",
    [in_a_constant, in_a_branch, partial(in_a_branch, keep=True), in_a_function],
    ids=["constant", "branch", "weight-of-branch", "function"],
)
@pytest.mark.parametrize("as_model", [False, True], ids=["file", "model"])
def test_data_of_constants_are_found_wherever_they_are(folder, move, as_model):
    model = model_with("w.data")
    move(model)
    path, out = folder / "model.onnx", folder / "out"
    path.write_bytes(model.SerializeToString())
    given = path
    if as_model:
        given = ir.load(path)
        for function in given.functions.values():
            ir.external_data.set_base_dir(function.graph, folder)
    compile_model(given, "mcm4", CompileOptions(inferences=4), output=out)
    (folder / "w.data").unlink()
    assert check_folder(out).holds
    np.arange(32, dtype=np.float32).tofile(folder / "w.data")
    if not as_model:
        assert check_folder(out, model=path).holds


def test_missing_file(folder):
    assert codes(folder, model_with("none.data")) == ["MCM-I020"]


@pytest.mark.parametrize(("offset", "length"), [(100, 64), (-1, 64), (2**60, 64), (0, 2**62)])
def test_past_the_end(folder, offset, length):
    assert codes(folder, model_with("w.data", offset=offset, length=length)) == ["MCM-I022"]


def test_offset_that_is_no_number(folder):
    assert codes(folder, model_with("w.data", offset="x")) == ["MCM-I022"]


def test_declared_size_is_checked_before_memory_is_taken(folder):
    huge = model_with("w.data", length=64, dims=(2**20, 2**20))
    assert codes(folder, huge) == ["MCM-I023"]
    unsized = model_with("w.data", length=None, dims=(2**20, 2**20))
    assert codes(folder, unsized) == ["MCM-I022"]


def test_inline_size_disagrees(folder):
    model = model_with("w.data")
    weight = model.graph.initializer[0]
    weight.data_location = TensorProto.DEFAULT
    del weight.external_data[:]
    weight.raw_data = b"\0" * 60
    assert codes(folder, model) == ["MCM-I023"]
    weight.ClearField("raw_data")
    weight.float_data.extend([1.0] * 3)
    assert codes(folder, model) == ["MCM-I023"]


def test_attribute_tensors_are_checked_too(folder):
    model = model_with("w.data")
    bad = onnx.TensorProto()
    bad.CopyFrom(model_with("../secret.data").graph.initializer[0])
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=bad))
    assert codes(folder, model) == ["MCM-I021"]
