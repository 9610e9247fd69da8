"""Models that are spelt alike are the same; nothing else is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.equivalence.same_model import model_differences, spelt_alike


def _model() -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], name="first"),
        helper.make_node("LeakyRelu", ["y"], ["z"], name="second", alpha=0.0),
        helper.make_node("Neg", ["z"], ["u"], name="third"),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [4, 2]), ("u", [4, 3]))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _alike(original: onnx.ModelProto, form: onnx.ModelProto) -> bool:
    return spelt_alike(original, Path(), form, Path())


def test_names_placements_and_sizes_of_inputs_change_nothing() -> None:
    form = _model()
    form.ir_version = 11
    for node in form.graph.node:
        node.name = f"other_{node.name}"
        node.doc_string = "placed"
        node.metadata_props.add(key="mcm.chip", value="1")
        node.device_configurations.add(configuration_id="mcm", pipeline_stage=1)
    form.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    assert _alike(_model(), form)


def _attribute(model: onnx.ModelProto) -> None:
    model.graph.node[1].attribute[0].f = -0.0  # equal to 0.0, and not the same


def _wire(model: onnx.ModelProto) -> None:
    model.graph.node[2].input[0] = "y"


def _weight(model: onnx.ModelProto) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    values[1, 2] = 7
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "w"))


def _weight_type(model: onnx.ModelProto) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3).view(np.int32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "w"))


def _input_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def _output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "z"


def _opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 18


def _op(model: onnx.ModelProto) -> None:
    model.graph.node[2].op_type = "Abs"


def _one_op_less(model: onnx.ModelProto) -> None:
    del model.graph.node[2]


@pytest.mark.parametrize(
    "change",
    [_attribute, _wire, _weight, _weight_type, _input_type, _output, _opset, _op, _one_op_less],
)
def test_each_change_is_seen(change: Callable[[onnx.ModelProto], None]) -> None:
    form = _model()
    change(form)
    assert not _alike(_model(), form)
    assert not _alike(form, _model())


def test_other_names_of_values_are_left_to_the_numbers() -> None:
    form = _model()
    form.graph.node[0].output[0] = form.graph.node[1].input[0] = "other"
    assert not _alike(_model(), form)
    assert not model_differences(ir.from_proto(_model()), ir.from_proto(form))


def test_ops_with_bodies_are_left_to_the_numbers() -> None:
    def with_body() -> onnx.ModelProto:
        model = _model()
        result = helper.make_tensor_value_info("b", TensorProto.FLOAT, [4, 3])
        body = helper.make_graph([helper.make_node("Neg", ["z"], ["b"])], "body", [], [result])
        condition = numpy_helper.from_array(np.array(True), "c")
        model.graph.initializer.append(condition)
        model.graph.node.insert(
            2, helper.make_node("If", ["c"], ["v"], then_branch=body, else_branch=body)
        )
        return model

    assert not _alike(with_body(), with_body())


def test_external_weights_are_compared_where_they_lie(tmp_path: Path) -> None:
    model = _model()
    (tmp_path / "user").mkdir()
    onnx.save(model, tmp_path / "user" / "m.onnx", save_as_external_data=True, size_threshold=0)
    external = onnx.load(tmp_path / "user" / "m.onnx", load_external_data=False)
    form = _model()

    def alike() -> bool:
        return spelt_alike(external, tmp_path / "user", form, tmp_path)

    assert alike()
    _weight(form)
    assert not alike()
