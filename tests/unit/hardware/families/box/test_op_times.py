"""Times of ops where a cost model was chosen for a kind of device."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.api import import_named
from mcm_compiler.components.target_loading import package_from_text
from mcm_compiler.placed.device_costs import load_box, option_place, with_device_costs
from mcm_hardware.chip.roofline import device_roofline
from mcm_hardware.families.box.box_file import built_in_kind
from mcm_hardware.families.box.step_builder import op_times

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
step (float[4, 8] x, float[8, 8] w) => (float[32] y, float[4, 8] z, float[4, 8] v)
<int64[1] flat = {32}> {
  [product] h = MatMul(x, w)
  [view] y = Reshape(h, flat)
  [same] z = Identity(h)
  [last] v = Tanh(h)
}
"""
KINDS = (built_in_kind("haswell"), built_in_kind("k40"))


def _model() -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(MODEL)))


def _tabled(rows: str) -> Any:
    read = {"t.csv": f"node,op_type,inputs,type,seconds\n{rows}".encode()}.__getitem__
    texts = {"k40": "table{file=t.csv}"}
    return with_device_costs(load_box("box-2gpu"), texts, read, option_place("--cost-model"))


def _times(target: Any) -> dict[str, list[float]]:
    step = target.step_problem(_model())
    return dict(zip(step.names, step.time_s.tolist(), strict=True))


def test_rows_by_name_and_by_kind_of_op_hold() -> None:
    plain = _times(load_box("box-2gpu"))
    found = _times(_tabled("product,,,,1e-3\n,Tanh,4x8,float,2e-3\n,Tanh,4x9,float,3\n"))
    assert found["product"] == [plain["product"][0], 1e-3]
    assert found["last"] == [plain["last"][0], 2e-3]
    assert found["x"] == [0.0, 0.0]


def test_views_take_time_only_where_it_was_measured() -> None:
    found = _times(_tabled("product,,,,1e-3\n"))
    assert (found["view"], found["same"]) == ([0.0, 0.0], [0.0, 0.0])
    found = _times(_tabled("view,,,,1e-3\n,Identity,4x8,float,2e-3\n"))
    assert (found["view"], found["same"]) == ([0.0, 1e-3], [0.0, 2e-3])


def test_what_a_kind_cannot_run_was_not_measured_there() -> None:
    text = load_box("box-2gpu").source_text.replace('kind = "k40"', 'kind = "mine"') + (
        "[kind.mine]\nrole = 'gpu'\nmemory_mib = 100\nmemory_bandwidth_gb_per_s = 50\n"
        "peak_tflop_per_s = 3\nunsupported_ops = ['Tanh']\n[cost]\nmine = 'table{file=t.csv}'\n"
    )
    read = {"t.csv": b"node,seconds\nlast,1\nproduct,1\n"}.__getitem__
    found = _times(package_from_text("mine", text, None, read))
    assert found["last"][1] == np.inf
    assert found["product"][1] == 1.0


@pytest.mark.parametrize("model", ["zoo:bert-tiny", "zoo:rnnlm"])
def test_the_own_model_by_name_gives_the_own_times(model: str) -> None:
    imported, _ = import_named(model, {}, {})
    nodes = list(imported.graph)
    own = op_times(nodes, KINDS, {})
    named = op_times(nodes, KINDS, {kind.name: device_roofline(kind) for kind in KINDS})
    assert np.array_equal(own, named)
    assert (own > 0).any()
