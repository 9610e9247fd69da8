"""The best chain of order ideals, found in one walk over them from the smallest to the largest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs
from mcm_passes.families.ring.exact.chip_demands import ChipDemands
from mcm_passes.families.ring.exact.ideal_windows import (
    Cuts,
    PackingRatio,
    WindowCost,
    arrivals_end,
    beside_no_dependency,
    window_cost,
)
from mcm_passes.families.ring.loads.chip_memory import streamed_weights
from mcm_passes.partitioning.rule_graph import Words

SLACK = 1e-9
"""Relative room for sums that the fast model adds in another order."""


class Covers(NamedTuple):
    """Which ideal holds one node more than another, as in `OrderIdeals`."""

    ptr: Longs
    ideals: Ints
    nodes: Ints


class Package(NamedTuple):
    """The chips, with memory in blocks of the alignment.

    Attributes:
        speed: `[C]`.
        sram_room: `[C]`.
        most_room: of a window; infinite where weights may be streamed.
        link_bytes_per_s: of each link.
        host_bytes_per_s: of each host channel.
        stream_bytes_per_s: of weights; 0 where they are not streamed.
        packing: memory for activations per peak of live bytes.
        block_bytes: the alignment.
        stream_buffers: buffers for the largest weight where weights are streamed.
        alike: whether it does not matter which chip has which units.
    """

    speed: Floats
    sram_room: Longs
    most_room: float
    link_bytes_per_s: float
    host_bytes_per_s: float
    stream_bytes_per_s: float
    packing: PackingRatio
    block_bytes: int
    stream_buffers: int
    alike: bool


class Triangles(NamedTuple):
    """How windows judge long dependencies, see `TriangleReading`.

    Attributes:
        adjacent: whether by that reading.
        between: whether by that one.
        ancestors: `[n, words]`, bitsets.
        descendants: `[n, words]`, bitsets.
    """

    adjacent: bool
    between: bool
    ancestors: Words
    descendants: Words


@njit(cache=True)
def best_chain(
    d: ChipDemands,
    cuts: Cuts,
    covers: Covers,
    pinned: Longs,
    package: Package,
    triangles: Triangles,
    ceiling_s: float,
    most_windows: int,
) -> tuple[Floats, Ints, int]:
    """The least period of k chips up to each ideal, where that is below a ceiling.

    Windows are weighed as they are met and none is kept, so that memory grows with the ideals
    only. Where the chips that are left could not do below the ceiling what is left to do, nothing
    is pursued: with a ceiling near the optimum that leaves out nearly all.

    Args:
        d: the demands.
        cuts: what crosses the ideals.
        covers: of the ideals.
        pinned: `[I, C + 1]`, how many nodes of each ideal are pinned to each chip, and to any.
        package: the chips.
        triangles: how long dependencies are judged.
        ceiling_s: chains from this period on are left out; may be infinite.
        most_windows: gives up beyond so many.

    Returns:
        `[I, C + 1]` each: the period, infinite where k chips can't hold exactly that ideal, and
        the ideal before; and the number of windows, which is beyond `most_windows` where it
        gave up.
    """
    count, words = cuts.members.shape
    chips = package.speed.size
    best = np.full((count, chips + 1), np.inf)
    came_from = np.full((count, chips + 1), -1, np.int32)
    best[0, 0] = d.host_s
    left = _work_beyond(d, covers)
    capacity = np.zeros(chips + 1)
    for k in range(chips - 1, -1, -1):
        capacity[k] = capacity[k + 1] + package.speed[k] * ceiling_s * (1.0 + SLACK)
    most_s = ceiling_s * package.speed.max() * (1.0 + SLACK)
    most_crossing = ceiling_s * package.link_bytes_per_s * (1.0 + SLACK)
    seen = np.full(count, -1, np.int64)
    queue = np.empty(count, np.int64)
    stamp = np.full(d.item_s.size, -1, np.int64)
    dying = np.zeros(d.work_s.size, np.int64)
    inside = np.zeros(words, np.uint64)
    windows = 0
    # The fewest chips that hold each ideal below the ceiling.
    fewest = np.full(count, chips + 1, np.int64)
    fewest[0] = 0
    on_chip = np.empty(chips, np.int64)
    for i in range(count - 1):
        if cuts.crossing_bytes[i] > most_crossing:
            continue
        # The numbers of chips with which a chain that ends here may go on.
        going = 0
        for k in range(fewest[i], chips):
            fewer_s = _with_fewer(best, fewest, package, i, k)
            if left[i] <= capacity[k] and best[i, k] < min(ceiling_s, fewer_s):
                on_chip[going] = k
                going += 1
        if not going:
            continue
        most_left = capacity[on_chip[0] + 1]
        head, tail = 0, 1
        queue[0] = i
        while head < tail:
            j = queue[head]
            head += 1
            # Whether the next chip can do enough for the others, and less than is known already.
            wanted = False
            if j != i and left[j] <= most_left:
                work_s = (left[i] - left[j]) * (1.0 - SLACK)
                for k in on_chip[:going]:
                    least_s = max(best[i, k], work_s / package.speed[k])
                    wanted |= least_s < _to_beat(best, fewest, package, ceiling_s, j, k + 1)
            if wanted:
                windows += 1
                if windows > most_windows:
                    return best, came_from, windows
                for w in range(words):
                    inside[w] = cuts.members[j, w] & ~cuts.members[i, w]
                cost = window_cost(d, cuts, i, j, inside, stamp, windows, dying, package.packing)
                if cost.seconds > most_s or cost.weight_room > package.most_room:
                    # Both only grow with the window.
                    continue
                if (
                    cost.seconds + cost.relay_s <= most_s
                    and cost.room <= package.most_room
                    and cuts.crossing_bytes[j] <= most_crossing
                    and _keeps_rule(d, cuts, triangles, inside, i, j)
                ):
                    for k in on_chip[:going]:
                        own = pinned[j, k] - pinned[i, k]
                        if left[j] > capacity[k + 1] or pinned[j, chips] - pinned[i, chips] != own:
                            continue
                        period_s = max(best[i, k], _period(d, cuts, package, cost, i, j, k))
                        if period_s < _to_beat(best, fewest, package, ceiling_s, j, k + 1):
                            best[j, k + 1] = period_s
                            came_from[j, k + 1] = i
                            fewest[j] = min(fewest[j], k + 1)
            for e in range(covers.ptr[j], covers.ptr[j + 1]):
                larger = covers.ideals[e]
                if seen[larger] != i:
                    seen[larger] = i
                    if left[i] - left[larger] <= most_s:
                        queue[tail] = larger
                        tail += 1
    return best, came_from, windows


@njit(cache=True)
def _keeps_rule(
    d: ChipDemands, cuts: Cuts, triangles: Triangles, inside: Words, i: int, j: int
) -> bool:
    """Whether a window is allowed by the reading of the triangle rule."""
    if triangles.adjacent and not arrivals_end(cuts, d, i, j):
        return False
    return not triangles.between or beside_no_dependency(
        cuts, d, i, j, inside, triangles.ancestors, triangles.descendants
    )


@njit(cache=True)
def _to_beat(
    best: Floats, fewest: Longs, package: Package, ceiling_s: float, j: int, chips: int
) -> float:
    """What a chain of so many chips to ideal j has to stay below to be of use."""
    fewer_s = _with_fewer(best, fewest, package, j, chips)
    return float(min(ceiling_s, fewer_s, best[j, chips]))


@njit(cache=True)
def _with_fewer(best: Floats, fewest: Longs, package: Package, j: int, chips: int) -> float:
    """Least period up to an ideal with fewer chips, where all chips are alike.

    What fewer can do need not be done by more.
    """
    least_s = np.inf
    if package.alike:
        for fewer in range(fewest[j], chips):
            least_s = min(least_s, best[j, fewer])
    return least_s


@njit(cache=True)
def _work_beyond(d: ChipDemands, covers: Covers) -> Floats:
    """`[I]`, seconds at speed 1 of the nodes that an ideal lacks; exactly 0 for the last."""
    count = covers.ptr.size - 1
    left = np.zeros(count)
    for i in range(count - 2, -1, -1):
        e = covers.ptr[i]
        left[i] = left[covers.ideals[e]] + d.work_s[covers.nodes[e]]
    return left


@njit(cache=True)
def _period(
    d: ChipDemands, cuts: Cuts, package: Package, cost: WindowCost, i: int, j: int, k: int
) -> float:
    """The slowest of what chip k and the link behind it do; infinite where memory is too small."""
    room = cost.room
    if k == 0:
        room += d.entry_room
    if j == cuts.crossing_bytes.size - 1:
        room += d.exit_room
    period_s = (cost.seconds + cost.relay_s) / package.speed[k]
    period_s = max(period_s, cost.in_bytes / package.host_bytes_per_s)
    period_s = max(period_s, cost.out_bytes / package.host_bytes_per_s)
    period_s = max(period_s, cuts.crossing_bytes[j] / package.link_bytes_per_s)
    streamed = streamed_weights(
        room,
        cost.weight_room,
        cost.largest_weight,
        package.sram_room[k],
        package.stream_bytes_per_s > 0.0,
        package.stream_buffers,
    )
    if streamed < 0:
        return np.inf
    if streamed > 0:
        period_s = max(period_s, package.block_bytes * streamed / package.stream_bytes_per_s)
    return float(period_s)
