"""The planner that learns pipelines, too: its plan is the exact one, whatever is learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from automap_dqn import planner
from automap_dqn.pipeline_learning import OnlineOutcome

from mcm_compiler.components.target_loading import load_cluster
from mcm_compiler.contracts.planning import PlanOptions, PlanRequest
from mcm_models.pipelines.problem import Pipeline
from mcm_passes.parallelism.plans.auto_map import AutoMap
from tests.unit.passes.parallelism.deep_q.test_planner import CHAIN, by_method


def plans(imported):
    """What is planned exactly, and what with a record of learning."""
    request = PlanRequest(
        model=imported(CHAIN),
        name="chain",
        target=load_cluster("config-a"),
        options=PlanOptions(operator=1, stages=2),
    )
    return AutoMap().plan(request).plan, planner.AutoMapDqnPipelines().plan(request).plan


def test_learned_cuts_are_recorded_next_to_the_exact_ones(imported) -> None:
    exact, learned = plans(imported)
    assert replace(learned, search=()) == replace(exact, search=())
    assert 0.0 <= by_method(learned, "dqn")["PP"].gap < 0.05


@pytest.mark.parametrize("found", [Pipeline((1,), (15,), 1.0), None])
def test_the_exact_answer_is_the_plan(imported, monkeypatch: pytest.MonkeyPatch, found) -> None:
    outcome = OnlineOutcome(found, 1, 1, 1.0, 0.1)
    monkeypatch.setattr(planner, "learn_online", lambda problem, seed: outcome)
    exact, learned = plans(imported)
    assert replace(learned, search=exact.search) == exact
    assert ("PP" in by_method(learned, "dqn")) == (found is not None)
