"""Which links the streams of a mapping take, worked out plainly: for reports and checks."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.fabrics.fabric import EAST, NORTH, SOUTH, WEST, Fabric
from mcm_compiler.contracts.fabrics.problem import MappingProblem, Mappings


def way(fabric: Fabric, source: int, leaf: int, turn: int) -> list[int]:
    """Links from one switch to another, in order.

    Args:
        fabric: the grid.
        source: switch.
        leaf: switch.
        turn: 0 along the row first, 1 along the column first.
    """
    row, col = divmod(source, fabric.cols)
    to_row, to_col = divmod(leaf, fabric.cols)
    links: list[int] = []
    for along_row in (turn == 0, turn != 0):
        while along_row and col != to_col:
            links.append(4 * (row * fabric.cols + col) + (EAST if to_col > col else WEST))
            col += 1 if to_col > col else -1
        while not along_row and row != to_row:
            links.append(4 * (row * fabric.cols + col) + (SOUTH if to_row > row else NORTH))
            row += 1 if to_row > row else -1
    return links


def link_loads(problem: MappingProblem, fabric: Fabric, mapping: Mappings) -> Longs:
    """`[4 * switches]`, flits per sample on each link.

    A stream crosses a link once, whatever many destinations lie behind it.

    Args:
        problem: what is laid out.
        fabric: where.
        mapping: a legal one, as a batch of one.
    """
    loads = np.zeros(4 * fabric.num_switches, np.int64)
    switch = fabric.switch[mapping.site[0]]
    for stream in range(problem.num_streams):
        source = int(switch[problem.source[stream]])
        turn = int(mapping.turn[0, stream])
        leaves = problem.leaf[problem.leaf_ptr[stream] : problem.leaf_ptr[stream + 1]]
        crossed = {link for leaf in leaves for link in way(fabric, source, int(switch[leaf]), turn)}
        loads[sorted(crossed)] += problem.flits[stream]
    return loads
