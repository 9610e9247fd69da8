"""The contract of fusion: which ops run as one kernel.

Fusion here is a plan over standard ops. The ops stay in the graph, so that every chip's model
runs in stock onnxruntime; the plan says which of them share a launch and keep their
intermediate tensors in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mcm_compiler.graph.annotations import GRAPH, AnnotationKey

HOST_GROUP = "host"
"""Kind of the groups of ops that the host runs, with one round trip."""


@dataclass(frozen=True)
class FusionGroup:
    """Ops that run as one kernel.

    Attributes:
        name: unique within the plan; the name of the group's last op.
        kind: the rule that found it, such as `conv_bn_activation`.
        nodes: names of its ops, in topological order. The group is convex: no path between two
            of its ops leaves it.
    """

    name: str
    kind: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class FusionPlan:
    """All groups of a graph; an op is in at most one."""

    groups: tuple[FusionGroup, ...]

    @cached_property
    def group_of(self) -> dict[str, FusionGroup]:
        """The group of each fused op, by node name."""
        return {node: group for group in self.groups for node in group.nodes}

    @cached_property
    def group_names(self) -> dict[str, str]:
        """Name of the group of each fused op, by node name."""
        return {node: group.name for node, group in self.group_of.items()}


FUSION_PLAN: AnnotationKey[FusionPlan] = AnnotationKey("fusion_plan", derived_from=(GRAPH,))
"""The fusion plan of the model."""
