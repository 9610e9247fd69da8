"""The contract of cost models: how long an op takes on one chip, estimated fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import onnx_ir as ir

from mcm_compiler.ir.annotations import GRAPH, AnnotationKey

Engine = Literal["array", "vector", "memory", "none"]
"""What limits an op: the MAC array, the vector unit, SRAM bandwidth, or nothing at all."""


@dataclass(frozen=True)
class NodeCost:
    """What one op, or one fused group of ops, costs on one chip.

    Attributes:
        flops: floating-point (or integer) operations; a multiply-accumulate counts as two.
        read_bytes: bytes read from SRAM, weights included, at the target's storage widths.
        write_bytes: bytes written to SRAM.
        weight_bytes: bytes of constant operands held in SRAM.
        seconds: time on the chip, launch overhead included.
        bound_by: the engine that sets `seconds`.
        modelled: False where no formula knows the op, so that only its bytes were counted.
    """

    flops: float
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    seconds: float
    bound_by: Engine
    modelled: bool = True


class CostModel(Protocol):
    """Estimates costs from shapes alone. Fast, deterministic, without side effects."""

    @property
    def name(self) -> str:
        """Named with every number that comes from this model."""
        ...

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own. Its values need static shapes and known types."""
        ...

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel: one launch, and internal tensors stay in registers.

        Never more than the sum of the node costs.
        """
        ...

    def storage_bytes(self, value: ir.Value) -> int:
        """Bytes that `value` takes in a chip's SRAM and on a link; 0 where its type is unknown."""
        ...


@runtime_checkable
class KnowsViews(Protocol):
    """A cost model that knows which ops take no memory of their own.

    Without one, passes take the ops of ONNX that only change a shape for views.
    """

    def is_view(self, node: ir.Node) -> bool:
        """Whether the target's memory plans let the first output of `node` lie in its first input.

        This is so where both are made on one chip; other inputs are then not held for it.
        """
        ...


NODE_COST: AnnotationKey[NodeCost] = AnnotationKey("node_cost", on="node", derived_from=(GRAPH,))
"""The cost of each op on its own."""
