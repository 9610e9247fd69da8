"""How the built-in passes place a model, for whoever re-proves a certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionPlan
from mcm_compiler.contracts.mapping import KnowsChannels, KnowsObjectives
from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.contracts.target import Routing, Target
from mcm_compiler.machines.machine import Machine
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.models import evaluate, mapping_of
from mcm_passes.mapping.placement_constraints.pins import known_names, match_pins
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.unit_energies import with_energy
from mcm_passes.mapping.solving.lowered_evaluator import LoweredEvaluator, evaluator_of


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

    def with_energy(
        self, problem: PartitionProblem, model: ir.Model, target: Target, plan: FusionPlan
    ) -> PartitionProblem:
        """As `unit_energies.with_energy`."""
        return with_energy(problem, model, target, plan)

    def refusal(self, problem: PartitionProblem) -> str:
        """As `impossible`, the first it names."""
        faults = impossible(problem)
        return faults[0].code if faults else ""

    def period_s(self, problem: PartitionProblem, placement: Ints) -> float:
        """As `MachineModel.evaluate`; infinite where rules are broken or no memory plan can fit.

        What the estimate of memory leaves out counts: a placement may be planned though it does.
        """
        if not evaluate(problem.at_need(), placement).valid:
            return math.inf
        return evaluate(problem, placement).period_s

    def lowering_evaluator(
        self,
        model: ir.Model,
        problem: PartitionProblem,
        target: Target,
        plan: FusionPlan,
        pipelines: int,
    ) -> BatchEvaluator | None:
        """As `evaluator_of`, for targets that have none of their own."""
        FUSION_PLAN.set(model, plan)
        evaluator = evaluator_of(model, problem, target)
        if not isinstance(evaluator, LoweredEvaluator):
            return None
        return evaluator.on_share(problem, pipelines)

    def latency_s(self, problem: PartitionProblem, placement: Ints) -> float | None:
        """As the mapping of the problem's family gives it."""
        mapping = mapping_of(problem)
        if not isinstance(mapping, KnowsObjectives):
            return None
        return mapping.latency_s(problem, placement)

    def channel_bytes(
        self, problem: PartitionProblem, placement: Ints, machine: Machine
    ) -> Longs | None:
        """As the mapping of the problem's family counts them."""
        mapping = mapping_of(problem)
        if not isinstance(mapping, KnowsChannels):
            return None
        return mapping.channel_bytes(problem, placement, machine)

    def objective_value(
        self, problem: PartitionProblem, placement: Ints, objective: Objective
    ) -> float:
        """Energy, latency, or the period, which is infinite beyond a limit on the latency."""
        mapping = mapping_of(problem)
        if objective.aim == "energy" and isinstance(mapping, KnowsObjectives):
            # What an estimate of memory would stream counts, as in the period.
            valid = evaluate(problem.at_need(), placement).valid
            return mapping.energy_j(problem, placement) if valid else math.inf
        period_s = self.period_s(problem, placement)
        latency_s = self.latency_s(problem, placement)
        if objective.aim == "period" or latency_s is None:
            return period_s
        if objective.aim == "latency":
            return latency_s if math.isfinite(period_s) else math.inf
        return period_s if latency_s <= objective.latency_limit_s else math.inf


PIPELINE_MODEL = PipelineModel()
