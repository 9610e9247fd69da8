"""Stages: ops that run on units of their own, what they read, hold and make, and their times."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_hardware.families.fabric.layout.rules import LayoutRules

LEFT, RIGHT, SHARE, ALL = 0, 1, 2, 3
"""How the units of a stage read a value.

As left operand of a product: the rows of each unit; as right operand: its columns. Otherwise each
unit reads a share of its own, or all of it.
"""

INPUTS = 0
"""Number of the stage that holds the graph's inputs; those of ops follow."""

OUTSIDE = -1
"""In place of a stage: small inputs come from memory channels each time that a stage reads them."""


@dataclass
class Stage:
    """A stage, while ops are added to it.

    Attributes:
        name: of its first op.
        kind: index into `OP_KINDS`.
        macs: multiply-accumulates per sample.
        rows: of its largest product, within a head.
        cols: of its largest product.
        whole_rows: whether a unit makes whole rows, as a softmax behind a product needs them.
        lane_ops: operations of one lane per sample.
        out_elements: of the largest value that it makes.
        reads: elements by value and mode.
        weights: elements that are held and elements that are read per sample, by value and mode.
        makes: values, with their elements.
    """

    name: str
    kind: int
    macs: int = 0
    rows: int = 1
    cols: int = 1
    whole_rows: bool = False
    lane_ops: int = 0
    out_elements: int = 0
    reads: dict[tuple[ir.Value, int], int] = field(default_factory=dict[tuple[ir.Value, int], int])
    weights: dict[tuple[ir.Value, int], tuple[int, int]] = field(
        default_factory=dict[tuple[ir.Value, int], tuple[int, int]]
    )
    makes: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])


@dataclass(frozen=True)
class Read:
    """Read of a stage from the results of another one.

    Attributes:
        source: stage that makes it, `INPUTS` or `OUTSIDE`.
        mode: `LEFT`, `RIGHT`, `SHARE` or `ALL`.
        elements: of one reading.
    """

    source: int
    mode: int
    elements: int


@dataclass(frozen=True)
class Demand:
    """Demand of a stage, as numbers.

    Attributes:
        name: of its first op.
        kind: index into `OP_KINDS`.
        macs: multiply-accumulates per sample.
        rows: that can be divided over units.
        cols: that can be divided over units.
        whole_rows: columns are not divided.
        lane_ops: operations of one lane per sample.
        reads: from stages before it.
        weight_set: number of its set of weights, which stages may have in common, such as the
            steps of an unrolled recurrent layer; -1 where it has none.
        weights: elements that are held, by columns.
        weight_reads: elements of them that are read per tile of rows.
        tables: elements that are held, by share.
        table_reads: elements of them that are read.
        makes: elements that other stages read.
        leaves: elements of graph outputs among what it makes.
        kept: whether other stages read what it makes, so that memory units hold it.
        level: stages on the longest way here.
        depth: samples that memory units hold of what it makes.
    """

    name: str
    kind: int
    macs: int
    rows: int
    cols: int
    whole_rows: bool
    lane_ops: int
    reads: tuple[Read, ...]
    weight_set: int
    weights: int
    weight_reads: int
    tables: int
    table_reads: int
    makes: int
    leaves: int
    kept: bool
    level: int
    depth: int


@dataclass(frozen=True, eq=False)
class UnitTimes:
    """Of one stage on 1 to P units.

    Attributes:
        cycles: `[P]`, of the busiest unit or port of a unit per sample, and no more than with
            fewer units.
        units: `[P]`, how many of them are worth using.
        row_parts: `[P]`, number of parts that the rows are divided into.
        col_parts: `[P]`, and the columns; the product of both is `units`.
    """

    cycles: Floats
    units: Ints
    row_parts: Ints
    col_parts: Ints


@cache
def _divisions(most: int) -> tuple[Ints, Ints, Ints]:
    """Rows and columns into which up to `most` units can be divided, and where each number begins.

    Sorted by the number of units.
    """
    pairs = [(r * c, r, c) for r in range(1, most + 1) for c in range(1, most // r + 1)]
    table = np.array(sorted(pairs), np.int32)
    begin = np.searchsorted(table[:, 0], np.arange(1, most + 1)).astype(np.int32)
    return table[:, 1].copy(), table[:, 2].copy(), begin


def unit_times(demand: Demand, fabric: Fabric, rules: LayoutRules, most: int) -> UnitTimes:
    """Works out all divisions of a stage over up to `most` units."""
    rows, cols, begin = _divisions(most)
    units = rows.astype(np.int64) * cols
    row_share = -(-demand.rows // rows) / demand.rows
    col_share = -(-demand.cols // cols) / demand.cols
    compute = demand.macs * row_share * col_share / fabric.macs_per_cycle
    compute = compute + demand.lane_ops / fabric.lanes / units
    col_tiles, row_tiles = tiles(demand, rules, rows, cols)
    of_mode = np.zeros(4)
    for read in demand.reads:
        of_mode[read.mode] += read.elements
    taken = (
        of_mode[LEFT] * row_share * col_tiles
        + (of_mode[RIGHT] + demand.weight_reads) * col_share * row_tiles
        + (of_mode[SHARE] + demand.table_reads) / units
        + of_mode[ALL]
    )
    port = np.maximum(taken, demand.makes / units) / fabric.flit_elements
    cost = np.maximum(compute, port)
    cost[(rows > demand.rows) | (cols > (1 if demand.whole_rows else demand.cols))] = np.inf
    # Of equally fast divisions the one that moves less.
    order = np.lexsort((taken, cost, units))
    best = order[begin]
    # More units than before are used only where they are faster.
    front = np.minimum.accumulate(cost[best])
    better = np.concatenate([[True], cost[best][1:] < front[:-1]])
    chosen = best[np.maximum.accumulate(np.where(better, np.arange(most), 0))]
    return UnitTimes(cost[chosen], units[chosen].astype(np.int32), rows[chosen], cols[chosen])


def tiles(
    demand: Demand, rules: LayoutRules, row_parts: Ints, col_parts: Ints
) -> tuple[Ints, Ints]:
    """How often units read their left operand, and how often their right one."""
    if demand.macs == 0:
        one = np.ones(np.broadcast(row_parts, col_parts).shape, np.int32)
        return one, one
    col_tiles, row_tiles = (
        np.ceil(np.ceil(size / parts) / rules.tile).astype(np.int32)
        for size, parts in ((demand.cols, col_parts), (demand.rows, row_parts))
    )
    return col_tiles, row_tiles
