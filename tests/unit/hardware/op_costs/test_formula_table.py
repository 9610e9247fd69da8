"""Formulas of plug-ins: known as soon as they are registered, and asked about every op."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import OP_COSTS
from mcm_hardware.chip.kernel_work import formula_work
from mcm_hardware.chip.roofline import Roofline
from mcm_hardware.families.ring.ring_target import mcm4
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE, op_formulas
from mcm_hardware.op_costs.work import Work

NAMES = ("com.test::One", "com.test::Two", "several", "Softmax")


@pytest.fixture(autouse=True)
def _forget() -> Generator[None]:
    yield
    for name in NAMES:
        OP_COSTS.remove(name)


def _node(op_type: str, name: str) -> ir.Node:
    value = ir.Value(name="x", shape=ir.Shape([4, 8]), type=ir.TensorType(ir.DataType.FLOAT))
    return ir.node(op_type, [value], domain="com.test", name=name)


def _ten(_node: Any) -> Work:
    return Work(lane_ops=10)


def test_costs_of_several_plug_ins_combine() -> None:
    assert formula_work(_node("One", "a")) is None
    OP_COSTS.add("com.test::One", _ten, "a.py")
    assert formula_work(_node("One", "a")) == Work(lane_ops=10)
    OP_COSTS.add("several", {"com.test::Two": _ten, "com.test::Three": _ten}, "b.py")
    for op_type in ("One", "Two", "Three"):
        assert formula_work(_node(op_type, "a")) == Work(lane_ops=10)
    assert op_formulas()["", "Softmax"] is FORMULA_TABLE["", "Softmax"]
    OP_COSTS.remove("com.test::One")
    assert formula_work(_node("One", "a")) is None


@pytest.mark.parametrize("name", ["Softmax", "several"])
def test_a_cost_that_another_origin_gives_is_refused(name: str) -> None:
    OP_COSTS.add("com.test::Two", _ten, "a.py")
    OP_COSTS.add(name, {"com.test::Two": _ten} if name == "several" else _ten, "b.py")
    with pytest.raises(CompileError, match="two op cost registrations") as caught:
        op_formulas()
    assert caught.value.diagnostics[0].code == "MCM-X001"


@pytest.mark.parametrize("component", [3, {"com.test::Two": "n"}, {5: _ten}])
def test_what_is_no_formula_is_refused(component: Any) -> None:
    OP_COSTS.add("several", component, "a.py")
    with pytest.raises(CompileError, match="not a function as Formula") as caught:
        op_formulas()
    assert caught.value.diagnostics[0].code == "MCM-X008"


def test_ops_that_look_alike_are_not_taken_for_one() -> None:
    # A formula of a plug-in may look at more than shapes and attributes, such as at the name.
    OP_COSTS.add("com.test::One", lambda n: Work(lane_ops=10**6 * len(n.node.name)), "a.py")
    target = mcm4()
    costs = target.cost_model()
    assert isinstance(costs, Roofline)
    short, long = (costs.node_cost(_node("One", name)).flops for name in ("a", "four"))
    assert (short, long) == (10**6, 4 * 10**6)
