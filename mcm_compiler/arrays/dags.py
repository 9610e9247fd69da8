"""Directed graphs whose nodes are whole numbers: orders, circles and strong components."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

Following = Sequence[Sequence[int]]
"""For each node, those that its edges lead to."""


def following_lists(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes that the edges of each of `count` nodes lead to, in the order of the edges."""
    following: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        following[source].append(target)
    return following


def topological(
    following: Following, rank: Sequence[int] | Sequence[tuple[int, ...]] | None = None
) -> list[int]:
    """The nodes in a topological order, without those on or after a circle.

    Args:
        following: the edges.
        rank: the node with the least comes first among those that are ready; where None, the
            node itself.
    """
    keys: Sequence[Any] = range(len(following)) if rank is None else rank
    missing = [0] * len(following)
    for targets in following:
        for target in targets:
            missing[target] += 1
    ready = [(keys[v], v) for v, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready)[1])
        for target in following[order[-1]]:
            missing[target] -= 1
            if not missing[target]:
                heapq.heappush(ready, (keys[target], target))
    return order


def find_circle(edges: Iterable[tuple[int, int]]) -> list[int]:
    """The nodes of a circle, each with an edge to the next and the last to the first; or empty."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for source, target in edges:
        sorter.add(target, source)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1][:-1])
    return []


def strong_components(following: Following) -> list[int]:
    """The number of the strongly connected component of each node.

    Components are numbered so that no edge leads to a larger number (Tarjan 1972, *Depth-first
    search and linear graph algorithms*, without recursion). Time is linear in nodes and edges.
    """
    count = len(following)
    component = [-1] * count
    index = [-1] * count
    lowest = [0] * count
    unfinished: list[int] = []
    visited = components = 0
    for start in range(count):
        stack = [(start, 0)] if index[start] < 0 else []
        while stack:
            node, edge = stack.pop()
            if edge == 0:
                index[node] = lowest[node] = visited
                visited += 1
                unfinished.append(node)
            else:
                child = following[node][edge - 1]
                if component[child] < 0:
                    lowest[node] = min(lowest[node], lowest[child])
            if edge < len(following[node]):
                stack.append((node, edge + 1))
                child = following[node][edge]
                if index[child] < 0:
                    stack.append((child, 0))
                continue
            if lowest[node] == index[node]:
                while component[node] < 0:
                    component[unfinished.pop()] = components
                components += 1
    return component
