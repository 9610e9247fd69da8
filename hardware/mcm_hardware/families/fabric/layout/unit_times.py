"""How long a stage takes on so many units, divided as suits it best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_hardware.families.fabric.layout.rules import LayoutRules
from mcm_hardware.families.fabric.layout.stages import ALL, LEFT, RIGHT, SHARE, Demand


@dataclass(frozen=True, eq=False)
class UnitTimes:
    """Of one stage on 1 to P units.

    Attributes:
        cycles: `[P]`, of the busiest unit or port of a unit per sample, and no more than with
            fewer units.
        units: `[P]`, how many of them are worth using.
        row_parts: `[P]`, into so many parts the rows are divided.
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
