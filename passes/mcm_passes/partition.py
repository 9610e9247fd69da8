"""The pass `partition`: which chip runs which op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler import spec_text
from mcm_compiler.cost import NODE_COST
from mcm_compiler.fusion import FUSION_PLAN
from mcm_compiler.partition import PARTITION, PARTITION_PROBLEM, Budget
from mcm_compiler.passes import AnyKey, Pass, PassContext
from mcm_compiler.registry import STRATEGIES
from mcm_passes.partitioning.problem_builder import build_problem
from mcm_passes.partitioning.solve import solve, with_chips
from mcm_passes.partitioning.untyped_values import untyped_note
from mcm_passes.placement_facts import PLACEMENT_FACTS


@dataclass(frozen=True)
class PartitionPass(Pass):
    """Builds the partitioning problem and solves it with a registered strategy.

    Attributes:
        strategy: text form of the strategy, such as `dp{orders=4}`; the compile's option
            `partitioner` where None.
    """

    name: ClassVar[str] = "partition"
    summary: ClassVar[str] = "place ops on chips, with a proven bound"
    requires: ClassVar[tuple[AnyKey, ...]] = (NODE_COST, FUSION_PLAN)
    provides: ClassVar[tuple[AnyKey, ...]] = (PARTITION_PROBLEM, PARTITION)
    invalidates: ClassVar[tuple[AnyKey, ...]] = PLACEMENT_FACTS

    strategy: str | None = None

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Attaches `PARTITION_PROBLEM` and `PARTITION`; the graph stays as it is.

        MCM-P014 notes values whose type nothing tells.

        Raises:
            CompileError: MCM-U001 to MCM-U003 for the strategy's text, and MCM-P001, P002, P004,
                P005, P007 to P009 and P013 as `build_problem`, `solve` and `with_chips`.
        """
        spec = spec_text.parse_one(self.strategy or context.options.partitioner)
        strategy = spec_text.instantiate(STRATEGIES.get(spec.name), spec)
        text = spec_text.print_one(spec.name, strategy)
        plan = FUSION_PLAN.get(model)
        problem = build_problem(model, context.target, context.options.routing, plan)
        if (note := untyped_note(model.graph, plan)) is not None:
            context.report(note)
        if context.options.chips is not None:
            problem = with_chips(problem, context.options.chips)
        partition = solve(
            problem,
            strategy,
            context.rng(f"partition/{text}"),
            Budget(context.options.samples, context.options.budget_s),
            strategy_text=text,
            cost_model=context.target.cost_model().name,
        )
        PARTITION_PROBLEM.set(model, problem)
        PARTITION.set(model, partition)
