"""A planner whose plans say what deep Q-learning finds for their pipelines as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from automap_dqn.pipeline_learning import learn_online
from mcm_compiler.contracts.planning import PlanRequest
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan, SearchRecord
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.deep_q.planner import AutoMapDqn, way_of_plan
from mcm_passes.parallelism.rules.graph_rules import rules_of


@dataclass(frozen=True)
class AutoMapDqnPipelines(AutoMapDqn):
    """The planner `auto-map-dqn`, whose records have what learning finds for the cuts as well."""

    name: ClassVar[str] = "auto-map-dqn-pipelines"
    summary: ClassVar[str] = "auto-map-dqn, with pipelines cut by deep Q-learning as well"

    def learned(
        self, request: PlanRequest, plan: ParallelPlan, exact: Mapping[str, SearchRecord]
    ) -> Iterator[SearchRecord]:
        """See `AutoMapDqn.learned`."""
        yield from super().learned(request, plan, exact)
        if (known := exact.get("PP")) is None:
            return
        classes = dimension_classes(request.model, rules_of(request.model))
        way = way_of_plan(request, classes, plan)
        request.progress(f"learning to cut {way.stages} stages")
        found = learn_online(way.problem, known.seed).pipeline
        if found is not None and found.length_s < float("inf"):
            share = found.length_s / known.objective - 1.0
            yield replace(known, method="dqn", objective=found.length_s, gap=share)
