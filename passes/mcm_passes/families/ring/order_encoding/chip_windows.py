"""From which to which chip each unit can sit at a given period."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts import partition
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import seconds_text
from mcm_passes.families.ring.loads.window_costs import holds
from mcm_passes.mapping.bounds.packing import longest_too_short
from mcm_passes.mapping.bounds.work_around import WorkAround, work_around
from mcm_passes.mapping.problem.resident_sizes import sram_blocks
from mcm_passes.mapping.problem.rule_graph import Words

PROOF = "windows"

SLACK = 1e-9
"""Relative tolerance for sums that the analytic model adds in another order."""

GRAIN = 1e-9
"""Relative width at which the bisection stops."""


class ChipWindows(NamedTuple):
    """`[n]` each: the lowest and the highest chip of each node; empty where low > high."""

    low: Ints
    high: Ints

    @property
    def empty(self) -> bool:
        """True if some node has no chip left."""
        return bool((self.low > self.high).any())

    @property
    def total_width(self) -> int:
        """Chips beyond the first, over all nodes."""
        return int((self.high - self.low).sum())

    def turned(self, chips: int) -> ChipWindows:
        """The same windows with the chips numbered from the last one on."""
        low, high = chips - 1 - self.high, chips - 1 - self.low
        return ChipWindows(low.astype(np.int32), high.astype(np.int32))


class Side(NamedTuple):
    """A graph from one end of the ring.

    Attributes:
        order: `[n]`, nodes, each after all that come before it from this end.
        leads: `[n]` rows: direct predecessors of each node.
        before: `[n, words]`, bitset of all that come before each node.
        joins: `[n]`, whether no single predecessor has all others before it, so that what comes
            before the node may need more than each of them says.
        gate: `[n]`, the nearest node that all others before a node come before or after, or -1.
    """

    order: Ints
    leads: Rows
    before: Words
    joins: Bools
    gate: Longs


class Amounts(NamedTuple):
    """Work or memory that fills chips.

    Attributes:
        own: `[n]`, of each node.
        light: `[n]`, of all that is not heavy and comes before each node, at least.
        behind_gate: `[n]`, of all that comes between its gate and each node, at least; empty where
            gates are not asked, as they are not where some nodes are heavy.
        heavy: `[H]`, nodes that count one by one, from the first chip that each can be on.
        sizes: `[1 + S]`, 0 for amounts that are divided at will, and sizes of whole pieces.
        pieces: `[1 + S, H]`, what each heavy node is in amounts, and in pieces of each size.
    """

    own: Floats
    light: Floats
    behind_gate: Floats
    heavy: Ints
    sizes: Floats
    pieces: Floats


NO_HEAVY = np.empty(0, np.int32), np.zeros(1), np.empty((1, 0))


class UnitWindows:
    """A problem prepared for windows at many periods.

    The lowest chip of a node is found by filling chips from the first on, with its ancestors and
    then with itself. A statement says that the node is on chip c or later, and how much of its
    ancestors' work is on c if the node is. Statements are compared by chip and then by load. There
    are three. All ancestors are poured in as if their work were sand. The statement of a direct
    predecessor holds, whose own work is not divided. So does that of its gate, after which all work
    between the two is poured in. Weights fill chips in the same way where they cannot be streamed.
    The highest chip follows in the same way from the last chip on. Where a node has one chip left,
    both statements on it must fit together.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        around = work_around(problem)
        self.graph = around.graph
        self._sides = sides_of(around)
        self._speed = problem.chip_speed
        self._room = sram_blocks(problem).astype(np.float64)
        gates = around.gate_before, around.gate_after
        seconds, room = around.own_s, around.own_room
        self._work = tuple(map(_sand, (seconds,) * 2, (around.before_s, around.after_s), gates))
        self._held = tuple(map(_sand, (room,) * 2, (around.before_room, around.after_room), gates))

    def at(self, period_s: float) -> ChipWindows:
        """The chips that each node can be on in any valid partition within a period or less."""
        speed = self._speed * (period_s * (1.0 + SLACK))
        windows = ChipWindows(self.graph.low, self.graph.high)
        for amounts, capacity in ((self._work, speed), (self._held, self._room)):
            windows = narrowed(self._sides, windows, amounts, capacity)
        return windows


def chip_windows(problem: PartitionProblem, period_s: float) -> ChipWindows:
    """The windows of a problem at one period; see `UnitWindows`."""
    return UnitWindows(problem).at(period_s)


def windows_bound(problem: PartitionProblem, least_s: float, most_s: float) -> partition.LowerBound:
    """The longest period between `least_s` and `most_s` at which some unit has no chip left.

    Longer periods only widen windows. 0 seconds where nothing beyond `least_s` is proven.
    """
    windows = UnitWindows(problem)
    seconds = longest_too_short(lambda s: windows.at(s).empty, least_s, most_s, GRAIN)
    if not seconds:
        return partition.LowerBound(0.0, "every unit has a chip")
    found = windows.at(seconds)
    node = int(np.argmax(found.low - found.high))
    unit = quote(problem.names[windows.graph.units[node]])
    text = (
        f"within {seconds_text(seconds)} no chip is left for unit {unit} between the work before "
        "and after it"
    )
    return partition.LowerBound(seconds, text, PROOF)


def _sand(own: Floats, before: Floats, gate: Longs) -> Amounts:
    """Amounts of which none is heavy, from the first chip on and from gates on."""
    # A difference of sums, so the slack is that of the sums.
    between = before - before[gate] - own[gate] - SLACK * before
    return Amounts(own, before * (1.0 - SLACK), np.maximum(between, 0.0), *NO_HEAVY)


def sides_of(around: WorkAround) -> tuple[Side, Side]:
    """A graph from both ends."""
    graph, along = around.graph, np.arange(around.own_s.size, dtype=np.int32)
    before, after = around.ancestors, around.descendants
    joins = _joins(graph.before, before), _joins(graph.after, after)
    return (
        Side(along, graph.before, before, joins[0], around.gate_before),
        Side(along[::-1].copy(), graph.after, after, joins[1], around.gate_after),
    )


def _joins(leads: Rows, before: Words) -> Bools:
    """A node joins if k nodes come before a lead, and more than k + 1 before the node."""
    count, node = np.bitwise_count(before).sum(axis=1), leads.owners
    joins = np.diff(leads.ptr) > 0
    joins[node[count[leads.entries] + 1 == count[node]]] = False
    return joins


def narrowed(
    sides: tuple[Side, Side], windows: ChipWindows, amounts: tuple[Amounts, ...], capacity: Floats
) -> ChipWindows:
    """Windows narrowed from both ends by amounts as each end sees them.

    Args:
        sides: the graph from both ends.
        windows: chips that the nodes are known to be between.
        amounts: for each end.
        capacity: `[C]`, of each chip.
    """
    chips = capacity.size
    low, load = _lowest(sides[0], windows.low, amounts[0], capacity)
    floor, turned = windows.turned(chips).low, capacity[::-1].copy()
    from_end, load_from_end = _lowest(sides[1], floor, amounts[1], turned)
    high = chips - 1 - from_end
    # A node with one chip left has there what both ends say of it.
    both = load + load_from_end - amounts[0].own
    full = (low == high) & (both > capacity[np.minimum(low, chips - 1)] * (1.0 + SLACK))
    return ChipWindows(low, np.where(full, low - 1, high).astype(np.int32))


@inlined_njit
def _later(chip: int, load: float, other: int, other_load: float) -> tuple[int, float]:
    """Of two statements on the lowest chip, and the load there, the one that says more."""
    if other > chip or (other == chip and other_load > load):
        return other, other_load
    return chip, load


@lean_inner_njit
def _poured(released: Floats, unit: float, capacity: Floats, last: int) -> tuple[int, float]:
    """The last chip that amounts get to, and how much of them is there at least.

    `released[c]` may go to chip c and later ones, up to chip `last`, and goes as early as possible.
    With a `unit` above 0 it counts pieces of at least that size, which are not divided.
    """
    carry = 0.0
    for chip in range(capacity.size):
        carry += released[chip]
        room = capacity[chip]
        if unit > 0.0:
            room = np.floor(room / unit * (1.0 + SLACK) + SLACK)
        if chip >= last and carry <= room:
            return chip, carry * (unit if unit > 0.0 else 1.0)
        carry = max(carry - room, 0.0)
    return capacity.size, 0.0


@lean_inner_njit
def _release(released: Floats, side: Side, low: Ints, amounts: Amounts, v: int) -> int:
    """Fills in what comes before a node; the last chip that some of it is not before.

    Args:
        released: `[1 + S, C]`, in each of the sizes, by the first chip that it may go to.
        side: the graph.
        low: `[n]`, the lowest chips of all before v.
        amounts: what the nodes take.
        v: the node.
    """
    released[:] = 0.0
    released[0, 0] = amounts.light[v]
    last = 0
    for h in range(amounts.heavy.size):
        u = amounts.heavy[h]
        if holds(side.before, v, u):
            last = max(last, int(low[u]))
            for s in range(amounts.sizes.size):
                released[s, low[u]] += amounts.pieces[s, h]
    return last


@entry_njit
def _lowest(side: Side, floor: Ints, amounts: Amounts, capacity: Floats) -> tuple[Ints, Floats]:
    """`[n]` each: the lowest chip of each node, and what is on it if the node is.

    The chip is the number of chips where the node has none. All that comes before a node is poured
    into the chips, each heavy node not before the chip that it can be on itself. That is done once
    as sand, and once for each size as pieces of at least that size. What comes after its gate is
    poured in from there on, where the gate is at its lowest chip. A statement of a direct
    predecessor holds too.
    """
    n, chips = floor.size, capacity.size
    low, load = np.zeros(n, np.int32), np.zeros(n)
    released = np.empty((amounts.sizes.size, chips))
    for v in side.order:
        chip, held = int(floor[v]), 0.0
        for u in side.leads.entries[side.leads.ptr[v] : side.leads.ptr[v + 1]]:
            chip, held = _later(chip, held, int(low[u]), float(load[u]))
        if side.joins[v] and chip < chips:
            last = _release(released, side, low, amounts, v)
            for s in range(amounts.sizes.size):
                at, amount = _poured(released[s], amounts.sizes[s], capacity, last)
                chip, held = _later(chip, held, at, amount)
            gate = side.gate[v]
            if gate >= 0 and amounts.behind_gate.size:
                at, amount = int(low[gate]), float(load[gate] + amounts.behind_gate[v])
                while at < chips and amount > capacity[at]:
                    amount -= capacity[at]
                    at += 1
                chip, held = _later(chip, held, at, amount)
        while chip < chips and held + amounts.own[v] > capacity[chip]:
            chip += 1
            held = 0.0
        low[v] = chip
        load[v] = held + amounts.own[v]
    return low, load
