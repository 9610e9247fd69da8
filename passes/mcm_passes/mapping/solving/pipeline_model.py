"""How the built-in passes place a model, for whoever re-proves a certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.contracts.target import Routing, Target
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.models import evaluate
from mcm_passes.mapping.placement_constraints.pins import known_names, match_pins
from mcm_passes.mapping.problem.partition_problem import build_problem


class PipelineModel:
    """Units along a pipeline of devices; the busiest resource sets the period."""

    def problem(
        self,
        model: ir.Model,
        target: Target,
        routing: Routing,
        plan: FusionPlan,
        pins: Sequence[tuple[str, int]],
    ) -> PartitionProblem:
        """As `build_problem`; costs come from the target alone, whatever the graph carries."""
        wanted = match_pins(pins, known_names(model, plan)) if pins else {}
        return build_problem(model, target, routing, plan, pins=wanted)

    def refusal(self, problem: PartitionProblem) -> str:
        """As `impossible`, the first it names."""
        faults = impossible(problem)
        return faults[0].code if faults else ""

    def period_s(self, problem: PartitionProblem, placement: Ints) -> float:
        """As `fast_model.evaluate`; infinite where rules are broken or no memory plan can fit.

        What the estimate of memory leaves out counts: a placement may be planned though it does.
        """
        if not evaluate(problem.at_need(), placement).valid:
            return math.inf
        return evaluate(problem, placement).period_s


PIPELINE_MODEL = PipelineModel()
