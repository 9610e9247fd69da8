"""Shapes that inference or the file got wrong never contradict what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import run_model
from mcm_compiler.ir.reading.importer import import_onnx
from mcm_compiler.options import CompileOptions

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, value = helper.make_node, helper.make_tensor_value_info
sequence = helper.make_tensor_sequence_value_info


def ints(name: str, *numbers: int, scalar: bool = False) -> onnx.TensorProto:
    array = np.array(numbers[0] if scalar else numbers, np.int64)
    return numpy_helper.from_array(array, name)


def save(path: Path, nodes, inputs, outputs, weights=(), infos=(), domains=()) -> Path:
    graph = helper.make_graph(
        nodes, "doubtful", inputs, outputs, list(weights), value_info=list(infos)
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


STFT_WEIGHTS = (
    ints("step", 160, scalar=True),
    ints("length", 320, scalar=True),
    numpy_helper.from_array(np.hanning(320).astype(np.float32), "window"),
)


def stft(path: Path) -> Path:
    """Without `onesided` onnx's inference says 320 bins, onnxruntime computes 161."""
    nodes = [
        node("STFT", ["x", "step", "window", "length"], ["f"]),
        node("ReduceSumSquare", ["f"], ["y"], axes=[-1], keepdims=0),
    ]
    outputs = [value("y", FLOAT, ["b", "t", "bins"])]
    return save(path, nodes, [value("x", FLOAT, [1, 16000, 1])], outputs, STFT_WEIGHTS)


def stft_shapes(path: Path) -> Path:
    """Shapes downstream are computed from the wrong one."""
    nodes = [
        node("STFT", ["x", "step", "window", "length"], ["f"]),
        node("Shape", ["f"], ["s"]),
        node("Neg", ["f"], ["g"]),
        node("Reshape", ["g", "flat"], ["h"]),
        node("Exp", ["h"], ["y"]),
        node("ConstantOfShape", ["s"], ["z"]),
        node("Add", ["z", "f"], ["w"]),
    ]
    outputs = [value("y", FLOAT, ["m", "n"]), value("w", FLOAT, ["a", "b", "c", "d"])]
    weights = (*STFT_WEIGHTS, ints("flat", 1, -1))
    return save(path, nodes, [value("x", FLOAT, [1, 16000, 1])], outputs, weights)


def foreign(path: Path) -> Path:
    """A declared shape of an op that onnx knows nothing of; onnxruntime only warns of it."""
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("FusedMatMul", ["a", "w"], ["b"], domain="com.microsoft"),
        node("Neg", ["b"], ["y"]),
    ]
    weight = numpy_helper.from_array(np.ones((5, 6), np.float32), "w")
    return save(
        path, nodes, [value("x", FLOAT, [4, 5])], [value("y", FLOAT, ["u", "v"])], [weight],
        [value("b", FLOAT, [4, 9])], ["com.microsoft"],
    )  # fmt: skip


def lenient(path: Path) -> Path:
    """A declared size of what depends on data."""
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("NonZero", ["a"], ["n"]),
        node("Cast", ["n"], ["c"], to=FLOAT),
        node("Neg", ["c"], ["y"]),
    ]
    return save(
        path, nodes, [value("x", FLOAT, [4, 5])], [value("y", FLOAT, ["p", "q"])],
        infos=[value("c", FLOAT, [2, 7])],
    )  # fmt: skip


def _mapped(path: Path, body_shape, infos=(), rows: int = 2) -> Path:
    body = helper.make_graph(
        [node("Exp", ["e"], ["r"])], "body",
        [value("e", FLOAT, body_shape)], [value("r", FLOAT, body_shape)],
    )  # fmt: skip
    nodes = [
        node("SequenceConstruct", ["x", "z"], ["s"]),
        node("SequenceMap", ["s"], ["m"], body=body),
        node("SequenceAt", ["m", "i"], ["q"]),
        node("Neg", ["q"], ["y"]),
    ]
    inputs = [value("x", FLOAT, [4, 5]), value("z", FLOAT, [rows, 5])]
    one = ints("i", 1, scalar=True)
    return save(path, nodes, inputs, [value("y", FLOAT, ["k", "l"])], [one], infos)


def mapped_body(path: Path) -> Path:
    """The body declares another rank than its sequence has; onnxruntime runs it."""
    return _mapped(path, [1], rows=4)


def mapped_elements(path: Path) -> Path:
    """The file says that all elements are alike."""
    return _mapped(path, None, [sequence("m", FLOAT, [4, 5])])


def grown_state(path: Path) -> Path:
    """A loop's state grows, and the body declares it as it was at first."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Concat", ["t", "a"], ["u"], axis=0)], "body",
        [value("n", INT, []), value("c", BOOL, []), value("t", FLOAT, [4, 5])],
        [value("d", BOOL, []), value("u", FLOAT, ["m", 5])],
    )  # fmt: skip
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Loop", ["trips", "go", "a"], ["l"], body=body),
        node("Neg", ["l"], ["y"]),
    ]
    weights = [ints("trips", 3, scalar=True), numpy_helper.from_array(np.array(True), "go")]
    outputs = [value("y", FLOAT, [4, 5])]
    return save(path, nodes, [value("x", FLOAT, [4, 5])], outputs, weights)


def pools(path: Path) -> Path:
    """Both round up; onnxruntime leaves a window out that would begin in the padding behind."""
    rounding = {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1}
    nodes = [
        node("MaxPool", ["x"], ["a"], **rounding),
        node("AveragePool", ["a"], ["b"], **rounding),
        node("Shape", ["b"], ["s"]),
        node("Cast", ["s"], ["c"], to=FLOAT),
        node("ReduceMax", ["c"], ["n"], keepdims=0),
        node("Mul", ["b", "n"], ["y"]),
    ]
    return save(path, nodes, [value("x", FLOAT, [1, 1, 9])], [value("y", FLOAT, ["i", "j", "k"])])


def scaled(path: Path) -> Path:
    """20 times 1.3 as float32 is 25 in onnx's inference, and 26 in onnxruntime."""
    nodes = [
        node("Resize", ["x", "", "scales"], ["a"], mode="linear"),
        node("Relu", ["a"], ["b"]),
        node("Neg", ["b"], ["y"]),
    ]
    scales = numpy_helper.from_array(np.array([1, 1, 1.3], np.float32), "scales")
    return save(
        path, nodes, [value("x", FLOAT, [1, 1, 20])], [value("y", FLOAT, ["i", "j", "k"])], [scales]
    )


def normalised(path: Path) -> Path:
    """As many texts as are no stop words; the file says how many those of its author were."""
    nodes = [node("StringNormalizer", ["x"], ["y"], stopwords=["monday"], is_case_sensitive=1)]
    text = TensorProto.STRING
    return save(path, nodes, [value("x", text, [4])], [value("y", text, [3])])


MODELS = (
    stft, stft_shapes, foreign, lenient, mapped_body, mapped_elements, grown_state, pools, scaled,
    normalised,
)  # fmt: skip


def _compile(path: Path, folder: Path, **options) -> CompileResult:
    """One op a chip where that goes, so that every shape stands at a boundary."""
    given = CompileOptions(partitioner="acme_even", replicas=1, inferences=4, **options)
    return compile_model(path, "mcm16", given, output=folder)


@pytest.mark.parametrize("make", MODELS)
def test_what_onnxruntime_computes_counts(make, tmp_path: Path) -> None:
    result = _compile(make(tmp_path / "m.onnx"), tmp_path / "out")
    assert result.verification is not None
    assert result.verification.outputs
    assert result.verification.holds
    assert check_folder(tmp_path / "out").holds


@pytest.mark.parametrize("make", MODELS)
def test_no_static_shape_contradicts_a_run(make, tmp_path: Path) -> None:
    """The oracle: every value of the original as an output of one run in onnxruntime."""
    path = make(tmp_path / "m.onnx")
    model, _ = import_onnx(path)
    proto = onnx.load(path)
    del proto.graph.value_info[:]
    named = {output.name for output in proto.graph.output}
    values = [v for n in model.graph for v in n.outputs if v.name and v.uses()]
    for found in values:
        if found.name not in named:
            proto.graph.output.add().name = found.name or ""
    results = run_model(proto, random_inputs(model, 3), [v.name or "" for v in values])
    for found in values:
        result = results[found.name or ""]
        for array in result if isinstance(result, list) else [result]:
            assert found.shape is not None or isinstance(result, list)
            for dim, size in zip(found.shape or (), array.shape, strict=found.shape is not None):
                assert not isinstance(dim, int) or dim == size, found


def test_the_note_names_value_and_shapes(tmp_path: Path) -> None:
    _, notes = import_onnx(foreign(tmp_path / "m.onnx"))
    (note,) = [n for n in notes if n.code == "MCM-I050"]
    assert "'b' is [4, 6] and not [4, 9]" in note.message
    assert "FusedMatMul" in (note.at or "")


def reshaped_by_input(path: Path) -> Path:
    nodes = [
        node("Reshape", ["x", "shape"], ["r"]),
        node("MatMul", ["r", "w"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    inputs = [value("x", FLOAT, ["n"]), value("shape", INT, [2])]
    weight = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    return save(path, nodes, inputs, [value("y", FLOAT, None)], [weight])


def test_an_own_input_tells_shapes_and_is_compared(tmp_path: Path) -> None:
    path = reshaped_by_input(tmp_path / "m.onnx")
    file = tmp_path / "x.npz"
    np.savez(file, x=np.arange(48, dtype=np.float32), shape=np.array([6, 8]))
    result = _compile(path, tmp_path / "out", input=str(file))
    assert result.verification is not None
    assert result.verification.data_sets == ("x.npz",)
    assert result.verification.holds
    assert result.problem is not None
    sizes = dict(zip(result.problem.tensor_names, result.problem.tensor_bytes, strict=True))
    assert sizes["r"] == 6 * 8 * 2
    # Without it there is nothing that the model runs on, and sizes are unknown.
    blind = _compile(path, tmp_path / "blind", shapes={"x": (48,)})
    assert blind.verification is not None
    assert blind.verification.skipped


@pytest.mark.parametrize(
    ("arrays", "code", "part"),
    [
        ({"q": np.zeros(3, np.float32)}, "MCM-I051", "no input 'q'"),
        ({"x": np.zeros(3, np.float64)}, "MCM-I052", "is float64, the input float32"),
        ({"shape": np.zeros(3, np.int64)}, "MCM-I052", "has the shape [3], the input [2]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays, code, part, tmp_path: Path) -> None:
    path = reshaped_by_input(tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(CompileError) as caught:
        _compile(path, tmp_path / "out", input=str(tmp_path / "x.npz"))
    (fault,) = [d for d in caught.value.diagnostics if d.code == code]
    assert part in fault.message


def test_an_array_that_declares_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    )
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(CompileError) as caught:
        _compile(reshaped_by_input(tmp_path / "m.onnx"), tmp_path / "out",
                 input=str(tmp_path / "x.npz"))  # fmt: skip
    assert caught.value.diagnostics[0].code == "MCM-U020"
    assert "declares more than it holds" in caught.value.diagnostics[0].message
