"""Contiguous cuts under the triangle rule where dependencies may pass chips by.

The cuts of `chain_windows` are adjacent: no dependency passes a chip by. A long one makes that
impossible, such as an encoder's output that all layers of a decoder read, or the parts of an op
that is sharded over more than two chips. The rule allows more (our derivation): with windows in
order, it holds if and only if no chip that a window reads from leads to another one that it reads
from. This depends on the windows before, so that a cut has a state: the chips of the tensors that
are still to be read, and which of those chips lead to which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_passes.families.ring.loads.window_costs import (
    IdealCrossings,
    PackingRatio,
    Window,
    WindowScratch,
    cuts_of,
    window_cost,
    window_scratch,
)
from mcm_passes.mapping.loads.chip_demands import ChipDemands, chip_demands
from mcm_passes.mapping.problem.rule_graph import Words

MOST_STATES = 8
"""States that are kept of each cut: those that took the fewest chips."""


@dataclass(frozen=True, eq=False)
class _State:
    """One way to cut up to a position.

    Attributes:
        chips: windows so far.
        before: for each chip the bits of all chips that lead to it.
        lies_on: chip of each tensor that is still to be read.
        start: cut that the last window began at.
        previous: the state there.
    """

    chips: int
    before: tuple[int, ...]
    lies_on: dict[int, int]
    start: int
    previous: _State | None

    def cuts(self, end: int) -> list[int]:
        """All cuts from 0 to `end`, where this state is."""
        found, state = [end], self
        while state.previous is not None:
            found.append(state.start)
            state = state.previous
        return found[::-1]

    def signature(self) -> tuple[object, ...]:
        """Signature that the windows to come depend on, whatever numbers the chips have."""
        chips = list(dict.fromkeys(self.lies_on.values()))
        number = {chip: i for i, chip in enumerate(chips)}
        leads = tuple(tuple(self.before[b] >> a & 1 for a in chips) for b in chips)
        return tuple((t, number[c]) for t, c in self.lies_on.items()), leads


class _Position(NamedTuple):
    pinned: int
    made: list[int]
    """Tensors that it makes."""
    reads: list[int]
    """Tensors that it reads."""


class _Costs(NamedTuple):
    """Costs of the windows from one cut, each one position longer than the one before.

    As in `WindowCost`.
    """

    seconds: list[float]
    busy: list[float]
    """`seconds` with what does not grow with a window."""
    host_bytes: list[int]
    """Of the busier host channel."""
    lasting: list[int]
    lying: list[int]
    """`room` without `live`."""
    room: list[int]


class _Window:
    """Facts of a window that grows by one position after the other.

    Attributes:
        sources: bits of the chips that it reads from.
        before: bits of the chips that lead to one of these.
    """

    def __init__(self, state: _State, start: int, made: list[int], last: list[int]) -> None:
        self._state, self._start, self._made, self._last = state, start, made, last
        self.sources, self.before = 0, 0

    def take(self, position: _Position) -> None:
        """Takes in the next position."""
        for t in position.reads:
            if self._made[t] < self._start:
                source = self._state.lies_on[t]
                self.sources |= 1 << source
                self.before |= self._state.before[source]

    def state_at(self, end: int, positions: Sequence[_Position]) -> _State:
        """State where the window ends at a cut."""
        chip, last = self._state.chips, self._last
        lies_on = {t: c for t, c in self._state.lies_on.items() if last[t] >= end}
        for position in positions[self._start : end]:
            lies_on.update((t, chip) for t in position.made if last[t] >= end)
        before = (*self._state.before, self.before | self.sources)
        return _State(chip + 1, before, lies_on, self._start, self._state)


class StrictWindows:
    """One order of a problem under the strict rule, on chips that all reach the host.

    Args:
        problem: the problem.
        order: `[n]`, the units that are not clonable in a topological order.
        most_steps: units and tensors that may be looked at.

    Attributes:
        steps_left: how many of them are left; below 0 where the last search gave up.
    """

    def __init__(self, problem: PartitionProblem, order: Ints, most_steps: int) -> None:
        self.steps_left = most_steps
        self._problem = problem
        self._demands = d = chip_demands(problem, order, own_buffers=True)
        self._cuts = cuts_of(beginnings(order.size), d.tensors)
        self._scratch, self._windows = window_scratch(d), 0
        self._packing = PackingRatio(*problem.limits.activation_packing.as_integer_ratio())
        # Plain lists: single numbers are read from them much faster.
        self._speed: list[float] = problem.chip_speed.tolist()
        link_s = self._cuts.crossing_bytes / problem.limits.link_bytes_per_s
        self._link_s: list[float] = link_s.tolist()
        self._ends: tuple[list[int], list[int]] = (
            d.tensors.producer.tolist(),
            d.tensors.last.tolist(),
        )
        read = d.tensors.readers.transposed(order.size)
        self._positions = [
            _Position(pinned, d.nodes.made.row(p).tolist(), read.row(p).tolist())
            for p, pinned in enumerate(d.nodes.pinned.tolist())
        ]
        alike = len(set(problem.limits.sram_bytes)) == 1 and len(set(self._speed)) == 1
        self._alike = alike and not (d.nodes.pinned >= 0).any()

    def cuts_within(self, period_s: float) -> Longs:
        """The cuts of a partition whose windows are within a period, with few chips.

        Channels that all chips share are not looked at; whoever evaluates the cuts counts them.

        Returns:
            `cuts[k + 1]` from 0 to n, or an empty array where none was found. That is no proof
            that there are none: `MOST_STATES` states of each cut are looked at.
        """
        n = len(self._positions)
        states: list[dict[object, _State]] = [{} for _ in range(n + 1)]
        states[0][()] = _State(0, (), {}, 0, None)
        for j in range(n):
            kept = sorted(states[j].values(), key=lambda state: state.chips)[:MOST_STATES]
            states[j] = {}
            kept = [state for state in kept if state.chips < self._problem.num_chips]
            costs = self._costs(j, period_s) if kept else _Costs([], [], [], [], [], [])
            for state in kept:
                for grown, i in self._grown(state, j, costs, period_s):
                    key = grown.signature() if self._alike else (grown.chips, grown.signature())
                    rival = states[i].get(key)
                    if rival is None or grown.chips < rival.chips:
                        states[i][key] = grown
            if self.steps_left < 0:
                break
        if not states[n]:
            return np.empty(0, np.int64)
        best = min(states[n].values(), key=lambda state: state.chips)
        return np.array(best.cuts(n), np.int64)

    def _room(self, chip: int, period_s: float) -> int:
        """Blocks that a chip has, with what it may stream."""
        limits = self._problem.limits
        streamed = int(limits.stream_bytes_per_s * period_s)
        return (limits.sram_bytes[chip] + streamed) // limits.buffer_alignment_bytes

    def _costs(self, j: int, period_s: float) -> _Costs:
        """Of all windows from cut j that some chip may have, and one more at most."""
        chips, n = range(self._problem.num_chips), len(self._positions)
        seconds, amounts = costs_from(
            self._demands,
            self._cuts,
            self._scratch,
            (j, self._windows),
            self._packing,
            period_s * max(self._speed),
            max(self._room(chip, period_s) for chip in chips),
            period_s * self._problem.limits.host_bytes_per_s,
        )
        self._windows += n
        return _Costs(*seconds.tolist(), *amounts.tolist())

    def _grown(
        self, state: _State, j: int, costs: _Costs, period_s: float
    ) -> list[tuple[_State, int]]:
        """The states that one more window from cut j leads to, with their cuts."""
        n, chip = len(self._positions), state.chips
        most_s = period_s * self._speed[chip]
        most_bytes = period_s * self._problem.limits.host_bytes_per_s
        room = self._room(chip, period_s)
        window = _Window(state, j, *self._ends)
        found: list[tuple[_State, int]] = []
        for k, i in enumerate(range(j + 1, n + 1)):
            position = self._positions[i - 1]
            self.steps_left -= 1
            window.take(position)
            # All of these only grow with the window.
            if (
                window.before & window.sources
                or costs.seconds[k] > most_s
                or costs.lasting[k] > room
                or costs.host_bytes[k] > most_bytes
                or position.pinned not in (-1, chip)
            ):
                break
            if costs.busy[k] > most_s or costs.lying[k] > room:
                continue
            if i < n and self._link_s[i] > period_s:
                continue
            # What follows walks the window twice, and its state compares chips with each other.
            self.steps_left -= 2 * (i - j) + len(state.lies_on) + chip * chip // 4
            if self.steps_left < 0:
                break
            if costs.room[k] <= room:
                found.append((window.state_at(i, self._positions), i))
        return found


def beginnings(n: int) -> Words:
    """`[n + 1, words]`, bitsets of the first positions."""
    bits = np.tri(n + 1, 64 * max(-(-n // 64), 1), -1, np.uint8)
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


@entry_njit
def costs_from(
    d: ChipDemands,
    cuts: IdealCrossings,
    scratch: WindowScratch,
    begins: tuple[int, int],
    packing: PackingRatio,
    most_s: float,
    most_room: int,
    most_bytes: float,
) -> tuple[Floats, Longs]:
    """The columns of `_Costs` for the windows from a cut, up to the first that is too large.

    Args:
        d: the demands, with positions for nodes.
        cuts: what crosses all cuts.
        scratch: for these demands.
        begins: the cut, and how many windows were weighed before.
        packing: memory for activations per peak of live bytes.
        most_s: seconds at speed 1 that a window may take.
        most_room: blocks that a window may take.
        most_bytes: that it may exchange with the host, each way.
    """
    j, mark = begins
    n = d.nodes.work_s.size
    seconds, amounts = np.empty((2, n - j)), np.empty((4, n - j), np.int64)
    inside = np.zeros(cuts.members.shape[1], np.uint64)
    count = 0
    while j + count < n:
        p = j + count
        inside[p >> 6] |= np.uint64(1) << np.uint64(p & 63)
        cost = window_cost(d, cuts, Window(j, p + 1, inside), scratch, mark + count + 1, packing)
        seconds[0, count] = cost.seconds
        seconds[1, count] = cost.seconds + cost.relay_s
        amounts[0, count] = max(cost.in_bytes, cost.out_bytes)
        amounts[1, count] = cost.lasting
        amounts[2, count] = cost.room - cost.live
        amounts[3, count] = cost.room
        count += 1
        if (
            seconds[0, count - 1] > most_s
            or amounts[0, count - 1] > most_bytes
            or amounts[1, count - 1] > most_room
        ):
            break
    return seconds[:, :count], amounts[:, :count]
