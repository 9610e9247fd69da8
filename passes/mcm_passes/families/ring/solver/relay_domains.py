"""Domains under the relay rule: intervals closed under the edges, and cover for every chip.

Two rules remain under relays: no edge runs against the ring (MCM, Eq. 2), and no chip below a
used one is empty (Eq. 3). Bounds propagation keeps the first: domains stay intervals with
`low[u] <= low[v]` and `high[u] <= high[v]` for every edge. The second is a matching: every chip up
to the highest lower bound needs a node of its own whose interval holds it. Where such a matching
exists the domains can be completed (two matched nodes in the wrong order can be exchanged, because
an ancestor has the smaller bounds), so that with this test a decision is never regretted.

The closure tells the intervals after a decision before anything is propagated, and one matching
is kept as witness, so that nearly all decisions are tested in a few dozen steps. Where it breaks,
a chip takes a spare node, or another chip passes its own on (augmenting paths; Kuhn 1955, *The
Hungarian Method for the Assignment Problem*).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Ints
from mcm_passes.families.ring.solver.lanes import LANES, Bounds, Words
from mcm_passes.families.ring.solver.node_bits import has, lowest_position


class Cover(NamedTuple):
    """The matchings of a group of rollouts.

    Attributes:
        vacant: `[LANES, C]`, chips without decided nodes, the first `num_vacant[lane]` of each row.
        num_vacant: `[LANES]`.
        place_of: `[LANES, C]`, where a chip stands in `vacant`, or -1.
        witness: `[LANES, C]`, the node that the matching gives to a vacant chip, or -1.
        open_bits: `[W]`, W = ceil(n / 64), nodes that may be undecided in some lane.
        lowest: `[W, LANES]`, no open node of a word of 64 has a lower bound below it.
        minus_highest: `[W, LANES]`, likewise for the negatives of upper bounds.
        shrunk_at: `[W]`, the step at which both were last computed.
    """

    vacant: Ints
    num_vacant: Ints
    place_of: Ints
    witness: Ints
    open_bits: Words
    lowest: Bounds
    minus_highest: Bounds
    shrunk_at: Ints


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
def still_covered(
    vacant: Ints,
    num_vacant: Ints,
    witness: Ints,
    low: Bounds,
    minus_high: Bounds,
    lane: int,
    top: int,
    u: int,
    chip: int,
    ancestors: Words,
    descendants: Words,
) -> bool:
    """Whether the matching of a lane holds with `u` on `chip`, which is in its domain.

    Args:
        vacant: as in `Cover`; likewise those that follow.
        num_vacant: likewise.
        witness: likewise.
        low: `[n, LANES]`, before the decision.
        minus_high: `[n, LANES]`, negatives of the upper bounds, likewise.
        lane: the lane.
        top: the highest lower bound, or `chip` if that is higher.
        u: the node to be decided.
        chip: the chip for it.
        ancestors: `[n, W]`.
        descendants: `[n, W]`.
    """
    for i in range(num_vacant[lane]):
        k = vacant[lane, i]
        if k <= top and k != chip:
            s = witness[lane, k]
            if s < 0 or s == u or not low[s, lane] <= k <= -minus_high[s, lane]:
                return False
            moved = descendants if k < chip else ancestors
            if (moved[u, s >> 6] >> np.uint64(s & 63)) & np.uint64(1):
                return False
    return True


@njit(cache=True, nogil=True)
def mend(
    cover: Cover,
    low: Bounds,
    minus_high: Bounds,
    lane: int,
    top: int,
    u: int,
    chip: int,
    ancestors: Words,
    descendants: Words,
    step: int,
    asks_why: bool,
) -> int:
    """Mends the matching of a lane for `u` on `chip`, where it does not hold.

    Args:
        cover: the matchings; as it was where the answer is not -1.
        low: as for `still_covered`; likewise those that follow.
        minus_high: likewise.
        lane: likewise.
        top: likewise.
        u: likewise.
        chip: likewise.
        ancestors: `[W]`, of `u`.
        descendants: `[W]`, of `u`.
        step: number of the decision.
        asks_why: whether the answer matters where it is not -1.

    Returns:
        -1 if every chip is covered. Otherwise `chip` is impossible: a chip k below `chip` is
        returned as k, where nothing above k is possible either; a chip k above it is returned as
        k, where nothing below k is possible; and `chip` itself where nothing more is known.
    """
    num_chips = cover.witness.shape[1]
    # The matching as it would be.
    mine = np.full(num_chips, -1, np.int32)
    spare = cover.open_bits.copy()
    _clear(spare, u)
    lost = np.empty(num_chips, np.int32)
    num_lost = 0
    for k in range(top + 1):
        if k == chip or cover.place_of[lane, k] < 0:
            continue
        s = cover.witness[lane, k]
        moved = descendants if k < chip else ancestors
        if s < 0 or s == u or has(moved, s) or not low[s, lane] <= k <= -minus_high[s, lane]:
            lost[num_lost] = k
            num_lost += 1
        else:
            mine[k] = s
            _clear(spare, s)
    left = 0
    for i in range(num_lost):
        k = lost[i]
        moved = descendants if k < chip else ancestors
        s = _spare_node(cover, low, minus_high, lane, u, k, moved, spare, step)
        if s >= 0:
            mine[k] = s
            _clear(spare, s)
            continue
        possible = False
        for y in range(top + 1):
            s = mine[y]
            if s >= 0 and low[s, lane] <= k <= -minus_high[s, lane] and not has(moved, s):
                possible = True
                break
        if not possible:
            return k
        lost[left] = k
        left += 1
    if left == 0:
        cover.witness[lane] = mine
        return -1
    # Domains of these nodes if the decision were taken.
    would_low, would_high = np.full(num_chips, 1, np.int32), np.zeros(num_chips, np.int32)
    for k in range(top + 1):
        if mine[k] >= 0:
            _bounds_of(
                low,
                minus_high,
                lane,
                mine[k],
                chip,
                ancestors,
                descendants,
                would_low,
                would_high,
                k,
            )
    # No spare node for some: other chips have to pass theirs on, found by search in breadth.
    reached = np.zeros(num_chips, np.bool_)
    towards, queue = np.empty(num_chips, np.int32), np.empty(num_chips, np.int32)
    any_lost = False
    for i in range(left):
        k = lost[i]
        reached[k] = True
        towards[k] = -1
        queue[0] = k
        done, size, node, x = 0, 1, -1, k
        while done < size and node < 0:
            x = queue[done]
            done += 1
            for y in range(top + 1):
                if reached[y] or not would_low[y] <= x <= would_high[y]:
                    continue
                reached[y] = True
                towards[y] = x
                moved = descendants if y < chip else ancestors
                node = _spare_node(cover, low, minus_high, lane, u, y, moved, spare, step)
                if node >= 0:
                    x = y
                    break
                queue[size] = y
                size += 1
        if node < 0:
            if not asks_why:
                return chip
            any_lost = True
            continue
        _clear(spare, node)
        for j in range(size):
            reached[queue[j]] = False
        reached[x] = False
        while x >= 0:
            passed = mine[x]
            mine[x] = node
            _bounds_of(
                low, minus_high, lane, node, chip, ancestors, descendants, would_low, would_high, x
            )
            node, x = passed, towards[x]
    if not any_lost:
        cover.witness[lane] = mine
        return -1
    # What was reached in vain has too few nodes, which serve no other chip.
    count = 0
    for k in range(top + 1):
        if reached[k] and mine[k] >= 0:
            mine[count] = mine[k]
            would_low[count], would_high[count] = would_low[k], would_high[k]
            count += 1
    failed = match(mine[:count], would_low, would_high, reached, towards)
    # Chips up to `failed` cannot all be covered, wherever above them `u` goes.
    if failed < chip:
        return failed
    # Likewise from the other end.
    last = num_chips - 1
    for i in range(count):
        would_low[i], would_high[i] = last - would_high[i], last - would_low[i]
    failed = last - match(mine[:count], would_low, would_high, reached[::-1].copy(), towards)
    return max(failed, chip)


@njit(cache=True, nogil=True, inline="always")
def _clear(bits: Words, node: int) -> None:
    bits[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))


@njit(cache=True, nogil=True)
def _bounds_of(
    low: Bounds,
    minus_high: Bounds,
    lane: int,
    node: int,
    chip: int,
    ancestors: Words,
    descendants: Words,
    would_low: Ints,
    would_high: Ints,
    k: int,
) -> None:
    """Notes for chip k the domain of its `node` if the decision for `chip` were taken."""
    would_low[k], would_high[k] = low[node, lane], -minus_high[node, lane]
    if has(descendants, node):
        would_low[k] = max(would_low[k], chip)
    elif has(ancestors, node):
        would_high[k] = min(would_high[k], chip)


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


@njit(cache=True, nogil=True)
def _spare_node(
    cover: Cover,
    low: Bounds,
    minus_high: Bounds,
    lane: int,
    u: int,
    k: int,
    moved: Words,
    spare: Words,
    step: int,
) -> int:
    """One of the nodes `spare` that may be on chip k and are not `moved`, near `u`; -1 if none."""
    words = spare.size
    at = u >> 6
    for turn in range(2 * words):
        # Outwards, in turns.
        w = at + (turn + 1) // 2 if turn & 1 else at - turn // 2
        if not 0 <= w < words or not cover.lowest[w, lane] <= k <= -cover.minus_highest[w, lane]:
            continue
        bits = spare[w] & ~moved[w]
        tried = 0
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + lowest_position(lowest)
            if low[v, lane] <= k <= -minus_high[v, lane]:
                return v
            tried += 1
        if tried > _WORTH_SHRINKING and cover.shrunk_at[w] != step:
            cover.shrunk_at[w] = step
            _least_of(low, cover.open_bits[w], w, cover.lowest[w])
            _least_of(minus_high, cover.open_bits[w], w, cover.minus_highest[w])
    return -1


_WORTH_SHRINKING = 8
"""Nodes of a word that must have been tried in vain before its bounds are computed anew."""


@njit(cache=True, nogil=True)
def _least_of(rows: Bounds, bits: np.uint64, w: int, least: Bounds) -> None:
    """Sets `least` to the least of the rows of the nodes `bits` of word w, in each lane."""
    first = True
    while bits:
        lowest = bits & (~bits + np.uint64(1))
        bits ^= lowest
        v = (w << 6) + lowest_position(lowest)
        if first:
            least[:] = rows[v]
            first = False
        else:
            for lane in range(LANES):
                least[lane] = min(least[lane], rows[v, lane])
