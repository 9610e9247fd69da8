"""Where the kernels of a graph are drawn: rows by depth, folded into columns like a newspaper.

A model is deep and narrow: drawn in one piece, 100,000 ops are a thread. So rows follow each other
down a column and go on at the top of the next one, and the whole has the shape of a screen.
Linear in the graph but for sorting within rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints

NODE_WIDTH, NODE_HEIGHT = 150.0, 30.0
"""Of a box, in the units of the drawing."""

SLOT, ROW, COLUMN_GAP = 170.0, 54.0, 90.0
"""From one box to the next, from one row to the next, and between columns."""

ASPECT = 1.8
"""Width by height that the whole is to have."""

_LEAST_WIDE = 6
"""Boxes that a row may always have."""


class Drawing(NamedTuple):
    """Where boxes are.

    Attributes:
        x: `[N]`, of the middle of each box.
        y: `[N]`.
        width: of the whole, from 0.
        height: of the whole, from 0.
    """

    x: Floats
    y: Floats
    width: float
    height: float


def drawing_of(nodes: int, sources: Ints, destinations: Ints) -> Drawing:
    """Places of boxes.

    Args:
        nodes: N.
        sources: `[E]`, where each edge begins: a lower number than where it ends.
        destinations: `[E]`, where it ends.
    """
    if not nodes:
        return Drawing(np.zeros(0), np.zeros(0), 0.0, 0.0)
    before: list[list[int]] = [[] for _ in range(nodes)]
    after: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in zip(sources.tolist(), destinations.tolist(), strict=True):
        before[b].append(a)
        after[a].append(b)
    rows = _rows(_depths(before, after), before, nodes)
    wide = max(map(len, rows))
    columns = math.ceil(math.sqrt(ASPECT * len(rows) * ROW / (wide * SLOT + COLUMN_GAP)))
    per_column = math.ceil(len(rows) / columns)
    x, y = np.zeros(nodes), np.zeros(nodes)
    left = 0.0
    for first in range(0, len(rows), per_column):
        column = rows[first : first + per_column]
        width = max(map(len, column)) * SLOT
        for place, row in enumerate(column):
            middle = left + (width - (len(row) - 1) * SLOT) / 2
            x[row] = middle + SLOT * np.arange(len(row))
            y[row] = (place + 0.5) * ROW
        left += width + COLUMN_GAP
    return Drawing(x, y, left - COLUMN_GAP, per_column * ROW)


def _depths(before: list[list[int]], after: list[list[int]]) -> list[int]:
    """Longest way to each node; nodes that nothing leads to stand right before what reads them."""
    depth = [0] * len(before)
    for node, makers in enumerate(before):
        if makers:
            depth[node] = 1 + max(depth[maker] for maker in makers)
    for node, makers in enumerate(before):
        if not makers and after[node]:
            depth[node] = min(depth[reader] for reader in after[node]) - 1
    return depth


def _rows(depth: list[int], before: list[list[int]], nodes: int) -> list[list[int]]:
    """Nodes by depth, each below the middle of what it reads; wide ones become several rows."""
    by_depth: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for node, level in enumerate(depth):
        by_depth[level].append(node)
    most = max(_LEAST_WIDE, math.isqrt(nodes) // 4)
    middle = [0.0] * nodes
    rows: list[list[int]] = []
    for level in by_depth:
        wanted = {
            node: sum(middle[m] for m in before[node]) / len(before[node]) if before[node] else 0.0
            for node in level
        }
        level.sort(key=wanted.__getitem__)
        for place, node in enumerate(level):
            middle[node] = place - (len(level) - 1) / 2
        rows += [level[i : i + most] for i in range(0, len(level), most)]
    return rows
