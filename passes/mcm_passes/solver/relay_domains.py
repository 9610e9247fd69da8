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
from mcm_passes.solver.lanes import Bounds, Words

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
    place_of: Ints,
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
        place_of: likewise.
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
    vacancies = num_vacant[lane]
    lost = -1
    for i in range(vacancies):
        k = vacant[lane, i]
        if k <= top and k != chip:
            s = witness[lane, k]
            moved = descendants if k < chip else ancestors
            if s < 0 or s == u or _has(moved, s) or not low[s, lane] <= k <= -minus_high[s, lane]:
                lost = k
                break
    if lost < 0:
        return -1
    # Nodes that no witness is; bits of `spare` stay right while witnesses change.
    spare = open_bits.copy()
    spare[u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))
    for i in range(vacancies):
        s = witness[lane, vacant[lane, i]]
        if s >= 0:
            spare[s >> 6] &= ~(np.uint64(1) << np.uint64(s & 63))
    any_lost = False
    for k in range(top + 1):
        if k == chip or place_of[lane, k] < 0:
            continue
        moved = descendants if k < chip else ancestors
        s = witness[lane, k]
        if s >= 0 and s != u and not _has(moved, s) and low[s, lane] <= k <= -minus_high[s, lane]:
            continue
        if s >= 0 and s != u:
            spare[s >> 6] |= open_bits[s >> 6] & (np.uint64(1) << np.uint64(s & 63))
        found = _spare_node(low, minus_high, lane, u, k, moved, spare)
        witness[lane, k] = found
        if found >= 0:
            spare[found >> 6] &= ~(np.uint64(1) << np.uint64(found & 63))
            continue
        any_lost = True
        possible = False
        for i in range(vacancies):
            s = witness[lane, vacant[lane, i]]
            if s >= 0 and s != u and not _has(moved, s):
                possible |= low[s, lane] <= k <= -minus_high[s, lane]
        if not possible:
            return k
    if not any_lost:
        return -1
    # No spare node for some chip: match all chips anew, with the domains as they would be.
    num_chips = witness.shape[1]
    needed = np.zeros(num_chips, np.bool_)
    for i in range(vacancies):
        k = vacant[lane, i]
        needed[k] = k <= top and k != chip
    below, above = needed[:chip].any(), needed[chip:].any()
    nodes = np.empty(low.shape[0], np.int32)
    would_low, would_high = np.empty(nodes.size, np.int32), np.empty(nodes.size, np.int32)
    count = 0
    for w in range(open_bits.size):
        bits = open_bits[w]
        # What the decision moves to one side of `chip` is of no use on the other.
        if not above:
            bits &= ~descendants[w]
        if not below:
            bits &= ~ancestors[w]
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + _position(lowest)
            nodes[count] = v
            would_low[count] = low[v, lane]
            would_high[count] = -minus_high[v, lane]
            if descendants[w] & lowest:
                would_low[count] = max(would_low[count], chip)
            elif ancestors[w] & lowest:
                would_high[count] = min(would_high[count], chip)
            count += v != u
    nodes = nodes[:count]
    chosen = np.empty(num_chips, np.int32)
    failed = match(nodes, would_low, would_high, needed, chosen)
    if failed < 0:
        witness[lane] = chosen
        return -1
    # Chips up to `failed` cannot all be covered, wherever above them `u` goes.
    if failed < chip:
        return failed
    # Likewise from the other end.
    last = num_chips - 1
    for i in range(count):
        would_low[i], would_high[i] = last - would_high[i], last - would_low[i]
    failed = last - match(nodes, would_low, would_high, needed[::-1].copy(), chosen)
    return max(failed, chip)


@njit(cache=True, nogil=True)
def match(nodes: Ints, low: Ints, high: Ints, needed: npt.NDArray[np.bool_], chosen: Ints) -> int:
    """Gives each needed chip a node of its own, earliest deadline first.

    Args:
        nodes: `[m]`.
        low: `[m]` at least, intervals of the nodes.
        high: `[m]` at least, likewise.
        needed: `[C]`, chips that need a node.
        chosen: `[C]`; the nodes are written there, and -1 for chips without.

    Returns:
        -1 if all have one; otherwise the first chip that cannot be covered together with all
        needed chips below it.
    """
    num_chips = needed.size
    chosen[:] = -1
    # Nodes by lower bound, then waiting lists by upper bound.
    first, waiting = np.full(num_chips, -1, np.int32), np.full(num_chips, -1, np.int32)
    after = np.empty(nodes.size, np.int32)
    for i in range(nodes.size):
        after[i] = first[low[i]]
        first[low[i]] = i
    for k in range(num_chips):
        i = first[k]
        while i >= 0:
            following = after[i]
            after[i] = waiting[high[i]]
            waiting[high[i]] = i
            i = following
        if not needed[k]:
            continue
        for deadline in range(k, num_chips):
            i = waiting[deadline]
            if i >= 0:
                chosen[k] = nodes[i]
                waiting[deadline] = after[i]
                break
        if chosen[k] < 0:
            return k
    return -1


@njit(cache=True, nogil=True, inline="always")
def _has(bits: Words, node: int) -> bool:
    return bool((bits[node >> 6] >> np.uint64(node & 63)) & np.uint64(1))


@njit(cache=True, nogil=True)
def _spare_node(
    low: Bounds, minus_high: Bounds, lane: int, u: int, k: int, moved: Words, spare: Words
) -> int:
    """One of the nodes `spare` that may be on chip k and are not `moved`, near `u`; -1 if none."""
    words = spare.size
    at = u >> 6
    for step in range(2 * words):
        # Outwards, in turns.
        w = at + (step + 1) // 2 if step & 1 else at - step // 2
        if not 0 <= w < words:
            continue
        bits = spare[w] & ~moved[w]
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + _position(lowest)
            if low[v, lane] <= k <= -minus_high[v, lane]:
                return v
    return -1


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITIONS = np.zeros(64, np.int64)
for _bit in range(64):
    _POSITIONS[((1 << _bit) * int(_DE_BRUIJN) % (1 << 64)) >> 58] = _bit


@njit(cache=True, nogil=True, inline="always")
def _position(power: int) -> int:
    """Position of the only bit that is set (Leiserson, Prokop and Randall 1998)."""
    return _POSITIONS[(np.uint64(power) * _DE_BRUIJN) >> np.uint64(58)]
