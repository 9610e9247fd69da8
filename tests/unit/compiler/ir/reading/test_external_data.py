"""External data from untrusted files."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_onnx


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


def test_symbolic_link_outside_the_folder(folder):
    (folder / "link.data").symlink_to(folder.parent / "secret.data")
    assert codes(folder, model_with("link.data")) == ["MCM-I021"]


def test_hard_link(folder):
    os.link(folder.parent / "secret.data", folder / "hard.data")
    assert codes(folder, model_with("hard.data")) == ["MCM-I021"]


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
