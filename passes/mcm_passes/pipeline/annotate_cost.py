"""Estimates what each op costs on one chip of the target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.cost_choice import calibrated, no_time
from mcm_compiler.contracts.cost import NODE_COST, costs_in
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.trip_counts import assumed_trips, assumption_warning
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_passes.mapping.problem.measured_names import planned_kernels


@dataclass(frozen=True)
class AnnotateCost(Pass):
    """Asks the target's cost model for the cost of every op that chips run.

    Measured times are compared with computed ones first, and what they have in common holds for
    ops that were not measured (`calibrated`).

    Op types without a formula are costed by the bytes that they move, and reported once each
    (MCM-P010), as are loops whose trip counts are assumed (MCM-P019).
    """

    name: ClassVar[str] = "annotate_cost"
    summary: ClassVar[str] = "estimate flops, bytes and seconds of every op"
    provides: ClassVar[tuple[AnyKey, ...]] = (NODE_COST,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """See the class.

        Raises:
            CompileError: MCM-C002 for a time that is none.
        """
        kernels = planned_kernels(model.graph, FUSION_PLAN.find(model))
        context.target = calibrated(context.target, kernels)
        cost_model = costs_in(model.graph, context.target.cost_model())
        if assumed := assumed_trips(model.graph):
            context.report(assumption_warning(assumed))
        unmodelled: dict[tuple[str, str], list[ir.Node]] = {}
        NODE_COST.drop(model)
        for node in placeable_nodes(model.graph):
            cost = cost_model.node_cost(node)
            if not 0.0 <= cost.seconds < math.inf:
                raise no_time(cost_model.name, node, cost.seconds)
            NODE_COST.set(node, cost)
            if not cost.modelled:
                unmodelled.setdefault((node.domain, node.op_type), []).append(node)
        for (domain, op_type), nodes in unmodelled.items():
            op = quote(f"{domain}.{op_type}" if domain else op_type)
            count = "1 op" if len(nodes) == 1 else f"{len(nodes)} ops"
            context.report(
                Diagnostic(
                    "MCM-P010",
                    f"'{cost_model.name}' has no formula for {op}: {count} costed by bytes moved",
                    at=f"node {quote(nodes[0].name or '')}",
                )
            )
        return False
