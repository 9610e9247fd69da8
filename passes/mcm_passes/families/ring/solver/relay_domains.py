"""Domains under the relay rule: intervals closed under the edges, and a node for every chip.

Two rules remain under relays: no edge runs against the ring (MCM, Eq. 2), and no chip below a
used one is empty (Eq. 3). Bounds propagation keeps the first: domains stay intervals with
`low[u] <= low[v]` and `high[u] <= high[v]` for every edge. The second is a matching: every chip up
to the highest lower bound needs a node of its own whose interval holds it. If such a matching
exists, the domains can be completed: two matched nodes in the wrong order can be exchanged, because
an ancestor has the smaller bounds. With this test a decision is never regretted.

The closure gives the intervals after a decision before anything is propagated, and one matching
is kept, so that nearly all decisions are tested in a few dozen steps. Where it breaks, another one
is made: of intervals that takes one pass over the chips (Glover 1967, *Maximum Matching in a Convex
Bipartite Graph*).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Ints
from mcm_passes.mapping.problem.rule_graph import Words


class RelayFacts(NamedTuple):
    """Facts that all rollouts under the relay rule share.

    Attributes:
        ancestors: `[n, W]`, W = ceil(n / 64), bitsets from `closure`.
        descendants: likewise.
        matched: `[C]`, a node of its own for each chip up to the highest lower bound, or -1.
    """

    ancestors: Words
    descendants: Words
    matched: Ints


class Matching(NamedTuple):
    """The matching of a rollout, and space for another one.

    Attributes:
        matched: `[C]`, the node that the matching gives to each vacant chip, or -1.
        held: `[C]`, chips with decided nodes.
        needed: `[C]`, chips that a decision leaves without a node.
        wanted: `[C, C]`, nodes that are still of use with each pair of bounds.
        nodes: `[n]`, nodes that may serve chips that need one.
        low: `[n]`, the lower bound that each of them would have.
        high: `[n]`, its upper bound.
        chosen: `[C]`, the node that each vacant chip would have, or -1.
        refused: `[C]`, chips that cannot be those of a node.
        lists: space for `match`.
    """

    matched: Ints
    held: Bools
    needed: Bools
    wanted: Ints
    nodes: Ints
    low: Ints
    high: Ints
    chosen: Ints
    refused: Bools
    lists: WaitingLists


class WaitingLists(NamedTuple):
    """Space for `match`.

    Attributes:
        arriving: `[C]`, the first node of the list of those with each lower bound, or -1.
        waiting: `[C]`, likewise of those that wait, by upper bound.
        after: `[n]`, the next node of the list that each is in, or -1.
    """

    arriving: Ints
    waiting: Ints
    after: Ints


@inner_njit
def _waiting_lists(num_chips: int, num_nodes: int) -> WaitingLists:
    return WaitingLists(
        np.empty(num_chips, np.int32), np.empty(num_chips, np.int32), np.empty(num_nodes, np.int32)
    )


@inner_njit
def empty_matching(facts: RelayFacts) -> Matching:
    """Space for the matchings of rollouts."""
    n, chips = facts.ancestors.shape[0], facts.matched.size
    return Matching(
        matched=np.empty(chips, np.int32),
        held=np.empty(chips, np.bool_),
        needed=np.empty(chips, np.bool_),
        wanted=np.empty((chips, chips), np.int32),
        nodes=np.empty(n, np.int32),
        low=np.empty(n, np.int32),
        high=np.empty(n, np.int32),
        chosen=np.empty(chips, np.int32),
        refused=np.empty(chips, np.bool_),
        lists=_waiting_lists(chips, n),
    )


@lean_inner_njit
def hold(m: Matching, chip: int) -> None:
    """Notes that a node is decided to be on a chip."""
    if m.held.size:
        m.held[chip] = True
        m.matched[chip] = -1


@lean_inner_njit
def find_obstacle(
    facts: RelayFacts, low: Ints, minus_high: Ints, m: Matching, u: int, chip: int, top: int
) -> int:
    """Tests a decision; if it is possible the matching is one that it leaves possible.

    Args:
        facts: what all rollouts share.
        low: `[n]`, lower bounds before the decision.
        minus_high: `[n]`, negatives of upper bounds.
        m: the matching.
        u: the node to be decided.
        chip: the chip for it, of its domain.
        top: the highest lower bound.

    Returns:
        -1 if it is possible. Otherwise a chip: below the one decided if no chip above it is
        possible either, above that if no chip below it is, or that one itself.
    """
    top = min(max(top, chip), m.held.size - 1)
    if _still_matched(facts, low, minus_high, m, u, chip, top):
        return -1
    for k in range(m.needed.size):
        m.needed[k] = k <= top and k != chip and not m.held[k]
    nodes = m.nodes[: _list_nodes(facts, low, minus_high, m, u, chip)]
    failed = _match(nodes, m.low, m.high, m.needed, m.chosen, m.lists)
    if failed < 0:
        for k in range(m.chosen.size):
            m.matched[k] = m.chosen[k]
        return -1
    hopeless = _hopeless(m, nodes.size)
    if hopeless >= 0:
        return hopeless
    # Chips up to `failed` cannot all have a node, wherever above them the decision is.
    if failed < chip:
        return failed
    last = m.needed.size - 1
    for i in range(nodes.size):
        m.low[i], m.high[i] = last - m.high[i], last - m.low[i]
    for k in range(m.needed.size // 2):
        m.needed[k], m.needed[last - k] = m.needed[last - k], m.needed[k]
    return max(last - _match(nodes, m.low, m.high, m.needed, m.chosen, m.lists), chip)


@expanded_njit
def _has(bits: Words, node: int) -> bool:
    return bool((bits[node >> 6] >> np.uint64(node & 63)) & np.uint64(1))


@lean_inner_njit
def _still_matched(
    facts: RelayFacts, low: Ints, minus_high: Ints, m: Matching, u: int, chip: int, top: int
) -> bool:
    """Return whether no vacant chip loses its node."""
    for k in range(top + 1):
        if k == chip or m.held[k]:
            continue
        s = m.matched[k]
        if s < 0 or s == u or not low[s] <= k <= -minus_high[s]:
            return False
        # A descendant goes no lower than the decision, and an ancestor no higher.
        if _has(facts.descendants[u] if k < chip else facts.ancestors[u], s):
            return False
    return True


@lean_inner_njit
def _list_nodes(
    facts: RelayFacts, low: Ints, minus_high: Ints, m: Matching, u: int, chip: int
) -> int:
    """Lists nodes with the bounds that a decision would leave them; how many there are.

    Of those with the same bounds no more than there are chips between that need one.
    """
    for c in range(m.needed.size):
        wanted = 0
        for k in range(c, m.needed.size):
            wanted += m.needed[k]
            m.wanted[c, k] = wanted
    count = 0
    for w in range(facts.ancestors.shape[1]):
        later, earlier = facts.descendants[u, w], facts.ancestors[u, w]
        for v in range(64 * w, min(64 * w + 64, low.size)):
            least, most = low[v], -minus_high[v]
            if least < chip and (later >> np.uint64(v & 63)) & np.uint64(1):
                least = chip
            elif most > chip and (earlier >> np.uint64(v & 63)) & np.uint64(1):
                most = chip
            if m.wanted[least, most] > 0 and v != u:
                m.wanted[least, most] -= 1
                m.nodes[count], m.low[count], m.high[count] = v, least, most
                count += 1
    return count


@lean_inner_njit
def _hopeless(m: Matching, count: int) -> int:
    """The lowest chip that needs a node, and that none of those listed can serve, or -1."""
    covering = m.lists.arriving
    covering[:] = 0
    for i in range(count):
        covering[m.low[i]] += 1
        if m.high[i] + 1 < covering.size:
            covering[m.high[i] + 1] -= 1
    nodes = 0
    for k in range(covering.size):
        nodes += covering[k]
        if m.needed[k] and nodes == 0:
            return k
    return -1


@entry_njit
def match(nodes: Ints, low: Ints, high: Ints, needed: Bools, chosen: Ints) -> int:
    """Gives a node of its own to every chip that needs one.

    Args:
        nodes: `[m]`.
        low: `[m]` at least, the lowest chip that each node can serve.
        high: `[m]` at least, the highest.
        needed: `[C]`, chips that need a node.
        chosen: `[C]`, filled with the node of each chip, or -1.

    Returns:
        -1, or the first chip such that those that need a node up to it cannot all have one.
    """
    return _match(nodes, low, high, needed, chosen, _waiting_lists(needed.size, nodes.size))


@lean_inner_njit
def _match(
    nodes: Ints, low: Ints, high: Ints, needed: Bools, chosen: Ints, lists: WaitingLists
) -> int:
    """`match`, without allocation: each chip takes the node that has the lowest upper bound."""
    chosen[:] = -1
    lists.arriving[:] = -1
    lists.waiting[:] = -1
    for i in range(nodes.size):
        lists.after[i] = lists.arriving[low[i]]
        lists.arriving[low[i]] = i
    for k in range(needed.size):
        i = lists.arriving[k]
        while i >= 0:
            following = lists.after[i]
            lists.after[i] = lists.waiting[high[i]]
            lists.waiting[high[i]] = i
            i = following
        if not needed[k]:
            continue
        for deadline in range(k, needed.size):
            i = lists.waiting[deadline]
            if i >= 0:
                chosen[k] = nodes[i]
                lists.waiting[deadline] = lists.after[i]
                break
        if chosen[k] < 0:
            return k
    return -1
