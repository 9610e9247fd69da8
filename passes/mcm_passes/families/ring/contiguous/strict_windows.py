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
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mcm_compiler.partition import Ints, Longs, PartitionProblem
from mcm_compiler.ring_routes import CLONED, FROM_HOST, TO_HOST
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.mapping.loads.demand_table import demand_table
from mcm_passes.mapping.loads.tensor_columns import LIVE, RECEIVED, SENT, tensor_columns

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
        n = order.size
        self._size = n
        self._num_chips = problem.num_chips
        self._packing, self._alignment = windows.packing, windows.alignment
        self._stream_bytes_per_s = windows.stream_bytes_per_s
        # Plain lists: single numbers are read from them much faster.
        self._sram: list[int] = windows.sram_bytes.tolist()
        self._speed: list[float] = windows.speed.tolist()
        self._pinned: list[int] = windows.pinned.tolist()
        self._work_s: list[float] = windows.work_s.tolist()
        self._link_s: list[float] = windows.link_s.tolist()
        self._out_s: list[float] = windows.out_s.tolist()
        self._out_bytes: list[int] = windows.out_bytes.tolist()
        costs = (windows.item_previous, windows.item_s, windows.item_bytes, windows.item_in_s)
        items = list(zip(*(column.tolist() for column in costs), strict=True))
        self._items: list[list[tuple[int, float, int, float]]] = [
            items[a:b] for a, b in pairwise(windows.item_ptr.tolist())
        ]
        self._alike = (
            len(set(self._sram)) == 1 and len(set(self._speed)) == 1 and max(self._pinned) < 0
        )
        position = np.full(problem.num_units, -1, np.int64)
        position[order] = np.arange(n)
        kinds, amount, _ = tensor_columns(demand_table(problem, own_buffers=True))
        costs = amount[:, [RECEIVED, SENT, LIVE]].tolist()
        self._tensors: list[_Tensor] = []
        self._made: list[list[int]] = [[] for _ in range(n)]
        self._reads: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        """Tensors that each position reads, with the reader before it or else the producer."""
        for t in np.flatnonzero(kinds & (FROM_HOST | CLONED) == 0).tolist():
            producer = problem.tensor_producer[t]
            made = int(position[producer])
            readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            places = np.sort(position[readers]).tolist()
            k = len(self._tensors)
            local = not kinds[t] & TO_HOST
            received, sent, live = costs[t]
            last = max([made, *places])
            self._tensors.append(_Tensor(made, last, received, sent, live, local))
            self._made[made].append(k)
            for before, at in pairwise([made, *places]):
                self._reads[at].append((k, before))

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
        n, last_step = self._size, self.steps + most_steps
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
        n, chip, tensors = self._size, state.chips, self._tensors
        most_s = period_s * self._speed[chip]
        sram = self._sram[chip] + int(self._stream_bytes_per_s * period_s)
        pins = (-1, chip)
        seconds, in_s, out_s = 0.0, 0.0, 0.0
        held, leaving = 0, 0
        sources, before = 0, 0
        found: list[tuple[_State, int]] = []
        for i in range(j + 1, n + 1):
            p = i - 1
            self.steps += 1
            seconds += self._work_s[p]
            out_s += self._out_s[p]
            held += self._out_bytes[p]
            for previous, item_s, item_bytes, item_in_s in self._items[p]:
                if previous < j:
                    seconds += item_s
                    held += item_bytes
                    in_s += item_in_s
            for t, previous in self._reads[p]:
                tensor = tensors[t]
                if tensor.made < j:
                    source = state.lies_on[t]
                    sources |= 1 << source
                    before |= state.before[source]
                    if previous < j:
                        held += tensor.received
                elif tensor.last == p:
                    leaving -= tensor.sent
            for t in self._made[p]:
                if tensors[t].last > p:
                    leaving += tensors[t].sent
            # All of these only grow with the window.
            if (
                before & sources
                or seconds > most_s
                or held > sram
                or max(in_s, out_s) > period_s
                or self._pinned[p] not in pins
            ):
                break
            if (i < n and self._link_s[i] > period_s) or held + leaving > sram:
                continue
            # What follows walks the window twice, and its state compares chips with each other.
            self.steps += 2 * (i - j) + len(state.lies_on) + chip * chip // 4
            if self.steps > last_step:
                break
            if held + leaving + self._live(j, i) > sram:
                continue
            lies_on = {t: c for t, c in state.lies_on.items() if tensors[t].last >= i}
            for q in range(j, i):
                for t in self._made[q]:
                    if tensors[t].last >= i:
                        lies_on[t] = chip
            grown = _State(chip + 1, (*state.before, before | sources), lies_on, j, state)
            found.append((grown, i))
        return found

    def _live(self, j: int, i: int) -> int:
        """Memory for the activations that are made and read within a window."""
        live, peak = 0, 0
        dying: dict[int, int] = {}
        for q in range(j, i):
            for t in self._made[q]:
                tensor = self._tensors[t]
                if tensor.last < i and tensor.local:
                    live += tensor.live
                    dying[tensor.last] = dying.get(tensor.last, 0) + tensor.live
            peak = max(peak, live)
            live -= dying.pop(q, 0)
        return math.ceil(peak * self._packing / self._alignment) * self._alignment
