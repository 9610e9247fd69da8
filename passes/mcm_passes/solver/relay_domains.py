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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Ints, Longs

Words = npt.NDArray[np.uint64]


class RelayGraph(NamedTuple):
    """What all rollouts share; arrays as in `RuleGraph`, bitsets as from `closure`."""

    next_ptr: Longs
    next_nodes: Ints
    before_ptr: Longs
    before_nodes: Ints
    ancestors: Words
    descendants: Words


class RelayState(NamedTuple):
    """Domains of one rollout.

    Attributes:
        low: `[n]`.
        high: `[n]`.
        open_bits: `[ceil(n / 64)]`, nodes that are not decided.
        held: `[C]`, decided nodes on each chip.
        witness: `[C]`, the node that the matching gives to a chip without decided nodes, or -1.
        covers: `[n]`, the chip that a node is witness for, or -1.
        top: `[1]`, the highest lower bound.
        word_low: `[ceil(n / 64)]`, at most the lowest `low` of the open nodes of a word.
        word_high: `[ceil(n / 64)]`, at least the highest `high` of them.
        node_room: `[4, n]`, room for propagation and matching.
        chip_room: `[4, C]`, likewise.
    """

    low: Ints
    high: Ints
    open_bits: Words
    held: Ints
    witness: Ints
    covers: Ints
    top: Ints
    word_low: Ints
    word_high: Ints
    node_room: Ints
    chip_room: Ints


@njit(cache=True, nogil=True, inline="always")
def new_state(num_nodes: int, num_chips: int) -> RelayState:
    """Room for a rollout; `start` fills it."""
    words = (num_nodes + 63) // 64
    return RelayState(
        np.empty(num_nodes, np.int32),
        np.empty(num_nodes, np.int32),
        np.empty(words, np.uint64),
        np.empty(num_chips, np.int32),
        np.empty(num_chips, np.int32),
        np.empty(num_nodes, np.int32),
        np.empty(1, np.int32),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty((4, num_nodes), np.int32),
        np.empty((4, num_chips), np.int32),
    )


@njit(cache=True, nogil=True, inline="always")
def start(state: RelayState, low: Ints, high: Ints) -> bool:
    """Opens all nodes with the given closed domains, and matches every chip that needs it.

    Returns:
        False where the domains admit no valid partition.
    """
    n = low.size
    state.low[:] = low
    state.high[:] = high
    state.open_bits[:] = ~np.uint64(0)
    if n & 63:
        state.open_bits[n >> 6] = (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)
    state.held[:] = 0
    state.witness[:] = -1
    state.covers[:] = -1
    state.word_low[:] = 0
    state.word_high[:] = state.held.size
    state.top[0] = 0
    for u in range(n):
        state.top[0] = max(state.top[0], low[u])
        if low[u] > high[u]:
            return False
    lost = state.chip_room[0]
    lost[:] = 0
    lost[: state.top[0] + 1] = 1
    return _match_all(state, state.low, state.high, -1, lost)


@njit(cache=True, nogil=True, inline="always")
def _has(bits: Words, node: int) -> bool:
    return bool((bits[node >> 6] >> np.uint64(node & 63)) & np.uint64(1))


@njit(cache=True, nogil=True, inline="always")
def place(graph: RelayGraph, state: RelayState, u: int, chip: int) -> int:
    """Decides that the open node `u` goes to `chip`, which is in its domain.

    Returns:
        -1 if it is done. Otherwise nothing has changed and `chip` is impossible: a chip k below
        `chip` is returned as k, where nothing above k is possible either; a chip k above it is
        returned as k, where nothing below k is possible; and `chip` itself where nothing more is
        known.
    """
    answer = _keep_cover(graph, state, u, chip)
    if answer != -1:
        return answer
    if state.covers[u] >= 0:
        state.witness[state.covers[u]] = -1
        state.covers[u] = -1
    if state.witness[chip] >= 0:
        state.covers[state.witness[chip]] = -1
        state.witness[chip] = -1
    state.held[chip] += 1
    state.open_bits[u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))
    state.top[0] = max(state.top[0], chip)
    raises, lowers = chip > state.low[u], chip < state.high[u]
    state.low[u] = chip
    state.high[u] = chip
    if raises:
        _raise(graph, state, u, chip)
    if lowers:
        _lower(graph, state, u, chip)
    return -1


@njit(cache=True, nogil=True, inline="always")
def _raise(graph: RelayGraph, state: RelayState, u: int, chip: int) -> None:
    stack = state.node_room[0]
    stack[0] = u
    size = 1
    while size:
        size -= 1
        x = stack[size]
        for k in range(graph.next_ptr[x], graph.next_ptr[x + 1]):
            v = graph.next_nodes[k]
            if state.low[v] < chip:
                state.low[v] = chip
                stack[size] = v
                size += 1


@njit(cache=True, nogil=True, inline="always")
def _lower(graph: RelayGraph, state: RelayState, u: int, chip: int) -> None:
    stack = state.node_room[0]
    stack[0] = u
    size = 1
    while size:
        size -= 1
        x = stack[size]
        for k in range(graph.before_ptr[x], graph.before_ptr[x + 1]):
            v = graph.before_nodes[k]
            if state.high[v] > chip:
                state.high[v] = chip
                stack[size] = v
                size += 1


@njit(cache=True, nogil=True, inline="always")
def _keep_cover(graph: RelayGraph, state: RelayState, u: int, chip: int) -> int:
    """Mends the matching for `u` on `chip`; answers as `place`, and -1 where all are covered."""
    top = max(state.top[0], chip)
    ancestors, descendants = graph.ancestors[u], graph.descendants[u]
    missing = False
    for k in range(top + 1):
        if k == chip or state.held[k] > 0:
            continue
        missing |= not _still_covers(state, u, k, descendants if k < chip else ancestors)
    if not missing:
        return -1
    lost, any_lost = state.chip_room[0], False
    lost[:] = 0
    for k in range(top + 1):
        if k == chip or state.held[k] > 0:
            continue
        moved = descendants if k < chip else ancestors
        if _still_covers(state, u, k, moved):
            continue
        found, any_candidate = _free_node(state, u, chip, k, moved)
        if not any_candidate:
            return k
        if found >= 0:
            if state.witness[k] >= 0:
                state.covers[state.witness[k]] = -1
            state.witness[k] = found
            state.covers[found] = k
        else:
            any_lost = True
    if not any_lost:
        return -1
    # No free node for some chip: match all chips anew, with the domains as they would be.
    low, high = state.node_room[1], state.node_room[2]
    for w in range(state.open_bits.size):
        bits = state.open_bits[w]
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + _position(lowest)
            low[v], high[v] = state.low[v], state.high[v]
            if descendants[w] & lowest:
                low[v] = max(low[v], chip)
            elif ancestors[w] & lowest:
                high[v] = min(high[v], chip)
    for k in range(top + 1):
        lost[k] = 1 if k != chip and state.held[k] == 0 else 0
    return -1 if _match_all(state, low, high, u, lost) else chip


@njit(cache=True, nogil=True, inline="always")
def _still_covers(state: RelayState, u: int, k: int, moved: Words) -> bool:
    """Whether chip k keeps its witness when `u` is decided and `moved` go away from k."""
    s = state.witness[k]
    if s < 0 or s == u or _has(moved, s):
        return False
    return bool(state.low[s] <= k <= state.high[s])


@njit(cache=True, nogil=True, inline="always")
def _free_node(state: RelayState, u: int, chip: int, k: int, moved: Words) -> tuple[int, bool]:
    """An open node for chip k that is witness for no other, and whether any open node holds k.

    Args:
        state: the domains before `u` is decided.
        u: the node to be decided.
        chip: the chip for `u`.
        k: another chip.
        moved: nodes that the decision moves away from k.
    """
    any_candidate = False
    words = state.open_bits.size
    # Candidates below are most likely just before u, those above just after it.
    step = -1 if k < chip else 1
    w = u >> 6
    for _ in range(words):
        bits = state.open_bits[w] & ~moved[w]
        if bits and state.word_low[w] <= k <= state.word_high[w]:
            complete = bits == state.open_bits[w]
            low, high = state.held.size, -1
            while bits:
                lowest = bits & (~bits + np.uint64(1))
                bits ^= lowest
                v = (w << 6) + _position(lowest)
                low, high = min(low, state.low[v]), max(high, state.high[v])
                if state.low[v] <= k <= state.high[v] and v != u:
                    any_candidate = True
                    if state.covers[v] < 0:
                        return v, True
            if complete:
                state.word_low[w], state.word_high[w] = low, high
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


@njit(cache=True, nogil=True, inline="always")
def _match_all(state: RelayState, low: Ints, high: Ints, u: int, chips: Ints) -> bool:
    """Matches each of `chips` with an open node by earliest deadline; False where one has none.

    The witnesses change only where all chips are matched.

    Args:
        state: whose matching is made.
        low: `[n]`, bounds to match by.
        high: `[n]`, likewise.
        u: a node to leave out, or -1.
        chips: `[C]`, 1 for chips that need a node.
    """
    num_chips = chips.size
    # Open nodes by lower bound, then waiting lists by upper bound.
    first, waiting, chosen = state.chip_room[1], state.chip_room[2], state.chip_room[3]
    after = state.node_room[3]
    first[:] = -1
    waiting[:] = -1
    chosen[:] = -1
    for w in range(state.open_bits.size):
        bits = state.open_bits[w]
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + _position(lowest)
            if v != u:
                after[v] = first[low[v]]
                first[low[v]] = v
    for k in range(num_chips):
        v = first[k]
        while v >= 0:
            following = after[v]
            after[v] = waiting[high[v]]
            waiting[high[v]] = v
            v = following
        if not chips[k]:
            continue
        for deadline in range(k, num_chips):
            if waiting[deadline] >= 0:
                chosen[k] = waiting[deadline]
                waiting[deadline] = after[chosen[k]]
                break
        if chosen[k] < 0:
            return False
    for k in range(num_chips):
        if state.witness[k] >= 0:
            state.covers[state.witness[k]] = -1
    for k in range(num_chips):
        state.witness[k] = chosen[k]
        if chosen[k] >= 0:
            state.covers[chosen[k]] = k
    return True
