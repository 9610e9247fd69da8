"""Domains under the relay rule: intervals closed under the edges, and cover for every chip.

Two rules remain under relays: no edge runs against the ring (MCM, Eq. 2), and no chip below a
used one is empty (Eq. 3). Bounds propagation keeps the first: domains stay intervals with
`low[u] <= low[v]` and `high[u] <= high[v]` for every edge. The second is a matching: every chip up
to the highest lower bound needs a node of its own whose interval holds it. Where such a matching
exists the domains can be completed (two matched nodes in the wrong order can be exchanged, because
an ancestor has the smaller bounds), so that with this test a decision is never regretted.

The closure tells the intervals after a decision before anything is propagated, and one matching
is kept as witness, so that nearly all decisions are tested in a few dozen steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Ints
from mcm_passes.solver.lanes import LANES, Bounds, Words


# The matching of a group of rollouts is kept in plain arrays, here called by these names:
#   vacant: `[LANES, C]`, chips without decided nodes, the first `num_vacant[lane]` of each row;
#   place_of: `[LANES, C]`, where a chip stands in `vacant`, or -1;
#   witness: `[LANES, C]`, the node that the matching gives to a vacant chip, or -1;
#   top: `[LANES]`, the highest lower bound.


@njit(cache=True, nogil=True)
def hold(
    vacant: Ints, num_vacant: Ints, place_of: Ints, witness: Ints, lane: int, chip: int
) -> None:
    """Notes that a decided node is on `chip`."""
    place = place_of[lane, chip]
    if place >= 0:
        num_vacant[lane] -= 1
        last = vacant[lane, num_vacant[lane]]
        vacant[lane, place] = last
        place_of[lane, last] = place
        place_of[lane, chip] = -1
        witness[lane, chip] = -1


@njit(cache=True, nogil=True)
def keep_cover(
    vacant: Ints,
    num_vacant: Ints,
    witness: Ints,
    highest: int,
    low: Bounds,
    minus_high: Bounds,
    lane: int,
    u: int,
    chip: int,
    ancestors: Words,
    descendants: Words,
    open_bits: Words,
) -> int:
    """Mends the matching of a lane for `u` on `chip`, which is in its domain.

    Args:
        vacant: the matching, as above.
        num_vacant: likewise.
        witness: likewise.
        highest: `top[lane]`.
        low: `[n, LANES]`, before the decision.
        minus_high: `[n, LANES]`, negatives of the upper bounds, likewise.
        lane: the lane.
        u: the node to be decided.
        chip: the chip for it.
        ancestors: `[ceil(n / 64)]`, of `u`.
        descendants: `[ceil(n / 64)]`, of `u`.
        open_bits: `[ceil(n / 64)]`, nodes that may be undecided in some lane.

    Returns:
        -1 if every chip is covered. Otherwise `chip` is impossible: a chip k below `chip` is
        returned as k, where nothing above k is possible either; a chip k above it is returned as
        k, where nothing below k is possible; and `chip` itself where nothing more is known.
    """
    top = max(highest, chip)
    any_lost = False
    for i in range(num_vacant[lane]):
        k = vacant[lane, i]
        if k > top or k == chip:
            continue
        moved = descendants if k < chip else ancestors
        s = witness[lane, k]
        if s >= 0 and s != u and not _has(moved, s) and low[s, lane] <= k <= -minus_high[s, lane]:
            continue
        found, any_candidate = _free_node(
            vacant, num_vacant, witness, low, minus_high, lane, u, chip, k, moved, open_bits
        )
        if not any_candidate:
            return k
        witness[lane, k] = found
        any_lost |= found < 0
    if not any_lost:
        return -1
    # No free node for some chip: match all chips anew, with the domains as they would be.
    n, num_chips = low.shape[0], witness.shape[1]
    would_low, would_high = np.empty(n, np.int32), np.empty(n, np.int32)
    for v in range(n):
        would_low[v] = low[v, lane]
        would_high[v] = -minus_high[v, lane]
        if _has(descendants, v):
            would_low[v] = max(would_low[v], chip)
        elif _has(ancestors, v):
            would_high[v] = min(would_high[v], chip)
    needed = np.zeros(num_chips, np.bool_)
    for i in range(num_vacant[lane]):
        k = vacant[lane, i]
        needed[k] = k <= top and k != chip
    chosen = np.full(num_chips, -1, np.int32)
    if not match(would_low, would_high, u, needed, chosen):
        return chip
    witness[lane] = chosen
    return -1


@njit(cache=True, nogil=True)
def match(
    low: Ints, high: Ints, left_out: int, needed: npt.NDArray[np.bool_], chosen: Ints
) -> bool:
    """Gives each needed chip a node of its own, earliest deadline first.

    Args:
        low: `[n]`, intervals of the nodes.
        high: `[n]`, likewise.
        left_out: a node that is given to none, or -1.
        needed: `[C]`, chips that need a node.
        chosen: `[C]`, all -1; the nodes are written there.

    Returns:
        Whether all have one.
    """
    num_chips = needed.size
    # Nodes by lower bound, then waiting lists by upper bound.
    first, waiting = np.full(num_chips, -1, np.int32), np.full(num_chips, -1, np.int32)
    after = np.empty(low.size, np.int32)
    for v in range(low.size):
        if v != left_out:
            after[v] = first[low[v]]
            first[low[v]] = v
    for k in range(num_chips):
        v = first[k]
        while v >= 0:
            following = after[v]
            after[v] = waiting[high[v]]
            waiting[high[v]] = v
            v = following
        if not needed[k]:
            continue
        for deadline in range(k, num_chips):
            if waiting[deadline] >= 0:
                chosen[k] = waiting[deadline]
                waiting[deadline] = after[chosen[k]]
                break
        if chosen[k] < 0:
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def _has(bits: Words, node: int) -> bool:
    return bool((bits[node >> 6] >> np.uint64(node & 63)) & np.uint64(1))


@njit(cache=True, nogil=True)
def _free_node(
    vacant: Ints,
    num_vacant: Ints,
    witness: Ints,
    low: Bounds,
    minus_high: Bounds,
    lane: int,
    u: int,
    chip: int,
    k: int,
    moved: Words,
    open_bits: Words,
) -> tuple[int, bool]:
    """A node for chip k that is witness for no other, and whether any node could be there.

    `moved` are the nodes that the decision moves away from k; other arguments as `keep_cover`.
    """
    any_candidate = False
    words = open_bits.size
    # Candidates below are most likely just before u, those above just after it.
    step = -1 if k < chip else 1
    w = u >> 6
    for _ in range(words):
        bits = open_bits[w] & ~moved[w]
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + _position(lowest)
            if low[v, lane] <= k <= -minus_high[v, lane] and v != u:
                any_candidate = True
                taken = False
                for i in range(num_vacant[lane]):
                    taken |= witness[lane, vacant[lane, i]] == v
                if not taken:
                    return v, True
        w += step
        if w == words:
            w = 0
        elif w < 0:
            w = words - 1
    return -1, any_candidate


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITIONS = np.zeros(64, np.int64)
for _bit in range(64):
    _POSITIONS[((1 << _bit) * int(_DE_BRUIJN) % (1 << 64)) >> 58] = _bit


@njit(cache=True, nogil=True, inline="always")
def _position(power: int) -> int:
    """Position of the only bit that is set (Leiserson, Prokop and Randall 1998)."""
    return _POSITIONS[(np.uint64(power) * _DE_BRUIJN) >> np.uint64(58)]
