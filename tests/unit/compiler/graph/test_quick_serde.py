from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.graph.map_types import model_from_proto, model_to_proto
from mcm_compiler.graph.quick_serde import HeldTensor

FLOAT = onnx.TensorProto.FLOAT

ARRAYS = {
    "float": np.array([[1.0, -0.0], [np.nan, 3.0]], np.float32),
    "scalar": np.array(7, np.int64),
    "bool": np.array([True, False]),
    "bfloat16": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "float8": np.array([1.5, -2.0], ml_dtypes.float8_e4m3fn),
    "int4": np.array([1, -2, 3], ml_dtypes.int4),
    "complex": np.array([1 + 2j], np.complex64),
    "empty": np.zeros((0, 2), np.float32),
    "text": np.array(["a", "b"], object),
}


def info(name: str, dims, kind=FLOAT) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, kind, dims)


def model_of(*values: onnx.ValueInfoProto, weights=()) -> onnx.ModelProto:
    """A chain of Relus that makes these values."""
    names = ["x", *(value.name for value in values), "y"]
    nodes = [
        onnx.helper.make_node("Relu", [a], [b], name=f"make_{b}")
        for a, b in itertools.pairwise(names)
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", [2, "N"])], [info("y", [2, None])], list(weights)
    )
    graph.value_info.extend(values)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def noted(name: str, **fields) -> onnx.ValueInfoProto:
    value = info(name, [2, 3])
    if text := fields.get("doc"):
        value.doc_string = text
    if text := fields.get("property"):
        value.metadata_props.add(key="k", value=text)
    if text := fields.get("of_dim"):
        value.type.tensor_type.shape.dim[0].denotation = text
    if text := fields.get("of_type"):
        value.type.denotation = text
    return value


@pytest.mark.parametrize(
    "values",
    [
        [info("a", [2, 3]), info("b", [2, 3]), info("c", [2, 3], onnx.TensorProto.INT8)],
        [info("a", []), info("b", None), info("c", [])],
        [info("a", ["N", 3]), info("b", ["N", 3]), info("c", [None, 3])],
        [noted("a"), noted("b", doc="text"), noted("c")],
        [noted("a"), noted("b", property="v"), noted("c")],
        [noted("a", of_dim="DATA_BATCH"), noted("b"), noted("c", of_dim="DATA_BATCH")],
        [noted("a", of_type="IMAGE"), noted("b"), noted("c", of_type="IMAGE")],
        [
            onnx.helper.make_tensor_sequence_value_info("a", FLOAT, [2, 3]),
            info("b", [2, 3]),
            onnx.helper.make_tensor_sequence_value_info("c", FLOAT, [2, 3]),
        ],
    ],
    ids=["static", "ranks", "open", "doc", "property", "denoted", "denoted type", "sequence"],
)
def test_values_are_read_and_written_as_onnx_ir_does(values):
    proto = model_of(*values)
    usual = ir.to_proto(ir.from_proto(proto)).SerializeToString(deterministic=True)
    for model in (model_from_proto(proto), ir.from_proto(proto)):
        assert model_to_proto(model).SerializeToString(deterministic=True) == usual
    assert ir.to_proto(model_from_proto(proto)).SerializeToString(deterministic=True) == usual


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("raw", [True, False])
def test_weights_are_those_that_onnx_ir_reads(name, raw):
    array = ARRAYS[name]
    tensor = onnx.numpy_helper.from_array(array, "w")
    if not raw and name in ("float", "scalar", "bool"):
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = onnx.helper.make_tensor("w", kind, array.shape, array.reshape(-1).tolist())
    tensor.doc_string = "a weight"
    proto = model_of(weights=[tensor])
    usual = ir.from_proto(proto).graph.initializers["w"].const_value
    model = model_from_proto(proto)
    found = model.graph.initializers["w"].const_value
    assert (found.dtype, found.shape, found.nbytes) == (usual.dtype, usual.shape, usual.nbytes)
    assert (found.name, found.doc_string) == (usual.name, usual.doc_string)
    assert found.numpy().tobytes() == usual.numpy().tobytes()
    if name != "text":
        assert found.tobytes() == usual.tobytes()
    if isinstance(found, HeldTensor):
        assert found.stored.tobytes() == found.tobytes()
    written = model_to_proto(model).graph.initializer[0]
    assert written.SerializeToString(deterministic=True) == tensor.SerializeToString(
        deterministic=True
    )


def test_a_model_outlives_the_protobuf_that_it_was_read_from():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    proto = model_of(info("a", [2, 3]), weights=[onnx.numpy_helper.from_array(array, "w")])
    model = model_from_proto(proto)
    proto.graph.initializer[0].raw_data = b"\0" * 24
    proto.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value = 9
    assert model.graph.initializers["w"].const_value.numpy().tolist() == array.tolist()
    assert model.graph[0].outputs[0].shape.numpy() == (2, 3)
