"""The planner `auto-map-dqn`: the plan of `auto-map`, next to what deep Q-learning finds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, cast

from mcm_compiler.components.cost_choice import calibrated
from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.planning import PlanAnswer, PlanRequest
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan, SearchRecord
from mcm_compiler.contracts.target import Target
from mcm_compiler.graph.constants import chain_nodes
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses, dimension_classes
from mcm_passes.parallelism.clusters.cluster_ways import (
    Batch,
    Way,
    choices,
    known_way,
    pipelining_of,
)
from mcm_passes.parallelism.decisions.count_oracle import best_decision
from mcm_passes.parallelism.decisions.decision_problem import adp_problem, count_objective
from mcm_passes.parallelism.deep_q.q_learning import INPUTS, OPERATORS, search_decision
from mcm_passes.parallelism.plans.auto_map import AutoMap, over_chips
from mcm_passes.parallelism.plans.operator_choice import LEAST_DEGREE, OperatorChoice
from mcm_passes.parallelism.rules.graph_rules import rules_of


@dataclass(frozen=True)
class AutoMapDqn(AutoMap):
    """The plan of `auto-map`; for each division, its records say what learning found as well.

    Attributes:
        linkage: whether linked dimensions are decided at once, or one at a time.
    """

    name: ClassVar[str] = "auto-map-dqn"
    summary: ClassVar[str] = "auto-map, and how far deep Q-learning ends from it"

    linkage: bool = True

    def plan(self, request: PlanRequest) -> PlanAnswer:
        """See `mcm_compiler.contracts.planning.Planner.plan`."""
        answer = super().plan(request)
        exact = {record.decides: record for record in answer.plan.search}
        learned = {one.decides: one for one in self.learned(request, answer.plan, exact)}
        records = [
            record
            for one in answer.plan.search
            for record in (one, learned.get(one.decides))
            if record is not None
        ]
        return replace(answer, found=replace(answer.plan, search=tuple(records)))

    def learned(
        self, request: PlanRequest, plan: ParallelPlan, exact: Mapping[str, SearchRecord]
    ) -> Iterator[SearchRecord]:
        """Records of what learning finds for decisions of the plan, next to the exact ones."""
        model, target = request.model, request.target
        classes = dimension_classes(model, rules_of(model))
        if isinstance(target, ClusterTarget):
            choice = way_of_plan(request, classes, plan).choice
        else:
            choice = over_chips(model, classes, cast("Target", target), request.options)
        if "OPP" in exact:
            request.progress(f"learning what to divide over {choice.degree} devices")
            yield self._operators(choice, exact["OPP"])
        if "ADP" in exact:
            request.progress("learning which inputs to divide")
            yield self._inputs(request, classes, plan, exact["ADP"])

    def _operators(self, choice: OperatorChoice, exact: SearchRecord) -> SearchRecord:
        assert choice.problem is not None
        assert choice.objective is not None
        found = search_decision(
            choice.problem,
            OPERATORS,
            exact.seed,
            choice.objective,
            forced=choice.forced,
            linkage=self.linkage,
        )
        count = count_objective(choice.problem)
        value = count.value(found) if choice.cost is None else choice.cost.seconds(found)
        best = exact.objective
        share = abs(value - best) / abs(best) if best else None
        return replace(exact, method="dqn", objective=value, gap=share)

    def _inputs(
        self,
        request: PlanRequest,
        classes: DimensionClasses,
        plan: ParallelPlan,
        exact: SearchRecord,
    ) -> SearchRecord:
        cluster = cast("ClusterTarget", request.target).cluster
        degrees, operator = plan.degrees, plan.degrees.operator
        servers = plan.servers or cluster.servers
        devices = servers * cluster.devices_per_server // operator
        cuts = plan.pipeline.device_cuts if plan.pipeline is not None else ()
        widest = max(b - a for a, b in pairwise((0, *(cut // operator for cut in cuts), devices)))
        replicas = max(request.options.data or 0, widest, LEAST_DEGREE, degrees.data)
        problem = adp_problem(request.model, replicas, classes)
        objective = count_objective(problem)
        found = search_decision(problem, INPUTS, exact.seed, objective, linkage=self.linkage)
        value, bound = objective.value(found), best_decision(problem, objective).bound
        equal = math.isclose(value, bound, rel_tol=1e-9, abs_tol=1e-12)
        gap = 0.0 if equal else (bound - value) / max(abs(bound), 1e-30)
        return replace(exact, method="dqn", objective=value, gap=gap)


def way_of_plan(request: PlanRequest, classes: DimensionClasses, plan: ParallelPlan) -> Way:
    """The combination of degrees that a plan for a cluster has, with its problem."""
    model, options = request.model, request.options
    target = cast("ClusterTarget", request.target)
    target = calibrated(target, ([node] for node in chain_nodes(model)))
    choose = choices(model, classes, target, plan.degrees.operator, options)
    pipelining, batch = pipelining_of(model, target, options), Batch(model, classes, options)
    way = known_way(pipelining, target.cluster, batch, choose, plan)
    assert way is not None, "the plan is one of the combinations"
    return way
