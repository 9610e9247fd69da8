"""Constraints of training on placements: one way for the forward pass, whole parts of the backward.

Tarnawski et al. 2020 (sections 3 and 5.3) ask that each device holds a contiguous part of the
forward graph and, of the backward graph, the operators that share a color with it. Contiguity is
the same whichever way an edge is listed, and published files list the edges of the backward pass
both ways: those of operators against the forward pass, those of layers along it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.dags import following_lists, topological
from mcm_compiler.contracts.partition import Bools, Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.problem.rule_graph import Words, words_of


class BackwardPaths(NamedTuple):
    """Paths of the backward pass through operators, as groups at both of their ends.

    A part of the graph is contiguous in the backward pass if there is no row whose `group` it
    lacks, while it has one of `before` and one of `behind`.

    Attributes:
        group: `[B]`, group of an operator that the paths go through.
        before: `[B, words]`, bitset of the groups that they begin in.
        behind: `[B, words]`, bitset of those that they end in.
    """

    group: Ints
    before: Words
    behind: Words


def order_edges(problem: PlacementProblem) -> tuple[Ints, Ints]:
    """Edges `(source, target)` that the order of devices has to follow.

    Those of the forward pass, and those of the backward pass at operators whose color no forward
    operator has. The latter have a place along the devices from their neighbours alone, as if they
    were mirrored in the forward pass. All others of the backward pass follow from the colors.
    """
    forward = ~problem.backward[problem.edge_source] & ~problem.backward[problem.edge_target]
    back = _backward_edges(problem)
    # No forward operator has the color.
    alone = np.bincount(problem.color, ~problem.backward)[problem.color] == 0
    kept = back & (alone[problem.edge_source] | alone[problem.edge_target])
    turned = kept & (not listed_along(problem))
    source = np.where(turned, problem.edge_target, problem.edge_source)
    target = np.where(turned, problem.edge_source, problem.edge_target)
    keep = forward | kept
    return source[keep], target[keep]


def listed_along(problem: PlacementProblem) -> bool:
    """Return whether edges of the backward pass are listed in the direction of the forward pass.

    So they are if more of them join two colors as an edge of the forward pass does than join them
    the other way.
    """
    back = _backward_edges(problem)
    forward = ~problem.backward[problem.edge_source] & ~problem.backward[problem.edge_target]
    colors = int(problem.color.max(initial=0)) + 1
    source = problem.color[problem.edge_source].astype(np.int64)
    target = problem.color[problem.edge_target].astype(np.int64)
    known = source[forward] * colors + target[forward]
    along = np.isin(source[back] * colors + target[back], known)
    against = np.isin(target[back] * colors + source[back], known)
    return bool(along.sum() > against.sum())


def torn_parts(problem: PlacementProblem, device_of: Ints) -> list[tuple[int, int]]:
    """Operators `v` of the backward pass, each with a device that `v` tears apart.

    The device holds operators of the backward pass before and behind `v`, and not `v` itself. One
    device per operator, in the order of the file. O(E D / 64).
    """
    found = list[tuple[int, int]]()
    if not problem.backward.any():
        return found
    before, behind = _device_sets(problem, device_of)
    for v in np.flatnonzero(problem.backward).tolist():
        both = before[v] & behind[v] & ~(1 << int(device_of[v]))
        if both:
            found.append((v, both.bit_length() - 1))
    return found


def backward_paths(problem: PlacementProblem, group_of: Ints, behind: Words) -> BackwardPaths:
    """Paths that keep parts of the backward pass whole, beyond what the order of groups does.

    Nothing, where all edges between groups lead along that order or all lead against it: then a
    path from a group to itself or to another stays between the two.

    Args:
        problem: the problem.
        group_of: `[N]`; operators of the backward pass all have one.
        behind: `[G, words]`, bitsets of the groups that come after each.
    """
    words = behind.shape[1]
    back = _backward_edges(problem)
    ends = np.stack(
        [group_of[problem.edge_source[back]], group_of[problem.edge_target[back]]], axis=1
    )
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    rows = set[tuple[int, int, int]]()
    if not (
        _ordered(behind, ends[:, 0], ends[:, 1]).all()
        or _ordered(behind, ends[:, 1], ends[:, 0]).all()
    ):
        first, last = _device_sets(problem, group_of)
        for v in np.flatnonzero(problem.backward).tolist():
            own = 1 << int(group_of[v])
            if first[v] & ~own and last[v] & ~own:
                rows.add((int(group_of[v]), first[v] & ~own, last[v] & ~own))
    kept = sorted(rows)
    return BackwardPaths(
        np.array([row[0] for row in kept], np.int32),
        words_of([row[1] for row in kept], 64 * words),
        words_of([row[2] for row in kept], 64 * words),
    )


def _backward_edges(problem: PlacementProblem) -> Bools:
    return problem.backward[problem.edge_source] & problem.backward[problem.edge_target]


def _device_sets(problem: PlacementProblem, place_of: Ints) -> tuple[list[int], list[int]]:
    """Bitsets of the places of all that is before, and behind, each operator.

    Along edges of the backward pass alone.
    """
    back = _backward_edges(problem)
    source, target = problem.edge_source[back].tolist(), problem.edge_target[back].tolist()
    bit = [1 << int(place) for place in place_of.clip(0).tolist()]
    return (
        _collected(problem.num_operators, source, target, bit),
        _collected(problem.num_operators, target, source, bit),
    )


def _collected(count: int, source: list[int], target: list[int], bit: list[int]) -> list[int]:
    """For each operator the union of the bits of all from which a path of edges leads to it."""
    following = following_lists(count, zip(source, target, strict=True))
    found = [0] * count
    for u in topological(following):
        for v in following[u]:
            found[v] |= found[u] | bit[u]
    return found


def _ordered(behind: Words, first: Ints, second: Ints) -> Bools:
    """Return whether each group of `second` comes after that of `first`."""
    bit = behind[first, second >> 6] >> (second & 63).astype(np.uint64) & np.uint64(1)
    return bit != 0
