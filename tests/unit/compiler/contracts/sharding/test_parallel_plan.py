"""Plan files."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.sharding.parallel_plan import (
    Degrees,
    ParallelPlan,
    PlannedPipeline,
    SearchRecord,
    check_plan,
    model_digest,
    plan_text,
    read_plan,
)
from mcm_compiler.diagnostics import CompileError


def _model(width: int = 6, scale: float = 1.0) -> ir.Model:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4, width]))
    weight = ir.tensor(np.full((width, 8), scale, dtype=np.float32), name="w")
    w = ir.Value(
        name="w", const_value=weight, type=ir.TensorType(weight.dtype), shape=ir.Shape([width, 8])
    )
    node = ir.node("MatMul", [x, w], name="n")
    node.outputs[0].name = "y"
    graph = ir.Graph(
        [x], node.outputs, nodes=[node], initializers=[w], opset_imports={"": 17}, name="g"
    )
    return ir.Model(graph, ir_version=8)


def _plan(**changes) -> ParallelPlan:
    fields = {
        "model": "zoo:net",
        "digest": model_digest(_model()),
        "target": "config-a",
        "objective": "cost",
        "training": True,
        "degrees": Degrees(2, 8, 3),
        "variables": {"w": 1},
        "inputs": {"x": 0},
        "pipeline": PlannedPipeline((3, 7), (8, 12), ("a", "b"), 4),
        "search": (SearchRecord("OPP", "dqn", 3, 1.5, 1.5, 0.0), SearchRecord("PP", "dp", 0, 2.0)),
    }
    return ParallelPlan(**(fields | changes))


def test_a_plan_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan_text(_plan()), "utf-8")
    assert read_plan(path) == _plan()
    assert json.loads(plan_text(_plan()))["variables"] == {"w": {"dim": 1}}
    simple = ParallelPlan("m", "d", "t")
    path.write_text(plan_text(simple), "utf-8")
    assert read_plan(path) == simple


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "format is 'other'"),
        (lambda d: d.update(version=2), "version is 2"),
        (lambda d: d.pop("degrees"), "degrees is missing"),
        (lambda d: d["variables"].update(w=1), "variables\\['w'\\] is 1, not an object"),
        (lambda d: d["variables"].update(w={"dim": -2}), "dim is -2"),
        (lambda d: d["variables"].update(w={"dim": 0.5}), "not a whole number"),
        (lambda d: d["pipeline"].update(cuts=[3]), "cuts has 1 cuts, 3 stages need 2"),
        (lambda d: d["pipeline"].update(device_cuts=[3, 3]), "device_cuts does not ascend"),
        (lambda d: d["pipeline"].update(first_ops=["a"]), "first_ops has not 2 names"),
        (lambda d: d.update(pipeline=None), "pipeline is null"),
        (lambda d: d["search"][0].update(seed=-1), "seed is -1"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, change, message):
    data = json.loads(plan_text(_plan()))
    change(data)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(CompileError, match=message) as caught:
        read_plan(path)
    assert caught.value.diagnostics[0].code == "MCM-S020"


def test_a_file_that_is_no_json_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    for text in ("{", "[NaN]", '{"a": 1, "a": 2}', "[" * 99):
        path.write_text(text, "utf-8")
        with pytest.raises(CompileError, match="MCM-S020"):
            read_plan(path)
    with pytest.raises(CompileError, match="MCM-S020"):
        read_plan(tmp_path / "nothing.json")


def test_a_plan_is_for_its_model_whatever_the_weights():
    check_plan(_plan(), _model(scale=2.0))
    with pytest.raises(CompileError, match="another model") as caught:
        check_plan(_plan(), _model(width=7), "plan.json")
    assert caught.value.diagnostics[0].code == "MCM-S021"
    assert caught.value.diagnostics[0].at == "plan.json"


def test_a_plan_divides_what_is_there():
    with pytest.raises(CompileError) as caught:
        check_plan(_plan(variables={"w": 2, "v": 0}, inputs={"x": 2}), _model())
    assert [fault.code for fault in caught.value.diagnostics] == ["MCM-S022"] * 3
    first, second, _ = (fault.message for fault in caught.value.diagnostics)
    assert "dim 2 of 'w', which has 2 dimensions" in first
    assert "'v', which the model does not have" in second
