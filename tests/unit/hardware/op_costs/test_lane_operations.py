"""The table of lane operations in docs/explanation/kernel-work.md is what the formulas give."""

from __future__ import annotations

import re
from pathlib import Path

import onnx_ir as ir

from mcm_hardware.chip.kernel_work import formula_work

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "kernel-work.md"
ROW = re.compile(r"^\| ([A-Z]\w+(?:, \w+)*) \| (\d+) \| the (result|first input) \|$", re.MULTILINE)
SIZES = {"result": 6, "first input": 60}


def _value(name: str, *shape: int) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))


def test_the_documented_lane_operations_are_those_of_the_formulas():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == 19
    for names, count, of in rows:
        for op_type in names.split(", "):
            inputs = [_value("x", 1, 6, 10), _value("y", 6)]
            node = ir.Node("", op_type, inputs, outputs=[_value("z", 1, 6)])
            assert formula_work(node).lane_ops == int(count) * SIZES[of], op_type
