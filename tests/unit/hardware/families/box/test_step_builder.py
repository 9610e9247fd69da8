"""Steps made from ONNX graphs."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, BoxTarget, StepProblem
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.states import StatePair
from mcm_compiler.placed.device_costs import load_box
from mcm_hardware.families.box.box_package import BoxPackage

BOX = """
family = "box"
[copy]
host_bandwidth_gb_per_s = 8
device_bandwidth_gb_per_s = 6
latency_us = 20
[kind.slow]
role = "cpu"
memory_mib = 100
memory_bandwidth_gb_per_s = 1
peak_tflop_per_s = 0.001
launch_overhead_us = 1
{slow}
[kind.fast]
role = "gpu"
memory_mib = 100
memory_bandwidth_gb_per_s = 10
peak_tflop_per_s = 1
launch_overhead_us = 4
{fast}
[[device]]
kind = "slow"
[[device]]
kind = "fast"
count = 2
"""

TRAINING = """<ir_version: 10, opset_import: ["" : 20]>
step (float[4, 8] x, float[8, 8] w, float[8] m)
  => (float[8, 8] w_next, float[8] m_next, float[32] y)
<float[8, 1] scale = {1, 1, 1, 1, 1, 1, 1, 1}, int64[1] flat = {32}, int64[1] axis = {0}> {
  [fixed] fixed = Transpose(scale)
  ["layer.0/MatMul"] h = MatMul(x, w)
  ["layer.1/Mul"] g = Mul(h, fixed)
  [view] y = Reshape(g, flat)
  [update] w_next = Sub(w, fixed)
  [fresh] m_new = ReduceSum <keepdims = 0> (h, axis)
  [next] m_next = Identity(m_new)
}
"""


def _box(slow: str = "", fast: str = "") -> BoxTarget:
    return BoxPackage.from_text("mine", BOX.format(slow=slow, fast=fast))


def _model(text: str) -> ir.Model:
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    return ir.from_proto(proto)


def _training(box: BoxTarget) -> StepProblem:
    pairs = (StatePair("w", "w_next"), StatePair("m", "m_next"))
    return box.step_problem(_model(TRAINING), pairs)


def test_ops_of_a_training_step() -> None:
    step = _training(_box())
    assert step.names == (
        "x", "w", "m", "layer.0/MatMul", "layer.1/Mul", "view", "update", "fresh", "next"
    )  # fmt: skip
    assert step.op_types[:3] == (INPUT, VARIABLE, VARIABLE)
    value = {name: v for v, name in enumerate(step.value_names)}
    assert step.producer[value["fixed"]] == -1
    assert step.value_bytes[value["fixed"]] == 32
    assert "scale" not in value
    assert step.view_of[value["y"]] == value["g"]
    assert np.flatnonzero(step.stays).tolist() == [value["w"], value["m"]]
    kept = {step.value_names[v] for v in np.flatnonzero(step.kept)}
    assert kept == {"y", "w_next", "m_next"}


def test_variables_are_updated_in_place_where_they_are_read() -> None:
    step = _training(_box())
    op = {name: n for n, name in enumerate(step.names)}
    value = {name: v for v, name in enumerate(step.value_names)}
    assert step.view_of[value["w_next"]] == value["w"]
    assert step.together[op["w"]] == step.together[op["update"]]
    # The next value of m does not read m: it lies beside it, and passes through a view.
    assert step.view_of[value["m_new"]] == -1
    assert step.view_of[value["m_next"]] == value["m_new"]
    assert step.together[op["m"]] == step.together[op["fresh"]] == step.together[op["next"]]
    assert step.num_groups == 9 - 1 - 2


def test_times_and_devices() -> None:
    step = _training(_box())
    op = {name: n for n, name in enumerate(step.names)}
    assert step.allowed[op["x"]].tolist() == [True, False, False]
    assert step.allowed[3:].all()
    # 2 * 4 * 8 * 8 operations at 1 GFLOP/s, or 4 * (32 + 64 + 32) bytes at 10 GB/s.
    assert step.time_s[op["layer.0/MatMul"]] == pytest.approx([1e-6 + 512e-9, 4e-6 + 51.2e-9])
    assert (step.time_s[[op["x"], op["w"], op["view"]]] == 0).all()


def test_layers_and_topological_order() -> None:
    step = _training(_box())
    op = {name: n for n, name in enumerate(step.names)}
    assert step.layer[op["layer.0/MatMul"]] == 0
    assert step.layer[op["layer.1/Mul"]] == 1
    assert (step.edges[:, 0] < step.edges[:, 1]).all()


def test_ops_that_a_kind_cannot_run_have_no_time_there() -> None:
    step = _training(_box(fast='unsupported_ops = ["Sub"]'))
    op = {name: n for n, name in enumerate(step.names)}
    assert np.isinf(step.time_s[op["update"], 1])
    # The variable goes where its update may run.
    for name in ("update", "w"):
        assert step.allowed[op[name]].tolist() == [True, False, False]


def test_ops_that_no_device_runs() -> None:
    lists = 'unsupported_ops = ["Sub", "MatMul"]'
    with pytest.raises(CompileError) as caught:
        _training(_box(slow=lists, fast=lists))
    first, second = caught.value.diagnostics
    assert (first.code, second.code) == ("MCM-D010", "MCM-D010")
    assert "MatMul" in first.message
    assert "of which there are 1" in first.message
    assert "update" in (second.at or "")


def test_values_of_unknown_size() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    open (float[n, 8] x) => (float[n, 8] y) { [relu] h = Relu(x)  [tanh] y = Tanh(h) }
    """
    with pytest.raises(CompileError) as caught:
        _box().step_problem(_model(text))
    assert [d.code for d in caught.value.diagnostics] == ["MCM-D011"] * 3
    assert "'h'" in caught.value.diagnostics[1].message


def test_names_become_distinct() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    same (float[8] x) => (float[8] y) { [x] h = Relu(x)  [x] y = Tanh(h) }
    """
    step = _box().step_problem(_model(text))
    assert step.names == ("x", "x (2)", "x (3)")


def test_built_problem_runs() -> None:
    target = load_box("box-2gpu")
    step = _training(target)
    place = np.where(step.allowed[:, 1], 1, 0).astype(np.int32)
    results = target.step_evaluator(step).evaluate(place[None])
    assert results.fits.all()
    # The input is copied to the GPU, and there is no other copy.
    assert results.copy_s[0] == pytest.approx([20e-6 + 128 / 8e9, 0, 0])
    ops = step.time_s[:, 1].sum()
    assert results.busy_s[0, 1] == pytest.approx(ops)
