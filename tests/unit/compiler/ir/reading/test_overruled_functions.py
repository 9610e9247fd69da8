"""Functions with the name of an op: onnxruntime takes the op, and so does the compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.ir.reading.importer import import_model, import_onnx
from mcm_compiler.options import CompileOptions

VALUE = helper.make_tensor_value_info
X = np.array([[-1.0, 2.0], [0.5, -3.0]], np.float32)


def _model(domain: str, name: str, overload: str = "", *, nested: bool = False) -> onnx.ModelProto:
    """The op, which a function computes as a negation."""
    own = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    imports = [*own, helper.make_opsetid("own", 1)]
    body = [helper.make_node("Neg", ["a"], ["b"])]
    functions = [helper.make_function(domain, name, ["a"], ["b"], body, own, overload=overload)]
    node = helper.make_node(name, ["x"], ["q"], domain=domain, overload=overload)
    if nested:
        inner = helper.make_node(name, ["a"], ["b"], domain=domain, overload=overload)
        functions.append(helper.make_function("own", "G", ["a"], ["b"], [inner], own))
        node = helper.make_node("G", ["x"], ["q"], domain="own")
    graph = helper.make_graph(
        [node, helper.make_node("Abs", ["q"], ["y"])],
        "g",
        [VALUE("x", TensorProto.FLOAT, [2, 2])],
        [VALUE("y", TensorProto.FLOAT, [2, 2])],
    )
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def _in_runtime(model: onnx.ModelProto) -> np.ndarray:
    return np.asarray(
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})[0]
    )


def _warnings(notes: list[Diagnostic]) -> list[str]:
    return [note.at or "" for note in notes if note.code == "MCM-I053"]


@pytest.mark.parametrize(
    "model",
    [
        _model("", "Relu"),
        _model("", "Relu", "mine"),
        _model("com.microsoft", "Gelu"),
        _model("com.microsoft", "Gelu", nested=True),
    ],
)
def test_chips_run_the_op_as_onnxruntime_does(tmp_path: Path, model: onnx.ModelProto) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    result = compile_model(
        str(path), "mcm4", CompileOptions(level=0, replicas=1), output=tmp_path / "o"
    )
    assert len(_warnings(list(result.diagnostics))) == 1
    assert np.allclose(run_folder(tmp_path / "o", {"x": X})["y"], _in_runtime(model))
    assert check_folder(tmp_path / "o", model=str(path)).holds


@pytest.mark.parametrize("model", [_model("com.microsoft", "NoSuchOp"), _model("own", "Relu", "o")])
def test_other_functions_are_called(tmp_path: Path, model: onnx.ModelProto) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    imported, notes = import_onnx(path)
    assert _warnings(notes) == []
    assert [node.op_type for node in imported.graph] == ["Neg", "Abs"]
    assert np.array_equal(_in_runtime(model), np.abs(X))


def test_a_function_that_calls_the_op_of_its_name_is_no_recursion(tmp_path: Path) -> None:
    model = _model("", "Relu")
    model.functions[0].node[0].op_type = "Relu"
    onnx.save(model, tmp_path / "m.onnx")
    imported, notes = import_onnx(tmp_path / "m.onnx")
    assert _warnings(notes) == ["function 'Relu'"]
    assert [node.op_type for node in imported.graph] == ["Relu", "Abs"]


def test_models_in_memory_are_taken_in_the_same_way() -> None:
    given = ir.from_proto(_model("", "Relu"))
    imported, notes = import_model(given, "m")
    assert _warnings(notes) == ["function 'Relu'"]
    assert [node.op_type for node in imported.graph] == ["Relu", "Abs"]
    assert len(given.functions) == 1
