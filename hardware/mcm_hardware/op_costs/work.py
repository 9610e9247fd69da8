"""The unit of account of op formulas: what one op asks of the engines of a chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mcm_hardware.op_costs.node_shapes import NodeShapes


@dataclass(frozen=True)
class Gemm:
    """Matrix products of one shape on the MAC array: `count` times `[m, k] x [k, n]`.

    Attributes:
        count: independent products.
        m: rows of each result.
        n: columns of each result.
        k: length of each dot product.
        rounds: how many rounds follow one another, each waiting for the results of the one
            before (steps of a recurrent net); 1 where all products are independent.
        inner: the left operand is made inside the op and never in SRAM, such as the softmax of
            the scores of an attention.
    """

    count: int
    m: int
    n: int
    k: int
    rounds: int = 1
    inner: bool = False

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.count * self.m * self.n * self.k


Execution = Literal["kernel", "view", "free"]
"""`kernel` runs on the chip; `view` gives its first input another shape, so that nothing runs and
the output is the input's memory; `free` is done before the first inference (`Constant`)."""


@dataclass(frozen=True)
class Work:
    """What one op asks of a chip. Operands are read once and results written once.

    Attributes:
        gemms: work of the MAC array.
        lane_ops: work of the vector unit: operations of one lane (see `lane_ops.py`).
        reads: `(input index, elements)` for operands that are not read exactly once, such as the
            table of a `Gather` or the weights of a recurrent net.
        data_share: part of the data in the attributes that one inference reads, from 0 to 1; less
            than 1 of tables that are looked up.
        execution: see `Execution`.
    """

    gemms: tuple[Gemm, ...] = ()
    lane_ops: int = 0
    reads: tuple[tuple[int, int], ...] = ()
    data_share: float = 1.0
    execution: Execution = "kernel"


Formula = Callable[[NodeShapes], Work]
"""Work of one node."""

MOVES_ONLY = Work()
"""An op that moves its operands and computes nothing."""


def moves_only(_node: NodeShapes) -> Work:
    """Formula of ops that move data only."""
    return MOVES_ONLY
