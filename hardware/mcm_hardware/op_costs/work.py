"""The unit of account of op formulas: what one op asks of the engines of a chip.

A lane does one add, multiply, fused multiply-add, compare, select or convert per cycle. The chip
holds floats in 16 bits, so approximations are good to about 11 bits:

- division: reciprocal estimate from a table, one Newton step (2), one multiply;
- square root, reciprocal square root: estimate, one Newton step (3);
- exp: range reduction (2), polynomial of degree 3, scaling by a power of two;
- log: exponent and mantissa apart (2), polynomial of degree 4, one multiply-add;
- sine, cosine: range reduction (2), polynomial of degree 5 in x^2, selection of sign (1);
- tanh and sigmoid: one exp, one add, one division (tanh one multiply more);
- erf: Abramowitz and Stegun 7.1.25: one exp, one division, polynomial of degree 3, sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import onnx_ir as ir

from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.graph.trip_counts import trips_of
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
    """Demands of one op on a chip. Operands are read once and results written once.

    Attributes:
        gemms: work of the MAC array.
        lane_ops: work of the vector unit: operations of one lane (constants above).
        unpack_ops: lane operations that unpack weights, where no load does.
        reads: `(input index, elements)` for operands that are not read exactly once, such as the
            table of a `Gather` or the weights of a recurrent net.
        data_share: part of the data in the attributes that one inference reads, from 0 to 1; less
            than 1 of tables that are looked up.
        execution: see `Execution`.
    """

    gemms: tuple[Gemm, ...] = ()
    lane_ops: int = 0
    unpack_ops: int = 0
    reads: tuple[tuple[int, int], ...] = ()
    data_share: float = 1.0
    execution: Execution = "kernel"


MAX_COUNT = 2**62
"""Of operations and elements."""


def work_fault(work: Any) -> str | None:
    """How an object of others is no `Work`, such as a negative count; None if it is."""
    if not isinstance(work, Work):
        return f"it gives {work!r:.80}, not a Work"
    sizes = [size for g in work.gemms for size in (g.count, g.m, g.n, g.k, g.rounds)]
    counts = [
        work.lane_ops,
        work.unpack_ops,
        *sizes,
        *(n for index, size in work.reads for n in (index, size)),
    ]
    if not all(type(count) is int and 0 <= count <= MAX_COUNT for count in counts):
        return f"a count in {work!r:.200} is not an integer from 0 to 2**62"
    if not 0 <= work.data_share <= 1 or work.execution not in get_args(Execution):
        return f"data_share or execution of {work!r:.200} is out of range"
    return None


Formula = Callable[[NodeShapes], Work]
"""Work of one node."""

MOVES_ONLY = Work()
"""An op that moves its operands and computes nothing."""


def moves_only(_node: NodeShapes) -> Work:
    """Formula of ops that move data only."""
    return MOVES_ONLY


def asks(_node: NodeShapes) -> Work:
    """Formula of ops that ask about their operand without reading it."""
    return Work(reads=((0, 0),))


def per_input(lane_ops: int) -> Formula:
    """Formula of ops with a number of lane operations per element of the first operand."""
    return partial(_per_input, lane_ops)


def per_result(lane_ops: int) -> Formula:
    """Formula of ops with a number of lane operations per element of the first result."""
    return partial(_per_result, lane_ops)


def _per_input(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.size(0))


def _per_result(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size())


Formulas = dict[tuple[str, str], Formula]
"""Formulas by `(domain, op_type)`."""


def ops(formula: Formula, names: str, microsoft: str = "", domain: str = "") -> Formulas:
    """A formula for several ops.

    Args:
        formula: of their work.
        names: op types of a domain, separated by blanks.
        microsoft: op types of `com.microsoft`, likewise.
        domain: of `names`; the default one if empty.
    """
    found = {(domain, name): formula for name in names.split()}
    return found | {("com.microsoft", name): formula for name in microsoft.split()}


def joined(*tables: Formulas) -> Formulas:
    """One table of several.

    Raises:
        ValueError: if two of them have a formula for one op.
    """
    found: Formulas = {}
    for table in tables:
        if twice := found.keys() & table.keys():
            domain, op_type = min(twice)
            raise ValueError(f"two formulas for '{op_type}' of domain '{domain}'")
        found |= table
    return found


DIVIDE = 4
SQUARE_ROOT = 4
EXP = 6
LOG = 7
SINE = 8
SIGMOID = EXP + 1 + DIVIDE
TANH = SIGMOID + 1
ERF = EXP + DIVIDE + 5
POWER = LOG + 1 + EXP
ARC = 12
SOFTMAX = EXP + 4
"""Per element: running maximum, subtraction, exp, running sum, multiplication by the inverse."""

NORMALIZE = 8
"""Per element: mean (1), squared deviation (2), normalise (2), scale and shift (2), convert (1)."""

REQUANTIZE = 4
"""Per element: scale, add the zero point, round, saturate."""


CONTROL_FLOW = frozenset({("", "If"), ("", "Loop"), ("", "Scan"), ("", "SequenceMap")})
"""Ops whose cost is that of their bodies."""


@dataclass(frozen=True)
class Bodies:
    """Bodies that a control-flow op runs.

    Attributes:
        graphs: its bodies; of several, one runs (the branches of an `If`).
        trips: how often it runs.
    """

    graphs: tuple[ir.Graph, ...]
    trips: int


def bodies_of(node: ir.Node) -> Bodies:
    """The bodies of a control-flow op, and how often they run (`trips_of`)."""
    return Bodies(tuple(subgraphs(node)), trips_of(node).count)
