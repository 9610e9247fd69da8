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
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.graph.trip_counts import assumed_trips, assumption_warning
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.problem.measured_names import planned_kernels


@dataclass(frozen=True)
class AnnotateCost(Pass):
    """Asks the target's cost model for the cost of every op that chips run.

    Measured times are compared with computed ones first, and what they have in common holds for
    ops that were not measured (`calibrated`).

    Op types without a formula are costed by the bytes that they move, and reported once each
    (MCM-P010), as are loops whose trip counts are assumed (MCM-P019). Notes say which experts of
    a token are priced (MCM-P085).
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
        for note in _experts(model.graph):
            context.report(note)
        return False


def _experts(graph: ir.Graph) -> list[Diagnostic]:
    chosen: dict[tuple[bool, int, int], list[ir.Node]] = {}
    for node in graph:
        routed = node.op_type in ("MoE", "QMoE") and node.domain == "com.microsoft"
        if not routed and not (
            node.op_type == "TopK"
            and any(use.node.op_type in ("Equal", "OneHot") for use in node.outputs[1].uses())
        ):
            continue
        scores = node.inputs[1 if routed else 0]
        sizes = static_dims(scores.shape) if scores is not None else None
        best = static_dims(node.outputs[0].shape)
        active = node.attributes.get_int("k", 1) if routed else best[-1] if best else 0
        if sizes and sizes[-1] > active > 0:
            chosen.setdefault((routed, sizes[-1], active), []).append(node)
    return [
        Diagnostic(
            "MCM-P085",
            f"{count_text(len(nodes), 'router chooses', 'routers choose')} {active} of {experts} "
            "experts for a token, "
            + (
                "and the costs are those of the experts that its tokens choose"
                if routed
                else "and the file runs all of them: the costs are those of all"
            ),
            at=f"node {quote(nodes[0].name or '')}",
        )
        for (routed, experts, active), nodes in chosen.items()
    ]
