"""The passes before `parallelize`: a smaller graph, its kernels, and their costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.cost_choice import calibrated, no_time
from mcm_compiler.components.op_support import host_ops
from mcm_compiler.contracts.cost import NODE_COST, costs_in
from mcm_compiler.contracts.fusion import FUSION_PLAN, HOST_GROUP, FusionGroup, FusionPlan
from mcm_compiler.contracts.target import HasChipKinds, Target, kind_names_of
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.graph.trip_counts import assumed_trips, assumption_warning
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.registry import FUSION_RULES
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.problem.measured_names import planned_kernels
from mcm_passes.rewriting.fusion_rules import fusion_rules
from mcm_passes.rewriting.fusion_rules.grouping import FusionGraph, Grouping
from mcm_passes.rewriting.fusion_rules.host_groups import host_groups
from mcm_passes.rewriting.simplification.constant_folding import fold_constants, fold_static_shapes
from mcm_passes.rewriting.simplification.redundancy import (
    make_range_operands_scalar,
    merge_common_subexpressions,
    merge_duplicate_weights,
    remove_dead_code,
    remove_identities,
)

MAX_ROUNDS = 8
"""Rounds until nothing changes are two or three; more only where folding ran out of its limits."""


@dataclass(frozen=True)
@checked(max_fold_bytes=at_least(0))
class Simplify(Pass):
    """Folds constants, merges duplicates, and removes identities and dead code.

    Exact: onnxruntime with graph optimisations off gives the same bits before and after.

    Attributes:
        max_fold_bytes: no constant above this size is computed or compared, so that no weight is
            ever turned into a changed copy of itself.

    Raises:
        ValueError: if `max_fold_bytes` is negative.
    """

    name: ClassVar[str] = "simplify"
    summary: ClassVar[str] = "fold constants, merge duplicates, drop identities and dead code"
    looks_at_target: ClassVar[bool] = False

    max_fold_bytes: int = 1 << 20

    def run(self, model: ir.Model, context: PassContext) -> None:
        """See the class."""
        source = SOURCE.find(model)
        shape_only = source is not None and source.shape_only
        for _ in range(MAX_ROUNDS):
            changes = remove_identities(model.graph)
            changes += fold_static_shapes(model.graph)
            changes += fold_constants(model, self.max_fold_bytes, keep_placeholders=shape_only)
            changes += make_range_operands_scalar(model.graph)
            changes += remove_dead_code(model.graph)
            changes += merge_duplicate_weights(model.graph, self.max_fold_bytes)
            changes += merge_common_subexpressions(model.graph)
            if not changes:
                break


@dataclass(frozen=True)
@checked(max_group=at_least(1))
class Fuse(Pass):
    """Groups ops that share a kernel launch and keep their intermediate results on the engine.

    Attributes:
        max_group: most ops of a group; 1 makes no groups.
        rules: names of the rules to apply; their order is fixed.

    Raises:
        ValueError: if `max_group` is below 1, or a rule is unknown.
    """

    name: ClassVar[str] = "fuse"
    summary: ClassVar[str] = "plan which ops run as one kernel"
    provides: ClassVar[tuple[AnyKey, ...]] = (FUSION_PLAN,)

    max_group: int = 64
    rules: tuple[str, ...] = field(default_factory=lambda: tuple(fusion_rules()))

    def __post_init__(self) -> None:
        known = fusion_rules()
        unknown = [name for name in self.rules if name not in known]
        if unknown:
            raise ValueError(f"unknown rule '{unknown[0]}'; known: {', '.join(known)}")

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """See the class.

        Ops that chips lack and the host runs are groups of their own (`host_groups`), with a
        MCM-T033 for each kind.

        Raises:
            CompileError: MCM-T030 to MCM-T032 for ops that nobody can or shall run.
        """
        nodes = placeable_nodes(model.graph)
        found, notes = host_ops(context.target, nodes, context.options)
        for note in notes:
            context.report(note)
        hosted: Sequence[Sequence[ir.Node]] = ()
        if found:
            costs = context.target.cost_model()
            hosted = host_groups(
                model.graph, found.keys(), lambda node: costs.node_cost(node).seconds == 0
            )
        hosted = [*hosted, *_apart(context.target, [node for node in nodes if node not in found])]
        FUSION_PLAN.set(model, plan_fusion(model.graph, self.max_group, self.rules, hosted))
        return False


def _apart(target: Target, nodes: Sequence[ir.Node]) -> list[list[ir.Node]]:
    """Ops that only some kinds of chips run: in a kernel with others no kind might run it."""
    names = kind_names_of(target)
    if not names or not isinstance(target, HasChipKinds):
        return []
    kinds = range(len(names))
    return [[node] for node in nodes if not all(target.runs(kind, node) for kind in kinds)]


def plan_fusion(
    graph: ir.Graph,
    max_group: int = 64,
    rules: Sequence[str] | None = None,
    hosted: Sequence[Sequence[ir.Node]] = (),
) -> FusionPlan:
    """Finds the groups of `graph`.

    Groups are disjoint and convex, and contracted they leave the graph acyclic; see
    `mcm_passes.rewriting.fusion_rules.grouping`. Time is linear in the size of the graph.

    Args:
        graph: every node named, in topological order; left unchanged.
        max_group: most ops of a group.
        rules: names of the rules to apply; None for all.
        hosted: ops, group by group, which join no other group: those that the host runs.
    """
    fusion_graph = FusionGraph(graph, {node for nodes in hosted for node in nodes})
    grouping = Grouping(fusion_graph, max_group)
    for name, rule in fusion_rules().items():
        if rules is None or name in rules:
            with FUSION_RULES.at_work(name):
                rule.apply(grouping)
    names = [node.name or "" for node in fusion_graph.nodes]
    fused = tuple(
        FusionGroup(names[group.exit], group.kind, tuple(names[i] for i in sorted(group.members)))
        for group in grouping.groups()
    )
    on_host = tuple(
        FusionGroup(nodes[-1].name or "", HOST_GROUP, tuple(node.name or "" for node in nodes))
        for nodes in hosted
        if len(nodes) > 1
    )
    return FusionPlan(fused + on_host)


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
