"""A bound from chains of ideals of the heaviest units, with relays that no placement avoids.

A graph with parallel branches has far too many ideals; its heaviest units alone have few. The heavy
units on the first chips form an ideal. Each chip takes over at one ideal and hands over at a larger
one (our derivation). That decides where some other units are. What an earlier heavy unit depends on
is on earlier chips. What depends on a later heavy unit is on later chips. What is between two heavy
units of the chip is on the chip. The rest may be anywhere; the least load of the chip over all
choices is a minimum cut, see `_ChipLoads`.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.problem.order_ideals import OrderIdeals, order_ideals
from mcm_passes.mapping.problem.rule_graph import from_edges, members_of

PROOF = "heavy_chains"

MOST_UNITS = 2_000
"""Units with a place of their own up to which the bound is looked for."""

MOST_IDEALS = 400
"""Ideals of the heavy units; as many of the heaviest units are taken as have no more."""

UNITS_PER_S = 600_000
"""Units of all minimum cuts for each second of effort, of which they take about a third."""

GRAIN = 2e-3
"""Relative width at which the bisection stops."""

LEAST_GAP = 0.05
"""Gap up to which a bound is close enough."""

TICKS = 1 << 30
"""Ticks of the known period; times are rounded down to them."""

UNLIMITED = 1 << 50

NOTHING = np.empty(0, np.int64)


def heavy_chains(
    problem: PartitionProblem, known: partition.LowerBound, period_s: float, effort_s: float
) -> partition.LowerBound:
    """The longest period, up to that of a placement, at which more chips than all are needed.

    Let C chips answer within a period. Then a chain of ideals of the heavy units exists in which
    each chip's least load is within the period. The chip at which a chain reaches an ideal is also
    not before the work of all that its units depend on fills the chips, and likewise behind it.
    The fewest chips to each ideal are a shortest path. Devices of any machine can be numbered along
    their dependencies, so that this holds on all; relays count on rings whose engines pass tensors
    on.

    Args:
        problem: the problem.
        known: the best bound so far, which is returned where this one is no better.
        period_s: of a known placement.
        effort_s: deterministic seconds, which limit the number of minimum cuts.
    """
    problem = problem.at_need()
    if known.seconds <= 0.0 or period_s <= known.seconds * (1.0 + LEAST_GAP):
        return known
    units = int((~problem.clonable).sum())
    if not 1 < units <= MOST_UNITS:
        return known
    chains = HeavyChains(problem, period_s, int(UNITS_PER_S * effort_s / units))
    low, high = known.seconds * (1.0 + GRAIN), period_s
    if chains.fits(low):
        return known
    while high - low > GRAIN * high and not chains.spent:
        # Longer periods take more cuts.
        middle = low + 0.25 * (high - low)
        if chains.fits(middle):
            high = middle
        else:
            low = middle
    passed = ", what they must pass on included" if problem.relays else ""
    text = (
        f"within {seconds_text(low)} the {count_text(chains.heavy.size, 'heaviest unit')} need "
        f"more than {count_text(problem.num_chips, 'chip')}{passed}"
    )
    return partition.LowerBound(low, text, PROOF)


class HeavyChains:
    """The ideals of the heaviest units of a problem, and the least loads of chips between them.

    Args:
        problem: the problem.
        period_s: the longest period that is asked for.
        most_cuts: minimum cuts that may be computed.

    Attributes:
        heavy: nodes of the rule graph, ascending.
    """

    def __init__(self, problem: PartitionProblem, period_s: float, most_cuts: int) -> None:
        self._cuts_left = most_cuts
        self._chips = problem.num_chips
        self._tick_s = period_s / TICKS
        around = work_around(problem)
        fastest = float(problem.chip_speed.max())
        seconds = around.own_s / fastest
        self._work = _ticks(seconds, self._tick_s)
        ends = around.ancestors, around.descendants
        above, below = (members_of(bits, seconds.size) for bits in ends)
        # By seconds, as the check has them: ticks make equal what is not.
        self.heavy, self._ideals = _heaviest(seconds, above)
        self._above, self._below = above[self.heavy], below[self.heavy]
        self._members = members_of(self._ideals.members, self.heavy.size)
        self._loads = _ChipLoads(problem, self._work, fastest, self._tick_s)
        self._known: dict[tuple[int, int], int] = {}
        self._inside: dict[tuple[int, int], int] = {}
        own = np.zeros_like(above[self.heavy])
        own[np.arange(self.heavy.size), self.heavy] = True
        # `[I, n]`: what is on the chips up to an ideal for sure, and what is behind them.
        self._before = self._members @ (self._above | own)
        self._behind = ~self._members @ (self._below | own)
        self._before_ticks = self._before @ self._work
        self._behind_ticks = self._behind @ self._work

    @property
    def spent(self) -> bool:
        """True once no more cuts may be computed."""
        return self._cuts_left <= 0

    def fits(self, period_s: float) -> bool:
        """Return whether some chain is within a period; True if the cuts do not suffice to know."""
        ticks = int(np.ceil(period_s * (1.0 + 1e-9) / self._tick_s))
        count = self._ideals.count
        needed = -(-self._before_ticks // ticks)
        behind = -(-self._behind_ticks // ticks)
        # Mostly some chain of chips that take all that they can is within.
        at = used = 0
        while at < count - 1 and (reached := self._reached(at, ticks)):
            at = min(reached, key=lambda ideal: self._behind_ticks[ideal])
            used = max(used + 1, int(needed[at]))
            if used + behind[at] > self._chips:
                break
        else:
            if at == count - 1:
                return True
        fewest = np.full(count, self._chips + 1, np.int64)
        fewest[0] = 0
        for i in range(count - 1):
            if fewest[i] < self._chips:
                for j in self._reached(i, ticks):
                    chips = max(int(fewest[i]) + 1, int(needed[j]))
                    if chips + behind[j] <= self._chips:
                        fewest[j] = min(fewest[j], chips)
                if self.spent:
                    return True
        return bool(fewest[count - 1] <= self._chips)

    def _reached(self, start: int, ticks: int) -> list[int]:
        """The larger ideals that a chip can hand over at which takes over at one."""
        queue, seen, found = [start], {start}, list[int]()
        for ideal in queue:
            if self._sure(start, ideal) > ticks:
                # So does every larger one.
                continue
            if ideal != start and self._load(start, ideal) <= ticks:
                found.append(ideal)
            for larger in self._ideals.covers[slice(*self._ideals.cover_ptr[ideal : ideal + 2])]:
                if int(larger) not in seen:
                    seen.add(int(larger))
                    queue.append(int(larger))
        return found

    def _between(self, start: int, end: int) -> Bools:
        """`[n]`, the nodes that are on the chip between two ideals for sure."""
        heavy = self._members[end] & ~self._members[start]
        inside = np.logical_or.reduce(self._above[heavy]) & np.logical_or.reduce(self._below[heavy])
        inside[self.heavy[heavy]] = True
        return inside

    def _sure(self, start: int, end: int) -> int:
        """Ticks of these nodes."""
        if (start, end) not in self._inside:
            self._inside[start, end] = int(self._work[self._between(start, end)].sum())
        return self._inside[start, end]

    def _load(self, start: int, end: int) -> int:
        if (start, end) not in self._known:
            self._cuts_left -= self._loads.relays
            parts = self._before[start], self._between(start, end), self._behind[end]
            self._known[start, end] = self._loads.least(*parts)
        return self._known[start, end]


class _ChipLoads:
    """The least load of one chip, by minimum cuts.

    Node v has two Booleans: it is on the chip or behind it, and it is behind it. The second implies
    the first, and what follows a node follows it in both. A node that is on the chip costs its
    work, and a tensor whose maker is before the chip and of which a reader is behind it one relay.
    Memory that is written before the chip, and of which a view is read behind it, is relayed or
    copied there at least once, whichever chip makes the view. That is counted once for the view,
    and left out of the relays.
    Both are arcs of a network whose cuts are the choices. Vertex v is the first Boolean of node v,
    and n + v the second; then follows one vertex for each tensor. What is false is on the source's
    side of a cut, and what is true on the sink's.

    Args:
        problem: the problem.
        work: `[n]`, ticks of each node.
        fastest: speed of the fastest chip.
        tick_s: a tick.

    Attributes:
        relays: whether engines pass tensors on; if not, a chip may do nothing but what is given.
    """

    def __init__(
        self, problem: PartitionProblem, work: Longs, fastest: float, tick_s: float
    ) -> None:
        self.relays = problem.relays
        self._work = work
        graph = work_around(problem).graph
        n = graph.num_nodes
        node_of = graph.node_of(problem.num_units)
        made = problem.tensor_producer >= 0
        made[made] = ~problem.clonable[problem.tensor_producer[made]]
        tensors = np.flatnonzero(made & (np.diff(problem.placed_readers.ptr) > 0))
        readers = problem.placed_readers.chosen(tensors)
        first, vertices = np.arange(n), 2 * n + np.arange(tensors.size)
        later, earlier = graph.after.entries, graph.after.owners
        self._size = 2 * n + tensors.size
        makers = node_of[problem.tensor_producer[tensors]]
        relay_s = problem.relay_s.copy()
        views = least_of_views(problem)
        for chain, _, seconds in views:
            relay_s[chain] -= seconds
        seen = [problem.placed_readers.row(chain[0]) for chain, _, _ in views]
        view = self._size + np.arange(len(views))
        self._size += view.size
        arcs = (
            (n + first, first, work),
            (first, n + first, np.full(n, UNLIMITED)),
            (later, earlier, np.full(later.size, UNLIMITED)),
            (n + later, n + earlier, np.full(later.size, UNLIMITED)),
            (makers, vertices, _ticks(relay_s[tensors] / fastest, tick_s)),
            (
                node_of[[writer for _, writer, _ in views]],
                view,
                _ticks(np.array([seconds for *_, seconds in views]) / fastest, tick_s),
            ),
            (
                np.repeat(view, [row.size for row in seen]),
                n + node_of[np.concatenate([*seen, NOTHING])],
                np.full(sum(row.size for row in seen), UNLIMITED),
            ),
            (
                vertices[readers.owners],
                n + node_of[readers.entries],
                np.full(readers.entries.size, UNLIMITED),
            ),
        )
        self._tail, self._head, self._capacity = map(np.concatenate, zip(*arcs, strict=True))

    def least(self, before: Bools, inside: Bools, behind: Bools) -> int:
        """Ticks of the chip, whatever is chosen for all that is not given.

        Args:
            before: `[n]`, nodes that are before the chip.
            inside: `[n]`, nodes that are on it.
            behind: `[n]`, nodes that are behind it.
        """
        if not self.relays:
            return int(self._work[inside].sum())
        from ortools.graph.python.max_flow import SimpleMaxFlow

        n, source, sink = before.size, self._size, self._size + 1
        vertex = np.arange(self._size + 2)
        vertex[:n][before] = vertex[n : 2 * n][before | inside] = source
        vertex[:n][inside | behind] = vertex[n : 2 * n][behind] = sink
        tail, head = vertex[self._tail], vertex[self._head]
        useful = (tail != head) & (tail != sink) & (head != source)
        certain = useful & (tail == source) & (head == sink)
        useful &= ~certain
        flow = SimpleMaxFlow()
        arcs = tail[useful], head[useful], self._capacity[useful]
        flow.add_arcs_with_capacity(*arcs)  # pyright: ignore[reportArgumentType]
        least = int(self._capacity[certain].sum())
        if useful.any() and flow.solve(source, sink) == SimpleMaxFlow.OPTIMAL:
            least += int(flow.optimal_flow())
        return least


def least_of_views(problem: PartitionProblem) -> list[tuple[list[int], int, float]]:
    """Views of which one a piece of memory is copied or relayed where it passes a chip.

    Returns:
        For each its tensor with those that it is a view of, the last of which is written; the unit
        that writes; and the least seconds of a copy or a relay of any. No tensor is in two.
    """
    copies, alias = problem.copies, problem.tensor_alias
    if copies is None:
        return []
    seconds = dict(zip(copies.tensor.tolist(), copies.least.seconds.tolist(), strict=True))
    found: list[tuple[list[int], int, float]] = []
    taken: set[int] = set()
    for t, writer in zip(copies.tensor.tolist(), copies.writer.tolist(), strict=True):
        chain = [t]
        while alias[chain[-1]] >= 0 and problem.tensor_producer[chain[-1]] != writer:
            chain.append(int(alias[chain[-1]]))
        makers = problem.tensor_producer[chain]
        if writer < 0 or makers[-1] != writer or taken & {*chain} or problem.clonable[makers].any():
            continue
        taken.update(chain)
        least = min(float(problem.relay_s[x]) for x in chain)
        # A view in between that is copied nowhere may pass for nothing.
        found.append((chain, writer, min(least, *(seconds.get(x, 0.0) for x in chain[:-1]))))
    return found


def _ticks(seconds: Floats, tick_s: float) -> Longs:
    """Whole ticks, rounded down."""
    return np.floor(seconds / tick_s * (1.0 - 1e-12)).astype(np.int64)


def _heaviest(work: Floats, above: Bools) -> tuple[Ints, OrderIdeals]:
    """As many of the heaviest nodes as have few ideals, and these."""
    by_work = np.argsort(-work, kind="stable")
    low, high = 1, work.size
    found: tuple[Ints, OrderIdeals] | None = None
    while low <= high:
        middle = (low + high) // 2
        nodes = np.sort(by_work[:middle]).astype(np.int32)
        later, earlier = np.nonzero(above[np.ix_(nodes, nodes)])
        ideals = order_ideals(from_edges(earlier, later, middle, 1), MOST_IDEALS)
        if ideals is None:
            high = middle - 1
        else:
            found, low = (nodes, ideals), middle + 1
    assert found is not None, "one node has two ideals"
    return found
