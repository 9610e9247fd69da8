"""Domains under the relay rule: intervals closed under the edges, and a node for every chip.

Two rules remain under relays: no edge runs against the ring (MCM, Eq. 2), and no chip below a
used one is empty (Eq. 3). Bounds propagation keeps the first: domains stay intervals with
`low[u] <= low[v]` and `high[u] <= high[v]` for every edge. The second is a matching: every chip up
to the highest lower bound needs a node of its own whose interval holds it. If such a matching
exists, the domains can be completed: two matched nodes in the wrong order can be exchanged, because
an ancestor has the smaller bounds. With this test a decision is never regretted.

The closure gives the intervals after a decision before anything is propagated, and one matching
is kept, so that nearly all decisions are tested in a few dozen steps. Where it breaks, a chip takes
a spare node, or another chip passes its own on (augmenting paths; Kuhn 1955, *The Hungarian Method
for the Assignment Problem*).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Ints
from mcm_passes.families.ring.solver.lanes import LANES, Bounds, Domains, Lanes, Words
from mcm_passes.families.ring.solver.node_bits import has, lowest_position


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
    """The matchings of a group of rollouts.

    Attributes:
        vacant: `[LANES, C]`, chips without decided nodes, the first `num_vacant[lane]` of each row.
        num_vacant: `[LANES]`.
        place_of: `[LANES, C]`, where a chip stands in `vacant`, or -1.
        matched: `[LANES, C]`, the node that the matching gives to a vacant chip, or -1.
        top: `[LANES]`, the highest lower bound: chips up to it need a node.
        open_bits: `[W]`, nodes that may be undecided in some lane.
        lowest: `[W, LANES]`, no open node of a word of 64 has a lower bound below it.
        minus_highest: `[W, LANES]`, likewise for the negatives of upper bounds.
        shrunk_at: `[W]`, the step at which both were last computed.
    """

    vacant: Ints
    num_vacant: Ints
    place_of: Ints
    matched: Ints
    top: Ints
    open_bits: Words
    lowest: Bounds
    minus_highest: Bounds
    shrunk_at: Ints


class WaitingLists(NamedTuple):
    """Space for `match` with m nodes.

    Attributes:
        arriving: `[C]`, the first node of the list of those with each lower bound, or -1.
        waiting: `[C]`, likewise of those that wait, by upper bound.
        after: `[m]` at least, the next node of the list that each is in, or -1.
    """

    arriving: Ints
    waiting: Ints
    after: Ints


class Trial(NamedTuple):
    """One lane's matching as a decision would leave it, and space for the search for it.

    Attributes:
        matched: `[C]`, the node that each vacant chip would have, or -1.
        spare: `[W]`, open nodes that no chip would have.
        lost: `[C]`, chips whose nodes the decision takes from them.
        low: `[C]`, lower bounds that the nodes `matched` would have; above `high` where none is.
        high: `[C]`, upper bounds, likewise.
        reached: `[C]`, chips that searches visited in vain.
        towards: `[C]`, the chip that each one reached would pass its node on to, or -1.
        queue: `[C]`, chips that a search has visited, in that order.
        refused: `[C]`, chips that cannot be those of a node, as one decision after another showed.
        lists: space for `match`.
    """

    matched: Ints
    spare: Words
    lost: Ints
    low: Ints
    high: Ints
    reached: npt.NDArray[np.bool_]
    towards: Ints
    queue: Ints
    refused: npt.NDArray[np.bool_]
    lists: WaitingLists


class Decision(NamedTuple):
    """A chip for a node, in one lane.

    Attributes:
        lane: the lane.
        node: the node to be decided.
        chip: the chip for it, of its domain.
        top: the highest lower bound, or `chip` if that is higher.
        step: number of the node's turn.
    """

    lane: int
    node: int
    chip: int
    top: int
    step: int


@inner_njit
def _room_for_lists(num_chips: int, num_nodes: int) -> WaitingLists:
    return WaitingLists(
        np.empty(num_chips, np.int32), np.empty(num_chips, np.int32), np.empty(num_nodes, np.int32)
    )


@inner_njit
def room_for_matching(first: Domains, num_chips: int) -> tuple[Matching, Trial]:
    """Space for the matchings of groups, and for trials."""
    words, dtype = (first.low.size + 63) // 64, first.low.dtype
    matching = Matching(
        vacant=np.empty((LANES, num_chips), np.int32),
        num_vacant=np.empty(LANES, np.int32),
        place_of=np.empty((LANES, num_chips), np.int32),
        matched=np.empty((LANES, num_chips), np.int32),
        top=np.empty(LANES, np.int32),
        open_bits=np.empty(words, np.uint64),
        lowest=np.empty((words, LANES), dtype),
        minus_highest=np.empty((words, LANES), dtype),
        shrunk_at=np.empty(words, np.int32),
    )
    trial = Trial(
        matched=np.empty(num_chips, np.int32),
        spare=np.empty(words, np.uint64),
        lost=np.empty(num_chips, np.int32),
        low=np.empty(num_chips, np.int32),
        high=np.empty(num_chips, np.int32),
        reached=np.empty(num_chips, np.bool_),
        towards=np.empty(num_chips, np.int32),
        queue=np.empty(num_chips, np.int32),
        refused=np.empty(num_chips, np.bool_),
        lists=_room_for_lists(num_chips, num_chips),
    )
    return matching, trial


@inner_njit
def reset_matching(matching: Matching, facts: RelayFacts, first: Domains) -> None:
    """Sets the matchings of all lanes to that of the domains `first`, with all nodes open."""
    n, num_chips = first.low.size, facts.matched.size
    for k in range(num_chips):
        matching.vacant[:, k] = k
        matching.place_of[:, k] = k
        matching.matched[:, k] = facts.matched[k]
    matching.num_vacant[:] = num_chips
    matching.top[:] = first.low.max()
    matching.open_bits[:] = ~np.uint64(0)
    if n & 63:
        matching.open_bits[n >> 6] = (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)
    matching.lowest[:] = 0
    matching.minus_highest[:] = 1 - num_chips
    matching.shrunk_at[:] = -1


@lean_inner_njit
def hold(matching: Matching, lane: int, chip: int) -> None:
    """Notes that a decided node is on `chip`."""
    place = matching.place_of[lane, chip]
    if place >= 0:
        matching.num_vacant[lane] -= 1
        last = matching.vacant[lane, matching.num_vacant[lane]]
        matching.vacant[lane, place] = last
        matching.place_of[lane, last] = place
        matching.place_of[lane, chip] = -1
        matching.matched[lane, chip] = -1


@lean_inner_njit
def clear(bits: Words, node: int) -> None:
    """Takes a node out of a set."""
    bits[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))


@lean_inner_njit
def find_obstacle(
    facts: RelayFacts,
    matching: Matching,
    lanes: Lanes,
    decision: Decision,
    trial: Trial,
    asks_why: bool,
) -> int:
    """Why a decision is impossible, -1 where it is not; its matching is then kept.

    Args:
        facts: of all rollouts.
        matching: the matchings; as it was where the answer is not -1.
        lanes: domains before the decision.
        decision: the decision.
        trial: space.
        asks_why: whether the answer matters where it is not -1.

    Returns:
        -1 if every chip has a node. Otherwise the chip of the decision is impossible: a chip k
        below it is returned where nothing above k is possible either. A chip k above it where
        nothing below k is possible; and the chip itself where nothing more is known.
    """
    if _still_matched(facts, matching, lanes, decision):
        return -1
    num_lost = _find_lost(facts, matching, lanes, decision, trial)
    num_lost, hopeless = _take_spares(facts, matching, lanes, decision, trial, num_lost)
    if hopeless >= 0:
        return hopeless
    if num_lost and not _augment(facts, matching, lanes, decision, trial, num_lost, asks_why):
        return _find_shortage(trial, decision) if asks_why else decision.chip
    for k in range(trial.matched.size):
        matching.matched[decision.lane, k] = trial.matched[k]
    return -1


@inlined_njit
def _can_serve(facts: RelayFacts, lanes: Lanes, decision: Decision, node: int, k: int) -> bool:
    """Return whether an undecided node could be on chip k after a decision on another."""
    lane, u = decision.lane, decision.node
    if not lanes.low[node, lane] <= k <= -lanes.minus_high[node, lane]:
        return False
    moved = facts.descendants if k < decision.chip else facts.ancestors
    return not (moved[u, node >> 6] >> np.uint64(node & 63)) & np.uint64(1)


@lean_inner_njit
def _still_matched(facts: RelayFacts, matching: Matching, lanes: Lanes, decision: Decision) -> bool:
    """Return whether the matching holds after a decision as it is."""
    lane = decision.lane
    for i in range(matching.num_vacant[lane]):
        k = matching.vacant[lane, i]
        if k <= decision.top and k != decision.chip:
            s = matching.matched[lane, k]
            if s < 0 or s == decision.node or not _can_serve(facts, lanes, decision, s, k):
                return False
    return True


@lean_inner_njit
def _find_lost(
    facts: RelayFacts, matching: Matching, lanes: Lanes, decision: Decision, trial: Trial
) -> int:
    """Begins a trial with what is left of the matching; how many chips lose their nodes."""
    trial.matched[:] = -1
    for w in range(trial.spare.size):
        trial.spare[w] = matching.open_bits[w]
    clear(trial.spare, decision.node)
    num_lost = 0
    for k in range(decision.top + 1):
        if k == decision.chip or matching.place_of[decision.lane, k] < 0:
            continue
        s = matching.matched[decision.lane, k]
        if s < 0 or s == decision.node or not _can_serve(facts, lanes, decision, s, k):
            trial.lost[num_lost] = k
            num_lost += 1
        else:
            trial.matched[k] = s
            clear(trial.spare, s)
    return num_lost


@lean_inner_njit
def _take_spares(
    facts: RelayFacts,
    matching: Matching,
    lanes: Lanes,
    decision: Decision,
    trial: Trial,
    num_lost: int,
) -> tuple[int, int]:
    """Gives lost chips spare nodes.

    Returns:
        How many remain lost, and one that no node at all can serve, or -1.
    """
    left = 0
    for i in range(num_lost):
        k = trial.lost[i]
        s = _spare_node(facts, matching, lanes, decision, trial.spare, k)
        if s >= 0:
            trial.matched[k] = s
            clear(trial.spare, s)
            continue
        possible = False
        for y in range(decision.top + 1):
            s = trial.matched[y]
            if s >= 0 and _can_serve(facts, lanes, decision, s, k):
                possible = True
                break
        if not possible:
            return left, k
        trial.lost[left] = k
        left += 1
    return left, -1


@lean_inner_njit
def _augment(
    facts: RelayFacts,
    matching: Matching,
    lanes: Lanes,
    decision: Decision,
    trial: Trial,
    num_lost: int,
    asks_why: bool,
) -> bool:
    """Has chips pass nodes on to those lost; whether all have one then.

    What is `reached` then has too few nodes. Without `asks_why` the first failure ends it.
    """
    trial.low[:] = 1
    trial.high[:] = 0
    for k in range(decision.top + 1):
        if trial.matched[k] >= 0:
            _note_bounds(facts, lanes, decision, trial, k)
    trial.reached[:] = False
    succeeds = True
    for i in range(num_lost):
        if not _augmenting_path(facts, matching, lanes, decision, trial, trial.lost[i]):
            succeeds = False
            if not asks_why:
                break
    return succeeds


@lean_inner_njit
def _augmenting_path(
    facts: RelayFacts, matching: Matching, lanes: Lanes, decision: Decision, trial: Trial, k: int
) -> bool:
    """Searches in breadth for chips that pass their nodes on until k has one; whether there are."""
    trial.reached[k] = True
    trial.towards[k] = -1
    trial.queue[0] = k
    done, size = 0, 1
    while done < size:
        x = trial.queue[done]
        done += 1
        for y in range(decision.top + 1):
            if trial.reached[y] or not trial.low[y] <= x <= trial.high[y]:
                continue
            trial.reached[y] = True
            trial.towards[y] = x
            trial.queue[size] = y
            size += 1
            node = _spare_node(facts, matching, lanes, decision, trial.spare, y)
            if node >= 0:
                _pass_on(facts, lanes, decision, trial, y, node)
                for j in range(size):
                    trial.reached[trial.queue[j]] = False
                return True
    return False


@lean_inner_njit
def _pass_on(
    facts: RelayFacts, lanes: Lanes, decision: Decision, trial: Trial, chip: int, node: int
) -> None:
    """Gives `chip` a spare node; each chip from there passes its own on, up to a lost one."""
    clear(trial.spare, node)
    x = chip
    while x >= 0:
        passed = trial.matched[x]
        trial.matched[x] = node
        _note_bounds(facts, lanes, decision, trial, x)
        node, x = passed, trial.towards[x]


@lean_inner_njit
def _note_bounds(facts: RelayFacts, lanes: Lanes, decision: Decision, trial: Trial, k: int) -> None:
    """Notes for chip k the domain that its node would have."""
    node, lane, u = trial.matched[k], decision.lane, decision.node
    trial.low[k], trial.high[k] = lanes.low[node, lane], -lanes.minus_high[node, lane]
    if has(facts.descendants[u], node):
        trial.low[k] = max(trial.low[k], decision.chip)
    elif has(facts.ancestors[u], node):
        trial.high[k] = min(trial.high[k], decision.chip)


@lean_inner_njit
def _find_shortage(trial: Trial, decision: Decision) -> int:
    """The answer of `find_obstacle` where the chips reached have too few nodes.

    These nodes serve no other chip.
    """
    num_chips = trial.matched.size
    count = 0
    for k in range(decision.top + 1):
        if trial.reached[k] and trial.matched[k] >= 0:
            trial.matched[count] = trial.matched[k]
            trial.low[count], trial.high[count] = trial.low[k], trial.high[k]
            count += 1
    nodes, needed = trial.matched[:count], trial.reached
    failed = _match(nodes, trial.low, trial.high, needed, trial.towards, trial.lists)
    # Chips up to `failed` cannot all have a node, wherever above them the decision is.
    if failed < decision.chip:
        return failed
    # Likewise from the other end.
    last = num_chips - 1
    for i in range(count):
        trial.low[i], trial.high[i] = last - trial.high[i], last - trial.low[i]
    for k in range(num_chips // 2):
        needed[k], needed[last - k] = needed[last - k], needed[k]
    failed = last - _match(nodes, trial.low, trial.high, needed, trial.towards, trial.lists)
    return max(failed, decision.chip)


@entry_njit
def match(nodes: Ints, low: Ints, high: Ints, needed: npt.NDArray[np.bool_], chosen: Ints) -> int:
    """Gives each needed chip a node of its own, earliest deadline first.

    Args:
        nodes: `[m]`.
        low: `[m]` at least, intervals of the nodes.
        high: `[m]` at least, likewise.
        needed: `[C]`, chips that need a node.
        chosen: `[C]`; the nodes are written there, and -1 for chips without.

    Returns:
        -1 if all have one; otherwise the first chip that cannot be served together with all
        needed chips below it.
    """
    lists = _room_for_lists(needed.size, nodes.size)
    return _match(nodes, low, high, needed, chosen, lists)


@lean_inner_njit
def _match(
    nodes: Ints,
    low: Ints,
    high: Ints,
    needed: npt.NDArray[np.bool_],
    chosen: Ints,
    lists: WaitingLists,
) -> int:
    """`match`, in the space of `lists`."""
    num_chips = needed.size
    chosen[:] = -1
    lists.arriving[:] = -1
    lists.waiting[:] = -1
    for i in range(nodes.size):
        lists.after[i] = lists.arriving[low[i]]
        lists.arriving[low[i]] = i
    for k in range(num_chips):
        i = lists.arriving[k]
        while i >= 0:
            following = lists.after[i]
            lists.after[i] = lists.waiting[high[i]]
            lists.waiting[high[i]] = i
            i = following
        if not needed[k]:
            continue
        for deadline in range(k, num_chips):
            i = lists.waiting[deadline]
            if i >= 0:
                chosen[k] = nodes[i]
                lists.waiting[deadline] = lists.after[i]
                break
        if chosen[k] < 0:
            return k
    return -1


@lean_inner_njit
def _spare_node(
    facts: RelayFacts, matching: Matching, lanes: Lanes, decision: Decision, spare: Words, k: int
) -> int:
    """One of the nodes `spare` that could be on chip k, near the one decided; -1 if none."""
    lane, words, at = decision.lane, spare.size, decision.node >> 6
    moved = facts.descendants if k < decision.chip else facts.ancestors
    for turn in range(2 * words):
        # Outwards, in turns.
        w = at + (turn + 1) // 2 if turn & 1 else at - turn // 2
        if not 0 <= w < words:
            continue
        if not matching.lowest[w, lane] <= k <= -matching.minus_highest[w, lane]:
            continue
        bits = spare[w] & ~moved[decision.node, w]
        tried = 0
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            v = (w << 6) + lowest_position(lowest)
            if lanes.low[v, lane] <= k <= -lanes.minus_high[v, lane]:
                return v
            tried += 1
        if tried > _WORTH_SHRINKING and matching.shrunk_at[w] != decision.step:
            matching.shrunk_at[w] = decision.step
            _least_of(lanes.low, matching.open_bits[w], w, matching.lowest[w])
            _least_of(lanes.minus_high, matching.open_bits[w], w, matching.minus_highest[w])
    return -1


_WORTH_SHRINKING = 8
"""Nodes of a word that must have been tried in vain before its bounds are computed again."""


@lean_inner_njit
def _least_of(rows: Bounds, bits: np.uint64, w: int, least: Bounds) -> None:
    """Sets `least` to the least of the rows of the nodes `bits` of word w, in each lane."""
    first = True
    while bits:
        lowest = bits & (~bits + np.uint64(1))
        bits ^= lowest
        v = (w << 6) + lowest_position(lowest)
        for lane in range(LANES):
            least[lane] = rows[v, lane] if first else min(least[lane], rows[v, lane])
        first = False
