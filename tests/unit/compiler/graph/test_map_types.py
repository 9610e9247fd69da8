"""Map types of ai.onnx.ml, which `onnx_ir` does not know, on their way in and out."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.graph.map_types import (
    MapType,
    load_model,
    model_from_proto,
    model_to_proto,
    shape_from_proto,
)
from mcm_compiler.ir.reading.importer import import_onnx

ZIP = """
<ir_version: 8, opset_import: ["" : 16, "ai.onnx.ml" : 3]>
zip (float[2, 3] x) => (probabilities) {
  y = Softmax (x)
  z = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b", "c"]> (y)
  probabilities = Identity (z)
}
"""
WANTED = ir.SequenceType(MapType(ir.DataType.STRING, ir.TensorType(ir.DataType.FLOAT)))


@pytest.fixture
def zip_model():
    model = parser.parse_model(ZIP)
    types = onnx.helper.make_sequence_type_proto(
        onnx.helper.make_map_type_proto(
            onnx.TensorProto.STRING, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
        )
    )
    types.sequence_type.elem_type.map_type.value_type.tensor_type.ClearField("shape")
    model.graph.output[0].type.CopyFrom(types)
    return model


def test_sequence_of_maps_is_read_and_written(zip_model):
    before = zip_model.SerializeToString()
    model = model_from_proto(zip_model)
    assert model.graph.outputs[0].type == WANTED
    assert zip_model.SerializeToString() == before
    written = model_to_proto(model)
    assert written.graph.output[0].type == zip_model.graph.output[0].type
    assert model.graph.outputs[0].type == WANTED


def test_import_learns_the_type_of_a_map_inside(zip_model, tmp_path):
    onnx.save(zip_model, tmp_path / "zip.onnx")
    model, notes = import_onnx(tmp_path / "zip.onnx")
    inner = next(n for n in model.graph if n.op_type == "ZipMap").outputs[0]
    assert inner.type is not None
    assert inner.type.elem_type.dtype is ir.DataType.FLOAT
    assert not [n for n in notes if n.code == "MCM-I040"]


def test_types_of_values_inside_are_written(zip_model, tmp_path):
    onnx.save(zip_model, tmp_path / "zip.onnx")
    model, _ = import_onnx(tmp_path / "zip.onnx")
    (tmp_path / "again.onnx").write_bytes(model_to_proto(model).SerializeToString())
    again = load_model(tmp_path / "again.onnx")
    types = [v.type for n in again.graph for v in n.outputs]
    assert types == [v.type for n in model.graph for v in n.outputs]


def test_different_maps_have_different_types():
    floats = ir.TensorType(ir.DataType.FLOAT)
    texts = MapType(ir.DataType.STRING, floats)
    assert texts == MapType(ir.DataType.STRING, floats)
    assert texts != MapType(ir.DataType.INT64, floats)
    assert texts != floats
    assert "STRING" in repr(texts)
    assert len({texts, MapType(ir.DataType.STRING, floats)}) == 1


def test_random_maps_have_keys_of_their_type():
    for key_type, kind in ((ir.DataType.STRING, str), (ir.DataType.INT64, int)):
        value = ir.Value(name="m", type=MapType(key_type, ir.TensorType(ir.DataType.FLOAT)))
        model = ir.Model(ir.Graph([value], [], nodes=[], opset_imports={"": 16}), ir_version=8)
        (drawn,) = random_inputs(model, 0).values()
        assert drawn
        assert all(isinstance(key, kind) for key in drawn)
        assert all(isinstance(number, float) for number in drawn.values())


def test_static_shapes_are_shared_where_they_are_asked_to_be():
    shared: dict[tuple[int | None, ...], ir.Shape] = {}
    kinds = [
        onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, dims)
        for dims in ([2, 3], [2, 3], [2, "n"], [2, "n"])
    ]
    static, alike, open_, other = [shape_from_proto(kind, shared) for kind in kinds]
    assert static is alike
    assert static == [2, 3]
    assert static.frozen
    assert open_ is not other
    assert list(shared) == [(2, 3)]
