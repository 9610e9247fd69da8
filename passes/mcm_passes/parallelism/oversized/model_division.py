"""A model while it is divided: its fusion plan, its costs, and outputs that leave in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from mcm_compiler.contracts.cost import NODE_COST, CostModel
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionGroup, FusionPlan
from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.pipeline.passes import PassContext
from mcm_passes.parallelism.oversized import output_pieces


@dataclass(frozen=True)
class ModelDivision:
    """A model while it is divided.

    Attributes:
        model: changed in place.
        context: of the pass.
        limits: of the chips that ops are divided for.
        cost_model: of the target.
        fraction: part of a chip's SRAM that a piece of an op may take, with all buffers.
        costed: whether ops carry their costs.
        parts: places of the pieces of outputs so far.
    """

    model: ir.Model
    context: PassContext
    limits: PackageLimits
    cost_model: CostModel
    fraction: float
    costed: bool
    parts: dict[str, OutputPart] = field(default_factory=dict[str, OutputPart])

    @property
    def plan(self) -> FusionPlan:
        """The fusion plan of the graph as it is now."""
        return FUSION_PLAN.find(self.model) or FusionPlan(())

    @property
    def sram_bytes(self) -> int:
        """Of the largest chip."""
        return max(self.limits.sram_bytes)

    def unfuse(self, nodes: Sequence[ir.Node]) -> None:
        """Takes ops out of their groups."""
        if nodes and FUSION_PLAN.present(self.model):
            FUSION_PLAN.set(self.model, plan_without(self.plan, nodes))

    def price(self, nodes: Iterable[ir.Node]) -> None:
        """Gives new ops their costs."""
        for node in nodes if self.costed else ():
            NODE_COST.set(node, self.cost_model.node_cost(node))

    def in_pieces(self, concat: ir.Node) -> dict[str, OutputPart]:
        """Lets an output leave in pieces where no chip has space to put it together."""
        sizes = [self.cost_model.storage_bytes(one) for one in concat.inputs if one is not None]
        taken = output_pieces.gather_bytes(sizes, self.limits.channel_slots)
        if taken <= self.fraction * self.sram_bytes:
            return {}
        joined = output_pieces.joined_output(self.model.graph, concat)
        return {} if joined is None else output_pieces.leave_in_pieces(self.model.graph, joined)

    def place(self, pieces: Mapping[str, OutputPart]) -> None:
        """Adds the pieces of one output, which may be a piece itself."""
        places = list(pieces.values())
        within = self.parts.pop(places[0].output, None)
        if within is None:
            self.context.report(output_pieces.pieces_note(places, self.limits))
        self.parts.update({name: replace(part, within=within) for name, part in pieces.items()})

    def let_leave(self, joins: Iterable[ir.Node]) -> set[ir.Node]:
        """Places the pieces of outputs that no chip can put together; the joins that are gone."""
        gone: set[ir.Node] = set()
        for join in joins:
            if pieces := self.in_pieces(join):
                gone.add(join)
                self.place(pieces)
        return gone


def plan_without(plan: FusionPlan, nodes: Sequence[ir.Node]) -> FusionPlan:
    """The fusion plan once `nodes` are taken out of their groups.

    A group whose other ops do not feed the node stays convex without it, since no path can enter
    the node from the group. No cycle of groups arises, since one through the node would have been a
    path that leaves the group and comes back. Any other group is given up, and so is one that loses
    several ops.
    """
    left: dict[str, FusionGroup | None] = {}
    for node in nodes:
        group = plan.group_of.get(node.name or "")
        if group is None:
            continue
        producers = {value.producer() for value in node.inputs if value is not None}
        names = {producer.name for producer in producers if producer is not None}
        rest = tuple(name for name in group.nodes if name != node.name)
        keep = len(rest) > 1 and group.name != node.name and not names.intersection(rest)
        again = group.name in left
        left[group.name] = replace(group, nodes=rest) if keep and not again else None
    groups = (left.get(group.name, group) for group in plan.groups)
    return FusionPlan(tuple(group for group in groups if group is not None))
