"""Plans for packages of chips: what is asked of ops is kept to."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.planning import PlanOptions, PlanRequest
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan
from mcm_compiler.diagnostics import CompileError
from mcm_passes.parallelism.plans.auto_map import plan_for_ring

CHAIN = """g (float[{rows},512] x, float[512,512] wu, float[512,512] wv) => (float[{rows},512] y) {{
  a = MatMul(x, wu)
  b = Relu(a)
  y = MatMul(b, wv)
}}"""


def planned(model: ir.Model, **options) -> ParallelPlan:
    asked = PlanOptions(**options)
    target = load_target("mcm4")
    request = PlanRequest(model=model, name="chain", target=target, options=asked)
    return plan_for_ring(request).plan


@pytest.mark.parametrize("degree", [None, 1])
@pytest.mark.parametrize(
    ("shard", "code"), [("wu=0", "MCM-S025"), ("none=0", "MCM-S024"), ("wu", "MCM-S023")]
)
def test_constraints_are_read_where_nothing_is_divided(
    imported, degree: int | None, shard: str, code: str
) -> None:
    with pytest.raises(CompileError, match=code):
        planned(imported(CHAIN.format(rows=4)), operator=degree, shards=(shard,))


def test_what_has_to_be_divided_is_divided(imported) -> None:
    plan = planned(imported(CHAIN.format(rows=4)), operator=2, shards=("wu=0",))
    assert plan.variables["wu"] == 0


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_chips_divide_ops_and_no_batch(imported, rows: int) -> None:
    """What is left whole was taken to cost a share of the batch, so that no op was divided."""
    plan = planned(imported(CHAIN.format(rows=rows)), operator=2)
    assert any(dim >= 0 for dim in plan.variables.values())
    assert plan.inputs["x"] == -1
