"""What ops cost on a fabric before anything is laid out: their work over all units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.contracts.cost import NodeCost
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.chosen_costs import CostPair
from mcm_hardware.chip.kernel_work import KernelWork
from mcm_hardware.chip.roofline import EngineTimes, Roofline
from mcm_hardware.families.fabric.layout.laid_out_ops import laid_out_ops
from mcm_hardware.families.fabric.layout.op_work import MOST_WORK

NAME = "fabric-work"
"""What is printed with every number of these costs."""


def fabric_times(chip: ChipSpec, work: KernelWork) -> EngineTimes:
    """Seconds of all compute units together, as if they shared every op without a loss.

    A unit does products or works on lanes, never both, so that times add up; whichever is longer
    has the name. No mapping has a shorter period than the sum over the ops of a chip.

    Args:
        chip: from `fabric_chip.chip_of`.
        work: of the ops.
    """
    macs = sum(part.gemm.macs for part in work.gemms)
    products = macs / _products_per_s(chip)
    lanes = work.lane_ops / _lane_ops_per_s(chip)
    if products >= lanes:
        return {"array": products + lanes, "vector": 0.0, "memory": 0.0}
    return {"array": 0.0, "vector": products + lanes, "memory": 0.0}


@dataclass(frozen=True)
class FabricCosts(Roofline):
    """Implements `mcm_compiler.contracts.cost.PricesGraphs`, too."""

    def of_graph(self, graph: ir.Graph) -> GraphCosts:
        """The same costs, none for ops that are not laid out, and in all no more than counts."""
        return GraphCosts(self, graph)


class GraphCosts:
    """Implements `mcm_compiler.contracts.cost.CostModel` for the ops of one graph.

    What a stage works for a sample saturates at `MOST_WORK`, so that no chip certainly takes longer
    than that takes all units. Of graphs with more work only so much is priced: the longest ops cost
    equally much, and less than on their own.

    Args:
        costs: of ops on their own.
        graph: in topological order.
    """

    def __init__(self, costs: FabricCosts, graph: ir.Graph) -> None:
        self.name = costs.name
        self._costs = costs
        self._graph = graph
        most_s = MOST_WORK / max(_products_per_s(costs.chip), _lane_ops_per_s(costs.chip))
        alone = {node: costs.node_cost(node) for node in laid_out_ops(graph)}
        seconds = [cost.seconds for cost in alone.values()]
        self._whole = math.fsum(seconds) <= most_s
        longest_s = math.inf if self._whole else _level(seconds, most_s)
        self._of_node: Mapping[ir.Node, NodeCost] = {
            node: cost if cost.seconds <= longest_s else replace(cost, seconds=longest_s)
            for node, cost in alone.items()
        }

    def storage_bytes(self, value: ir.Value) -> int:
        """As `Roofline.storage_bytes`."""
        return self._costs.storage_bytes(value)

    def is_view(self, node: ir.Node) -> bool:
        """As `Roofline.is_view`."""
        return self._costs.is_view(node)

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own; 0 s where the graph has it and it is not laid out."""
        found = self._of_node.get(node)
        if found is not None:
            return found
        cost = self._costs.node_cost(node)
        return cost if node.graph is not self._graph else _idle(cost)

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel: that of those that are laid out."""
        cost = self._costs.group_cost(nodes)
        if self._whole and all(n in self._of_node or n.graph is not self._graph for n in nodes):
            return cost
        seconds = math.fsum(self.node_cost(node).seconds for node in nodes)
        return replace(cost, seconds=seconds) if seconds else _idle(cost)


def fabric_costs(chip: ChipSpec) -> CostPair:
    """For search and bounds; what is played are measured mappings, and never shorter."""
    costs = FabricCosts(chip, fabric_times, NAME)
    return CostPair(costs, costs)


def _products_per_s(chip: ChipSpec) -> float:
    return chip.array.rows * chip.array.cols * chip.array.clock_hz


def _lane_ops_per_s(chip: ChipSpec) -> float:
    return chip.vector.lanes * chip.vector.clock_hz


def _idle(cost: NodeCost) -> NodeCost:
    return replace(cost, seconds=0.0, bound_by="none")


def _level(seconds: Sequence[float], most_s: float) -> float:
    """The number of seconds that none may exceed so that all together come to `most_s`."""
    left_s = most_s
    for count, each in zip(range(len(seconds), 0, -1), sorted(seconds), strict=True):
        if each * count > left_s:
            return left_s / count
        left_s -= each
    return math.inf
