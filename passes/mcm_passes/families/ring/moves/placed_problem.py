"""A problem as moves look at it: what its units demand, and what depends on what."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit
from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import Bools, Ints, Longs, PartitionProblem
from mcm_compiler.placements.compiled_rules import has_detours
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.families.ring.loads.chip_demands import ChipDemands, unit_demands
from mcm_passes.families.ring.loads.ring_seconds import Ring, ring_of
from mcm_passes.families.ring.moves.channel_loads import Network, network_of


class MoveGraph(NamedTuple):
    """Dependencies between units with a place of their own.

    Attributes:
        after: `[N]` rows of the distinct successors of each unit.
        before: `[N]` rows of the distinct predecessors.
    """

    after: Rows
    before: Rows


class PlacedProblem(NamedTuple):
    """A problem; memory is in blocks of the alignment.

    Attributes:
        fixed: `[N]`, whether each unit has a place of its own.
        demands: of all units, which are its nodes. Each tensor has buffers of its own, at need as
            well.
        read: `[N]` rows of the tensors that each unit reads.
        graph: of dependencies.
        ring: the package; numbers of chips are by device.
        movable: `[C]`, whether no unit has to be on the device.
        network: what connects its devices, where that is no ring.
    """

    fixed: Bools
    demands: ChipDemands
    read: Rows
    graph: MoveGraph
    ring: Ring
    movable: Bools
    network: Network


def placed_problem(problem: PartitionProblem) -> PlacedProblem:
    """Prepares a problem for moves; its loads are those of the table of demands."""
    n = problem.num_units
    demands = unit_demands(problem, own_buffers=True, clone_outputs=True)
    source, target = dependency_edges(problem)
    return PlacedProblem(
        fixed=~problem.clonable,
        demands=demands,
        read=demands.tensors.readers.transposed(n),
        graph=MoveGraph(distinct_rows(source, target, n), distinct_rows(target, source, n)),
        ring=ring_of(problem, problem.limits.buffer_alignment_bytes),
        movable=~np.isin(np.arange(problem.num_chips), problem.pinned_chip),
        network=network_of(problem, demands),
    )


LAST_USED, MARK, LONG = range(3)
"""Places of `PlacementState.counts`."""


@inlined_njit
def count_edges(
    g: MoveGraph, chip: Ints, u: int, at: int, sign: int, both: bool, pairs: Longs, counts: Longs
) -> None:
    """Counts the edges of a unit, or takes them off.

    Args:
        g: the edges.
        chip: `[N]`, where its neighbours are.
        u: the unit.
        at: its chip.
        sign: 1 to count them, -1 to take them off.
        both: whether edges that lead to it count, too.
        pairs: as in `PlacementState`.
        counts: likewise.
    """
    for e in range(g.after.ptr[u], g.after.ptr[u + 1]):
        _count_edge(at, int(chip[g.after.entries[e]]), sign, pairs, counts)
    for e in range(g.before.ptr[u], g.before.ptr[u + 1] if both else 0):
        _count_edge(int(chip[g.before.entries[e]]), at, sign, pairs, counts)


@inlined_njit
def _count_edge(source: int, target: int, sign: int, pairs: Longs, counts: Longs) -> None:
    """Counts an edge between two chips, or takes it off."""
    pairs[source, target] += sign
    counts[LONG] += sign * int(target > source + 1)


@inlined_njit
def breaks_triangle_rule(pairs: Longs, counts: Longs, longer: Bools) -> bool:
    """Whether some direct dependency between chips has a longer path beside it (MCM, Eq. 4).

    Args:
        pairs: as in `PlacementState`.
        counts: likewise.
        longer: `[C, C]`, room.
    """
    return bool(counts[LONG]) and has_detours(pairs, counts[LAST_USED] + 1, longer)
