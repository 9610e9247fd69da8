"""A cost model of one file: every kernel takes as long as its bytes need at one rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler import CostBasis, CostModelMaker, register
from mcm_compiler.contracts.cost import NodeCost, OpCosts


@dataclass(frozen=True)
class MemoryBoundTimes:
    """Times of one chip; operations and bytes are those that the target counts."""

    own: OpCosts
    bytes_per_s: float
    launch_s: float
    name: str = "memory_bound"

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Time of an op on its own."""
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Time of ops that run as one kernel; views take none."""
        cost = self.own.group_cost(nodes)
        moved = cost.read_bytes + cost.write_bytes
        seconds = self.launch_s + moved / self.bytes_per_s if moved else 0.0
        return replace(cost, seconds=seconds, bound_by="memory")


@register("cost-model")
@dataclass(frozen=True)
class MemoryBound(CostModelMaker):
    """Bytes at one rate, and a launch for each kernel."""

    name: ClassVar[str] = "memory_bound"
    summary: ClassVar[str] = "bytes at one rate, and a launch for each kernel"

    gb_per_s: float = 100.0
    launch_us: float = 0.5

    def __post_init__(self) -> None:
        if self.gb_per_s <= 0 or self.launch_us < 0:
            raise ValueError("gb_per_s has to be positive, and launch_us not negative")

    def make(self, basis: CostBasis) -> OpCosts:
        """The same for search and simulator: what they count of an op is the same."""
        return MemoryBoundTimes(basis.played, self.gb_per_s * 1e9, self.launch_us * 1e-6)
