"""Decides which ops run as one kernel; the graph stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.op_support import host_ops
from mcm_compiler.contracts.fusion import FUSION_PLAN, HOST_GROUP, FusionGroup, FusionPlan
from mcm_compiler.contracts.target import HasChipKinds, Target, kind_names_of
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.registry import FUSION_RULES
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.rewriting.fusion_rules import fusion_rules
from mcm_passes.rewriting.fusion_rules.grouping import FusionGraph, Grouping
from mcm_passes.rewriting.fusion_rules.host_groups import host_groups


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
