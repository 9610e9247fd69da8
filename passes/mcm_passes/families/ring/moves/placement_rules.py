"""The triangle rule for a partition whose edges between chips are kept up to date."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import inlined_njit
from mcm_compiler.contracts.partition import Bools, Ints, Longs
from mcm_compiler.placements.compiled_rules import has_detours
from mcm_passes.families.ring.moves.placed_problem import MoveGraph

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
    for e in range(g.next_ptr[u], g.next_ptr[u + 1]):
        _count_edge(at, int(chip[g.next_units[e]]), sign, pairs, counts)
    for e in range(g.before_ptr[u], g.before_ptr[u + 1] if both else 0):
        _count_edge(int(chip[g.before_units[e]]), at, sign, pairs, counts)


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
