"""Loads and memory of a partition whose totals are kept up to date."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Longs
from mcm_compiler.placements.ring_rules import TO_HOST
from mcm_passes.families.ring.loads.chip_memory import streamed_weights
from mcm_passes.families.ring.loads.ring_kernels import HELD
from mcm_passes.families.ring.moves.placed_problem import PlacedProblem
from mcm_passes.families.ring.moves.placement_state import LOCAL, WEIGHT, PlacementState
from mcm_passes.mapping.loads.live_peaks import LivePeaks, end_unit, hold
from mcm_passes.mapping.loads.tensor_columns import LIVE


@inlined_njit
def held_on_chip(s: PlacementState, c: int) -> int:
    """Blocks that a chip needs whatever comes and goes."""
    return int(s.totals[HELD, c] + s.totals[WEIGHT, c])


@lean_inner_njit
def find_peaks(
    p: PlacedProblem, s: PlacementState, room: LivePeaks, first: int, last: int, peak: Longs
) -> None:
    """Sets `peak[C]` to the blocks of what comes and goes on chips at its most, with its gaps.

    Live at once is what is made and read on one chip, in the order of the units.
    """
    room.live[:] = 0
    room.most[:] = 0
    made, tensors = p.demands.nodes.made, p.demands.tensors
    for u in range(s.chip.size):
        c = s.chip[u]
        if c < first or c > last:
            continue
        for e in range(made.ptr[u], made.ptr[u + 1]):
            t = made.entries[e]
            if not tensors.kind[t] & TO_HOST and s.last[t] <= c:
                hold(room, c, u, tensors.readers, t, tensors.amount[t, LIVE])
        end_unit(room, c, u)
    for c in range(first, last + 1):
        peak[c] = int(np.ceil(room.most[c] * p.ring.packing))


@inlined_njit
def weigh_memory(
    p: PlacedProblem,
    s: PlacementState,
    room: LivePeaks,
    c: int,
    looks: bool,
    peak: Longs,
    needed: Longs,
) -> int:
    """Sets what memory a chip needs.

    Args:
        p: the problem.
        s: the state.
        room: for counting.
        c: the chip.
        looks: whether the peak of what comes and goes may be found anew, which looks at all units,
            where the chip would overflow.
        peak: `[C]`, no fewer blocks than that; set where it is found anew.
        needed: `[C]`, in blocks; set for the chip.

    Returns:
        Blocks of weights that it streams: 0 where all fits, -1 where it overflows.
    """
    limit = peak[c]
    # All that comes and goes may be live at once, and is no more than that.
    most = int(np.ceil(s.totals[LOCAL, c] * p.ring.packing))
    if looks and held_on_chip(s, c) + min(most, limit) > p.ring.room[c]:
        find_peaks(p, s, room, c, c, peak)
        peak[c] = min(peak[c], limit)
    needed[c] = held_on_chip(s, c) + min(most, peak[c])
    if needed[c] <= p.ring.room[c]:
        return 0
    return _streamed(p, s, c, int(needed[c]))


@inlined_njit
def _streamed(p: PlacedProblem, s: PlacementState, c: int, needed: int) -> int:
    """As `streamed_weights`, for a chip that needs so many blocks."""
    largest, items = 0, p.demands.nodes.items
    for k in range(s.size[c] if p.ring.streams else 0):
        u = s.members[c, k]
        for e in range(items.ptr[u], items.ptr[u + 1]):
            largest = max(largest, int(p.demands.items.weight[items.entries[e]]))
    weights, ring = int(s.totals[WEIGHT, c]), p.ring
    return streamed_weights(needed, weights, largest, ring.room[c], ring.streams, ring.stream_slots)
