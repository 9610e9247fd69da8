"""The planner that compares learning with exact plans: the plan is exact, whatever is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.components.target_loading import load_cluster, load_target
from mcm_compiler.contracts.planning import PlanOptions, PlanRequest, planner_of
from mcm_passes.parallelism.deep_q import planner
from mcm_passes.parallelism.plans.auto_map import AutoMap

CHAIN = """g (float[16,512] x, float[512,512] wu, float[512,512] wv) => (float[16,512] y) {
  a = MatMul(x, wu)
  b = Relu(a)
  y = MatMul(b, wv)
}"""


def plans(imported, target, **options):
    """What is planned exactly, and what with a record of learning."""
    asked = PlanOptions(**options)
    request = PlanRequest(model=imported(CHAIN), name="chain", target=target, options=asked)
    return AutoMap().plan(request), planner_of("auto-map-dqn").plan(request)


def by_method(plan, method):
    return {one.decides: one for one in plan.search if one.method == method}


def test_learning_is_recorded_next_to_the_exact_answer(imported) -> None:
    asked = {"operator": 2, "stages": 2, "objective": "paper-count", "seed": 3}
    exact, learned = plans(imported, load_cluster("config-a"), **asked)
    assert replace(learned.plan, search=()) == replace(exact.plan, search=())
    assert learned.estimates == exact.estimates
    found = by_method(learned.plan, "dqn")
    assert found.keys() == {"OPP", "ADP"}
    assert found["OPP"].gap == found["ADP"].gap == 0.0


def test_ops_over_chips_of_a_package(imported) -> None:
    exact, learned = plans(imported, load_target("mcm4"), operator=2)
    assert replace(learned.plan, search=()) == replace(exact.plan, search=())
    (record,) = by_method(learned.plan, "dqn").values()
    assert record.decides == "OPP"
    assert record.objective >= exact.plan.search[0].objective


def test_the_exact_answer_is_the_plan(imported, monkeypatch: pytest.MonkeyPatch) -> None:
    real = planner.search_decision

    def worse(*args, **options):
        return np.zeros_like(real(*args, **options))

    monkeypatch.setattr(planner, "search_decision", worse)
    exact, learned = plans(imported, load_cluster("config-a"), operator=1, stages=2)
    assert replace(learned.plan, search=exact.plan.search) == exact.plan
    assert by_method(learned.plan, "dqn")["ADP"].objective == 0.0
