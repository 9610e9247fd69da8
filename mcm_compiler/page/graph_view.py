"""The graph of kernels, coloured by where they run and how long they take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.page.contents import Compiled, Section, View, pack_floats, pack_texts, pack_whole
from mcm_compiler.text.units import count_text

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


def graph_section(compiled: Compiled) -> Section | None:
    """The graph of a compiled model; None where nothing was placed."""
    certificate = compiled.certificate
    if certificate is None or not certificate.problem.num_units:
        return None
    p = certificate.problem
    sources = np.repeat(p.tensor_producer, np.diff(p.tensor_ptr))
    made = sources >= 0
    data = graph_data(
        names=p.names,
        kinds=p.op_types or [""] * p.num_units,
        seconds=p.seconds_on(certificate.placement),
        places=certificate.placement,
        sources=sources[made],
        destinations=p.tensor_consumers[made],
    )
    data["place"] = "chip"
    data["placeNames"] = [f"chip {chip}" for chip in range(p.limits.num_chips)]
    # Kernels of one op have its name; what else a kernel computes can be searched for as well.
    fused = [i for i, members in enumerate(p.members) if tuple(members) != (p.names[i],)]
    data["fused"] = pack_whole(fused)
    data["members"] = pack_texts(["\n".join(p.members[i]) for i in fused])
    ops = sum(map(len, p.members))
    text = f"{count_text(p.num_units, 'kernel')} of {count_text(ops, 'op')}"
    return graph_part(text, data)


def graph_part(text: str, data: dict[str, Any]) -> Section:
    """The section of a graph.

    Args:
        text: how many of what it shows.
        data: from `graph_data`, with `place`, the word for where they run, and `placeNames`.
    """
    lead = (
        f"{text}, in the order of the data: down each column, then on at the top of the next. "
        "Drag to move, turn the wheel or press + and - to zoom, search by name.",
    )
    return Section("graph", "Graph", lead, View("graph", data, f"Graph of {text}"))


def graph_data(
    names: Sequence[str],
    kinds: Sequence[str],
    seconds: Floats,
    places: Ints,
    sources: Ints,
    destinations: Ints,
) -> dict[str, Any]:
    """Data of a drawn graph of N boxes and E edges.

    Args:
        names: `[N]`.
        kinds: `[N]`, types of ops.
        seconds: `[N]`, how long each takes.
        places: `[N]`, where each runs.
        sources: `[E]`, where edges begin: lower numbers than where they end.
        destinations: `[E]`, where they end.
    """
    drawing = drawing_of(len(names), sources, destinations)
    known = sorted(set(kinds))
    number = {kind: i for i, kind in enumerate(known)}
    return {
        "nodes": len(names),
        "width": drawing.width,
        "height": drawing.height,
        "box": [NODE_WIDTH, NODE_HEIGHT],
        "x": pack_floats(drawing.x),
        "y": pack_floats(drawing.y),
        "seconds": pack_floats(seconds),
        "places": pack_whole(places),
        "from": pack_whole(sources),
        "to": pack_whole(destinations),
        "kinds": known,
        "kind": pack_whole([number[kind] for kind in kinds]),
        "names": pack_texts(names),
    }
