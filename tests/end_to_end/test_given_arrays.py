"""Arrays that a user gives: their sizes are recorded, and their bytes read as the right values."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.comparison.user_data import RunData
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.npz_inputs import read_npz, write_npz
from mcm_compiler.options import CompileOptions

NODE, VALUE = helper.make_node, helper.make_tensor_value_info


def saved(path, nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    imports = [helper.make_opsetid("", 25)]
    onnx.save(helper.make_model(graph, ir_version=11, opset_imports=imports), path)
    return path


def product(folder):
    ends = [VALUE("x", TensorProto.FLOAT, ["b", "k"]), VALUE("w", TensorProto.FLOAT, ["k", "n"])]
    nodes = [NODE("MatMul", ["x", "w"], ["m"]), NODE("Relu", ["m"], ["y"])]
    return saved(folder / "m.onnx", nodes, ends, [VALUE("y", TensorProto.FLOAT, ["b", "n"])])


def divided(folder):
    """Its sizes depend on values, and no drawn ones suit it."""
    ends = [VALUE("x", TensorProto.FLOAT, ["b", 8]), VALUE("parts", TensorProto.INT64, [2])]
    nodes = [NODE("Split", ["x", "parts"], ["l", "r"], axis=1), NODE("Exp", ["l"], ["y"])]
    outputs = [VALUE("y", TensorProto.FLOAT, ["b", "p"]), VALUE("r", TensorProto.FLOAT, None)]
    return saved(folder / "m.onnx", nodes, ends, outputs)


X, W = np.ones((4, 8), np.float32), np.ones((8, 3), np.float32)


@pytest.mark.parametrize(
    ("build", "arrays", "options", "recorded"),
    [
        (product, {"x": X, "w": W}, {}, {"x": [4, 8], "w": [8, 3]}),
        (product, {"x": X}, {"dims": {"n": 3}}, {"x": [4, 8]}),
        (product, {"x": X}, {"shapes": {"w": (8, 3)}}, {"x": [4, 8], "w": [8, 3]}),
        (divided, {"x": X, "parts": np.array([3, 5])}, {}, {"x": [4, 8], "parts": [2]}),
    ],
    ids=["inputs", "with-dim", "with-shape", "sizes-by-values"],
)
def test_sizes_of_given_arrays_are_recorded_and_checked(tmp_path, build, arrays, options, recorded):
    model, given, out = build(tmp_path), tmp_path / "given.npz", tmp_path / "out"
    np.savez(given, **arrays)
    compile_model(model, "mcm4", CompileOptions(input=str(given), **options), output=out)
    assert json.loads((out / "manifest.json").read_text())["shapes"] == recorded
    found = check_folder(out, model=model)
    assert found.holds, found.diagnostics
    data = [RunData("given", {"w": W, **arrays} if build is product else arrays)]
    assert check_folder(out, model=model, data=data).complete


FLOATS = np.array([1, -2, 0.5])
BF16, FP8 = FLOATS.astype(ml_dtypes.bfloat16), FLOATS.astype(ml_dtypes.float8_e5m2)
INT4 = np.array([1, -3, 7])
LOW = INT4.astype(np.int8).view(np.uint8)
STATED = np.dtype([("bfloat16", "<u2")])
ARRAYS = {
    "big-endian": ("FLOAT", FLOATS.astype(">f4"), FLOATS),
    "big-endian-half": ("FLOAT16", FLOATS.astype(">f2"), FLOATS),
    "fortran": ("INT32", np.asfortranarray(np.array([[1, 2], [3, 4], [5, 6]], ">i4")), None),
    "bfloat16-void": ("BFLOAT16", BF16.view("V2"), FLOATS),
    "bfloat16-bits": ("BFLOAT16", BF16.view("<u2"), FLOATS),
    "bfloat16-swapped": ("BFLOAT16", BF16.view("<u2").astype(">u2"), FLOATS),
    "bfloat16-stated": ("BFLOAT16", BF16.view("<u2").view(STATED), FLOATS),
    "float8": ("FLOAT8E5M2", FP8.view("u1"), FLOATS),
    "int4-extended": ("INT4", LOW, INT4),
    "int4-low": ("INT4", LOW & 15, INT4),
    "int4-numbers": ("INT4", INT4.astype(np.int8), INT4),
    "uint2": ("UINT2", np.array([0, 3, 2], np.uint8), np.array([0, 3, 2])),
    "bool": ("BOOL", np.array([0, 2, 255], np.uint8).view(bool), np.array([0, 1, 1])),
}


def cast(folder, kind, rank=1):
    shape = [f"d{axis}" for axis in range(rank)]
    node = NODE("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    end = VALUE("x", getattr(TensorProto, kind), shape)
    return saved(folder / "m.onnx", [node], [end], [VALUE("y", TensorProto.FLOAT, shape)])


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_are_read_as_what_their_bytes_stand_for(tmp_path, case):
    kind, array, expected = ARRAYS[case]
    given, out = tmp_path / "given.npz", tmp_path / "out"
    np.savez(given, x=array)
    options = CompileOptions(input=str(given), inferences=4)
    compile_model(cast(tmp_path, kind, array.ndim), "mcm4", options, output=out)
    computed = run_folder(out, read_npz(given))["y"]
    assert np.array_equal(computed, array if expected is None else expected)


REFUSED = {
    "other-float": ("BFLOAT16", np.zeros(3, np.float16), "is float16, the input bfloat16"),
    "numbers": ("BFLOAT16", np.zeros(3, np.int16), "is int16, the input bfloat16"),
    "half-of-no-type": ("FLOAT16", np.zeros(3, "V2"), "the input float16"),
    "stated-other": ("FLOAT8E5M2", np.zeros(3, [("e4m3fn", "u1")]), "is e4m3fn"),
    "packed": ("INT4", np.array([0x31, 0x42], np.uint8), "entries of more than 4 bits"),
    "beyond": ("INT4", np.array([12], np.int8), "entries of more than 4 bits"),
    "fields": ("FLOAT", np.zeros(3, [("a", "f4"), ("b", "f4")]), "is a, b"),
    "wide": ("FLOAT", np.zeros(3, ">f8"), "is float64"),
    "bytes": ("STRING", np.array([b"\xff"]), "not UTF-8"),
    "dates": ("INT64", np.zeros(3, "M8[s]"), "is datetime64[s]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_of_other_types_are_refused(tmp_path, case):
    kind, array, reason = REFUSED[case]
    given = tmp_path / "given.npz"
    np.savez(given, x=array)
    with pytest.raises(CompileError) as caught:
        compile_model(cast(tmp_path, kind), "mcm4", CompileOptions(input=str(given)))
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-I052"
    assert reason in fault.message


@pytest.mark.parametrize("texts", [np.array(["aé", "b"], ">U2"), np.char.encode(["aé", "b"])])
def test_strings_of_any_width_and_order(tmp_path, texts):
    ends = [VALUE(name, TensorProto.STRING, [2]) for name in "xy"]
    model = saved(tmp_path / "m.onnx", [NODE("Identity", ["x"], ["y"])], ends[:1], ends[1:])
    given, out = tmp_path / "given.npz", tmp_path / "out"
    np.savez(given, x=texts)
    compile_model(model, "mcm4", output=out)
    assert run_folder(out, read_npz(given))["y"].tolist() == ["aé", "b"]
    assert check_folder(out, data=[RunData("given", read_npz(given))], seeds=()).holds


def test_what_a_run_writes_can_be_given_again(tmp_path):
    path = tmp_path / "x.npz"
    for array in (FP8, BF16, np.array(["aé"], object), np.float32(1)):
        write_npz(path, {"x": np.asarray(array)})
        found = read_npz(path)["x"]
        assert found.shape == np.shape(array)
        assert found.tobytes() == np.asarray(array).tobytes() or found.tolist() == ["aé"]
