"""Equality on random inputs and on the user's data: what is compared, allowed, and left out."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.comparison import equality, stock_options
from mcm_compiler.checking.comparison.equality import HALF_TOLERANCE, OVERRIDABLE_TOLERANCE
from mcm_compiler.checking.comparison.stock_options import unwritten_outputs
from mcm_compiler.checking.comparison.user_data import RunData
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.execution.runner import open_session, run_model

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def compiled(tmp_path):
    def run(text):
        proto = onnx.parser.parse_model(HEAD + text) if isinstance(text, str) else text
        result = compile_model(ir.from_proto(proto), "mcm4", output=tmp_path / "out")
        return result, tmp_path / "out", proto

    return run


def equality_of(report):
    """The step of a check that runs chips and model."""
    (step,) = (step for step in report.steps if step.name == "equality")
    return step


RELU = "m (float[4,6] x) => (float[4,6] y) { y = Relu (x) }"
# Runs with s = 8 alone.
RESHAPE = """m (float[4,6] x, int64[1] s) => (float[M,N] y) <int64[1] three = {3}> {
    d = Concat <axis = 0> (s, three)  r = Reshape (x, d)  y = Relu (r) }"""


def test_data_of_the_user_instead_of_random_inputs(compiled):
    _, folder, _ = compiled(RELU)
    data = RunData("mine", {"x": X}, {"y": np.maximum(X, 0)})
    report = check_folder(folder, seeds=(), data=[data])
    assert report.holds
    assert report.verification.seeds == ()
    assert report.verification.data_sets == ("mine",)
    told = "bit-identical to the source (1 output, 1 data set, onnxruntime); "
    told += "at the precision of the file; as the data sets expect"
    assert equality_of(report).detail.startswith(told)


def test_mcm_v022_data_that_expect_something_else(compiled):
    _, folder, _ = compiled(RELU)
    data = RunData("mine", {"x": X}, {"y": X})
    report = check_folder(folder, seeds=(0,), data=[data])
    assert [d.code for d in report.diagnostics] == ["MCM-V022"]
    assert all(output.bit_equal for output in report.verification.outputs)


def test_mcm_v010_data_that_do_not_fit(compiled):
    _, folder, _ = compiled(RELU)
    wrong = [RunData("a", {"x": X.T}), RunData("b", {}), RunData("c", {"x": X, "z": X})]
    report = check_folder(folder, data=wrong)
    assert [d.code for d in report.diagnostics] == ["MCM-V010"] * 3


def test_mcm_v021_a_model_that_runs_on_no_random_input(compiled):
    result, folder, proto = compiled(RESHAPE)
    (warning,) = [d for d in result.diagnostics if d.code == "MCM-V021"]
    assert warning.severity.value == "warning"
    report = check_folder(folder)
    assert report.verification.outputs == ()
    assert equality_of(report).detail.startswith("skipped: the model does not run on random inputs")
    feeds = {"x": X, "s": np.array([8])}
    expected = run_model(proto, feeds)
    checked = check_folder(folder, data=[RunData("mine", feeds, expected)])
    assert checked.holds
    assert checked.verification.outputs[0].bit_equal


def test_mcm_v023_random_outputs_are_named_and_not_compared(compiled):
    result, folder, _ = compiled(
        "m (float[4,6] x) => (float[4,6] y, float[4,6] z) {"
        " r = RandomNormalLike (x) n = Neg (r) y = Relu (n) z = Abs (x) }"
    )
    (note,) = [d for d in result.diagnostics if d.code == "MCM-V023"]
    assert "RandomNormalLike" in note.at
    report = check_folder(folder)
    assert report.holds
    assert [o.output for o in report.verification.outputs] == ["z"]
    assert report.verification.random_outputs == ("y",)
    assert "1 random output not compared" in equality_of(report).detail


# The empty tensor has another rank than the others, and adds 8 rows that nothing writes.
UNWRITTEN = """m (float[0,8,4,2] x, float[2,3,4] v) => (float[2,M,4] y, float[2,3,4] z) {
    s = SequenceConstruct (x, v) y = ConcatFromSequence <axis = 1> (s) z = Relu (v) }"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is filled by glibc's mallopt")
def test_mcm_v005_memory_that_onnxruntime_has_not_written(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(HEAD + UNWRITTEN).SerializeToString())
    feeds = {"x": np.zeros((0, 8, 4, 2), np.float32), "v": np.ones((2, 3, 4), np.float32)}
    (fault,) = unwritten_outputs(path, [feeds], ["y", "z"])
    assert fault.code == "MCM-V005"
    assert fault.at == "output 'y'"
    assert fault.hint


@pytest.mark.forks
def test_mcm_v005_takes_the_place_of_mcm_v020(compiled, monkeypatch):
    _, folder, _ = compiled(RELU)

    def broken(path, batches, outputs):
        return [Diagnostic("MCM-V005", "it differs", at=f"output {outputs}")]

    monkeypatch.setattr(equality, "run_chain", lambda *args, **more: [{"y": X}])
    report = check_folder(folder, seeds=(0,))
    # The report says that outputs are equal.
    assert [d.code for d in report.diagnostics] == ["MCM-V020", "MCM-V073"]
    monkeypatch.setattr(stock_options, "unwritten_outputs", broken)
    report = check_folder(folder, seeds=(0,))
    assert [d.code for d in report.diagnostics] == ["MCM-V005"]


def test_a_seeded_op_is_compared(compiled):
    _, folder, _ = compiled(
        "m (float[4,6] x) => (float[4,6] y) { r = RandomNormalLike <seed = 1.0> (x)"
        " y = Add (r, x) }"
    )
    assert check_folder(folder).verification.outputs[0].bit_equal


def test_sizes_as_inputs_are_tried_with_ones_and_zeros(compiled):
    result, folder, _ = compiled(
        "m (float[4,6] x, int64 n) => (float[K,6] y) <int64 lo = {0}, int64 step = {1}> {"
        " rows = Range (lo, n, step) g = Gather (x, rows) y = Relu (g) }"
    )
    assert result.verification.skipped is None
    assert check_folder(folder).holds


def test_tolerances_only_where_they_are_needed(compiled, tmp_path):
    half, _, _ = compiled("m (float16[4,6] x) => (float16[4,6] y) { y = Tanh (x) }")
    assert half.verification.outputs[0].bit_equal
    assert 0 < OVERRIDABLE_TOLERANCE < HALF_TOLERANCE
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.random.default_rng(0).random((6, 8), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [4, 6]), value("w", TensorProto.FLOAT, [6, 8])],
        [value("y", TensorProto.FLOAT, [4, 8])],
        [weight],
    )
    proto = helper.make_model(graph, ir_version=3, opset_imports=[helper.make_opsetid("", 17)])
    result = compile_model(ir.from_proto(proto), "mcm4", output=tmp_path / "weights")
    assert result.verification.holds
    report = check_folder(tmp_path / "weights", data=[RunData("mine", {"x": X})])
    assert report.holds


@pytest.mark.parametrize(
    "text",
    [
        # A sequence, a string and an optional cross boundaries.
        "m (float[4,6] x) => (float[8,6] y) { a = Relu (x) b = Neg (x)"
        " s = SequenceConstruct (a, b) y = ConcatFromSequence <axis = 0> (s) }",
        "m (string[3] x) => (string[N] y) { c = Identity (x) y = StringNormalizer (c) }",
        "m (float[4,6] x) => (int64[2,N] y, float[K] z) { i = NonZero (x) y = Neg (i)"
        " z, p = Unique (x) }",
        # Nothing to compute with, and nothing to say about.
        "m (float[0,6] x) => (float[0,6] y) { a = Relu (x) y = Neg (a) }",
    ],
)
def test_kinds_of_values_that_are_no_plain_tensors(compiled, text):
    _, folder, _ = compiled(text)
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    assert all(output.bit_equal for output in report.verification.outputs)


def test_small_floats_at_the_ends(compiled):
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Neg", ["f"], ["n"]),
            helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT8E5M2),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT8E5M2, [4])],
    )
    proto = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    _, folder, _ = compiled(proto)
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    assert report.verification.outputs[0].bit_equal


def test_inputs_that_are_the_same_are_not_tried_again(monkeypatch):
    """Without integers there is one way to fill inputs; a run may take seconds and gigabytes."""
    model = onnx.parser.parse_model(
        HEAD + "g (float[1] x) => (float[k] y) <int64[1] n = {1099511627776}>"
        " { e = Expand (x, n) y = Relu (e) }"
    )
    runs = []
    run = equality.run_large
    monkeypatch.setattr(equality, "run_large", lambda *a, **k: runs.append(a) or run(*a, **k))
    reference = ir.from_proto(model)
    with pytest.raises(CompileError, match="MCM-V002"):
        equality._run_on_random(open_session(model), reference, 0, ["y"])
    assert len(runs) == 1
