"""The pass `legalize`: clones and relays that the ring's rules need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.op_support import host_ops
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import CHIP, LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_passes.mapping.solving.legalization import legalize, mark_host_ops


@dataclass(frozen=True)
class Legalize(Pass):
    """Copies clonable ops to the chips that read them and inserts relays; see `legalize`."""

    name: ClassVar[str] = "legalize"
    summary: ClassVar[str] = "clone cheap ops and insert relays, so that every hop is one chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (FUSION_PLAN, PARTITION_PROBLEM, PARTITION)
    provides: ClassVar[tuple[AnyKey, ...]] = (CHIP, LEGALIZATION)
    preserves: ClassVar[tuple[AnyKey, ...]] = (
        NODE_COST,
        FUSION_PLAN,
        PARTITION_PROBLEM,
        PARTITION,
        REPLICATION,
    )

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Changes the graph; every op that a chip runs has `CHIP` and `NODE_COST` afterwards.

        A graph that is legal already stays as it is.

        Raises:
            CompileError: MCM-T030 to MCM-T032 for ops that earlier passes brought in, and that
                nobody can or shall run.
        """
        if LEGALIZATION.present(model):
            return
        host_ops(context.target, placeable_nodes(model.graph), context.options)
        added = legalize(
            model, PARTITION_PROBLEM.get(model), PARTITION.get(model), FUSION_PLAN.get(model)
        )
        cost_model = context.target.cost_model()
        mark_host_ops(model.graph, cost_model)
        for node in model.graph:
            if CHIP.find(node) is not None and NODE_COST.find(node) is None:
                NODE_COST.set(node, cost_model.node_cost(node))
        LEGALIZATION.set(model, added)
