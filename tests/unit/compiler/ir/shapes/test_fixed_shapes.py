"""Ops whose inferred shapes are known to be wrong are those of the committed record."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.ir.shapes.fixed_shapes import doubtful_values

RECORD = Path(__file__).parents[4] / "data" / "inferred_shapes.json"


def test_results_of_every_op_in_the_record_are_doubted() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["cases"] > 1500
    assert record["contradicted"]
    from onnx.backend.test.case.node import collect_testcases

    wrong = {name for names in record["contradicted"].values() for name in names}
    cases = {case.name: case for case in collect_testcases(None) if case.name in wrong}
    assert set(cases) == wrong
    for name, case in cases.items():
        model = ir.from_proto(onnx.shape_inference.infer_shapes(case.model, data_prop=True))
        claimed = [v for v in model.graph.outputs if v.shape is not None]
        assert set(claimed) <= set(doubtful_values(model)), name
