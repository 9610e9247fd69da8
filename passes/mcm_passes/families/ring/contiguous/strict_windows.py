"""Contiguous cuts under the triangle rule where dependencies may pass chips by.

The cuts of `chain_windows` are adjacent: no dependency passes a chip by, which a long one makes
impossible: an encoder's output that all layers of a decoder read, or the parts of an op that is
sharded over more chips than two. The rule allows more (our derivation): with windows in order,
it holds if and only if no chip that a window reads from leads to another one that it reads from.
Whether it does depends on the windows before, so that a cut has a state: on which chips the
tensors lie that are still to be read, and which of those chips lead to which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_routes import CLONED, FROM_HOST, TO_HOST
from mcm_passes.families.ring.contiguous.contiguous_windows import tensors_along, windows_along
from mcm_passes.mapping.loads.demand_table import demand_table
from mcm_passes.mapping.loads.tensor_columns import LIVE, RECEIVED, SENT

MOST_STATES = 8
"""States that are kept of each cut: those that took the fewest chips."""


class _Tensor(NamedTuple):
    made: int
    """Position of its producer."""
    last: int
    """Position of its last reader, or of its producer where nothing reads it."""
    received: int
    """Memory where it arrives."""
    sent: int
    """Memory on its producer's chip where it leaves it."""
    live: int
    """Memory where it stays."""
    local: bool
    """Whether it takes no send buffer where all its readers are in the producer's window."""


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
        """What the windows to come depend on, whatever numbers the chips have."""
        chips = list(dict.fromkeys(self.lies_on.values()))
        number = {chip: i for i, chip in enumerate(chips)}
        leads = tuple(tuple(self.before[b] >> a & 1 for a in chips) for b in chips)
        return tuple((t, number[c]) for t, c in self.lies_on.items()), leads


class _Position(NamedTuple):
    work_s: float
    pinned: int
    out_s: float
    """Host channel seconds of what it sends to the host."""
    out_held: int
    """Memory of the send buffers for that."""
    items: list[tuple[int, float, int, float]]
    """As in `SharedDemands`: the position before with the same item, chip seconds, memory, and host
    channel seconds."""
    made: list[int]
    """Tensors that it makes."""
    reads: list[tuple[int, int]]
    """Tensors that it reads, with the reader before it or else the producer."""


class _Window:
    """What a window comes to that grows by one position after the other.

    Attributes:
        busy_s: seconds of units and clones.
        in_s: seconds of the host channel in.
        out_s: seconds of the host channel out.
        held: memory that only grows with the window.
        leaving: memory of the send buffers for tensors that leave it.
        sources: bits of the chips that it reads from.
        before: bits of the chips that lead to one of these.
    """

    def __init__(self, state: _State, start: int, tensors: dict[int, _Tensor]) -> None:
        self._state, self._start, self._tensors = state, start, tensors
        self.busy_s, self.in_s, self.out_s = 0.0, 0.0, 0.0
        self.held, self.leaving = 0, 0
        self.sources, self.before = 0, 0

    def take(self, p: int, position: _Position) -> None:
        """Takes in position p, the next one."""
        start, tensors = self._start, self._tensors
        self.busy_s += position.work_s
        self.out_s += position.out_s
        self.held += position.out_held
        for previous, busy_s, held, in_s in position.items:
            if previous < start:
                self.busy_s += busy_s
                self.held += held
                self.in_s += in_s
        for t, previous in position.reads:
            tensor = tensors[t]
            if tensor.made < start:
                source = self._state.lies_on[t]
                self.sources |= 1 << source
                self.before |= self._state.before[source]
                if previous < start:
                    self.held += tensor.received
            elif tensor.last == p:
                self.leaving -= tensor.sent
        for t in position.made:
            if tensors[t].last > p:
                self.leaving += tensors[t].sent

    def state_at(self, end: int, positions: Sequence[_Position]) -> _State:
        """What follows where the window ends at a cut."""
        chip, tensors = self._state.chips, self._tensors
        lies_on = {t: c for t, c in self._state.lies_on.items() if tensors[t].last >= end}
        for position in positions[self._start : end]:
            lies_on.update((t, chip) for t in position.made if tensors[t].last >= end)
        before = (*self._state.before, self.before | self.sources)
        return _State(chip + 1, before, lies_on, self._start, self._state)


class StrictWindows:
    """One order of a problem under the strict rule, on chips that all reach the host.

    Args:
        problem: the problem.
        order: `[n]`, the units that are not clonable in a topological order.

    Attributes:
        steps: units and tensors that were looked at.
    """

    def __init__(self, problem: PartitionProblem, order: Ints) -> None:
        self.steps = 0
        windows = windows_along(problem, order)
        self._num_chips = problem.num_chips
        self._packing, self._alignment = windows.chips.packing, windows.chips.alignment
        self._stream_bytes_per_s = windows.streaming.bytes_per_s
        # Plain lists: single numbers are read from them much faster.
        self._sram: list[int] = windows.chips.sram_bytes.tolist()
        self._speed: list[float] = windows.chips.speed.tolist()
        self._link_s: list[float] = windows.cuts.link_s.tolist()
        items = windows.items
        columns = (items.previous, items.busy_s, items.held, items.host_in_s)
        costs = list(zip(*(column.tolist() for column in columns), strict=True))
        columns = (windows.work_s, windows.pinned, windows.outputs.host_s, windows.outputs.held)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        self._positions = [
            _Position(work_s, pinned, out_s, out_held, costs[a:b], [], [])
            for (work_s, pinned, out_s, out_held), (a, b) in zip(
                numbers, pairwise(items.ptr.tolist()), strict=True
            )
        ]
        pinned = any(position.pinned >= 0 for position in self._positions)
        self._alike = len(set(self._sram)) == 1 and len(set(self._speed)) == 1 and not pinned
        self._tensors: dict[int, _Tensor] = {}
        along = tensors_along(problem, order, demand_table(problem, own_buffers=True))
        memory = along.amount[:, [RECEIVED, SENT, LIVE]].tolist()
        local = (along.kind & TO_HOST == 0).tolist()
        for t in np.flatnonzero(along.kind & (FROM_HOST | CLONED) == 0).tolist():
            readers = along.position[problem.placed_readers.row(t)]
            places = [int(along.made[t]), *np.sort(readers).tolist()]
            received, sent, live = memory[t]
            self._tensors[t] = _Tensor(places[0], places[-1], received, sent, live, local[t])
            self._positions[places[0]].made.append(t)
            for before, at in pairwise(places):
                self._positions[at].reads.append((t, before))

    def cuts_within(self, period_s: float, most_steps: int) -> Longs:
        """The cuts of a partition whose windows are within a period, with few chips.

        Channels that all chips share are not looked at; whoever evaluates the cuts counts them.

        Args:
            period_s: the period.
            most_steps: units and tensors that may be looked at.

        Returns:
            `cuts[k + 1]` from 0 to n, or an empty array where none was found. That is no proof
            that there are none: `MOST_STATES` states of each cut are looked at.
        """
        n, last_step = len(self._positions), self.steps + most_steps
        states: list[dict[object, _State]] = [{} for _ in range(n + 1)]
        states[0][()] = _State(0, (), {}, 0, None)
        for j in range(n):
            kept = sorted(states[j].values(), key=lambda state: state.chips)[:MOST_STATES]
            states[j] = {}
            for state in kept:
                if state.chips == self._num_chips:
                    continue
                for grown, i in self._grown(state, j, period_s, last_step):
                    key = grown.signature() if self._alike else (grown.chips, grown.signature())
                    rival = states[i].get(key)
                    if rival is None or grown.chips < rival.chips:
                        states[i][key] = grown
            if self.steps > last_step:
                break
        if not states[n]:
            return np.empty(0, np.int64)
        best = min(states[n].values(), key=lambda state: state.chips)
        return np.array(best.cuts(n), np.int64)

    def _grown(
        self, state: _State, j: int, period_s: float, last_step: int
    ) -> list[tuple[_State, int]]:
        """The states that one more window from cut j leads to, with their cuts."""
        n, chip = len(self._positions), state.chips
        most_s = period_s * self._speed[chip]
        sram = self._sram[chip] + int(self._stream_bytes_per_s * period_s)
        pins = (-1, chip)
        window = _Window(state, j, self._tensors)
        found: list[tuple[_State, int]] = []
        for i in range(j + 1, n + 1):
            position = self._positions[i - 1]
            self.steps += 1
            window.take(i - 1, position)
            # All of these only grow with the window.
            if (
                window.before & window.sources
                or window.busy_s > most_s
                or window.held > sram
                or max(window.in_s, window.out_s) > period_s
                or position.pinned not in pins
            ):
                break
            room = sram - window.held - window.leaving
            if (i < n and self._link_s[i] > period_s) or room < 0:
                continue
            # What follows walks the window twice, and its state compares chips with each other.
            self.steps += 2 * (i - j) + len(state.lies_on) + chip * chip // 4
            if self.steps > last_step:
                break
            if self._live(j, i) <= room:
                found.append((window.state_at(i, self._positions), i))
        return found

    def _live(self, j: int, i: int) -> int:
        """Memory for the activations that are made and read within a window."""
        live, peak = 0, 0
        dying: dict[int, int] = {}
        for q in range(j, i):
            for t in self._positions[q].made:
                tensor = self._tensors[t]
                if tensor.last < i and tensor.local:
                    live += tensor.live
                    dying[tensor.last] = dying.get(tensor.last, 0) + tensor.live
            peak = max(peak, live)
            live -= dying.pop(q, 0)
        return math.ceil(peak * self._packing / self._alignment) * self._alignment
