"""A fabric played cycle by cycle in plain Python, as the contract of measurements says.

The second reading of `mcm_compiler.contracts.fabrics.measurement`: it shares nothing with a judge,
keeps every queue as a list, and compares whole states to find one that repeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    IO,
    MEMORY,
    Fabric,
    MappingProblem,
    Mappings,
)

Way = tuple[str, int]
"""What a flit leaves a switch by: `("link", number)` or `("site", number)`."""


@dataclass(frozen=True)
class Played:
    """What came out: exact cycles per sample, and cycles of the first."""

    period: Fraction
    latency: int


class Turns:
    """Serves one of several in turn, from behind the last served."""

    def __init__(self) -> None:
        self.next = 0

    def take(self, wanted: Sequence[bool]) -> int | None:
        """Position of the one that is served; None where none is."""
        for step in range(len(wanted)):
            place = (self.next + step) % len(wanted)
            if wanted[place]:
                self.next = (place + 1) % len(wanted)
                return place
        return None


@dataclass
class Flit:
    """A flit at an input of a switch, with the ways that it has not gone yet."""

    stream: int
    switch: int
    ways: set[Way]
    ready: int


@dataclass
class Unit:
    """State of a compute unit: which firing of which sample, and what it made."""

    sample: int = 0
    firing: int = 0
    ends: int | None = None
    made: dict[int, int] = field(default_factory=dict[int, int])
    due: dict[int, int] = field(default_factory=dict[int, int])


def path(fabric: Fabric, source: int, target: int, turn: int) -> list[int]:
    """Links from a switch to another: along the row first, or along the column first."""
    row, col = divmod(source, fabric.cols)
    last_row, last_col = divmod(target, fabric.cols)
    links: list[int] = []

    def along_row() -> None:
        nonlocal col
        while col != last_col:
            links.append(4 * (row * fabric.cols + col) + (0 if last_col > col else 1))
            col += 1 if last_col > col else -1

    def along_column() -> None:
        nonlocal row
        while row != last_row:
            links.append(4 * (row * fabric.cols + col) + (2 if last_row < row else 3))
            row += 1 if last_row > row else -1

    for walk in (along_row, along_column) if turn == 0 else (along_column, along_row):
        walk()
    return links


def behind(fabric: Fabric, link: int) -> int:
    """The switch that a link leads to."""
    switch, direction = divmod(link, 4)
    return switch + (1, -1, -fabric.cols, fabric.cols)[direction]


class PlainFabric:
    """One mapping being played; `play` runs it."""

    def __init__(self, problem: MappingProblem, fabric: Fabric, mapping: Mappings) -> None:
        self.problem, self.fabric = problem, fabric
        self.site = [int(s) for s in mapping.site[0]]
        self.turn = [int(t) for t in mapping.turn[0]]
        streams, units = range(problem.num_streams), range(problem.num_units)
        self.flits = [int(f) for f in problem.flits]
        ptr = problem.leaf_ptr
        self.leaves = [[int(u) for u in problem.leaf[ptr[e] : ptr[e + 1]]] for e in streams]
        self.out = {u: [e for e in streams if problem.source[e] == u] for u in units}
        self.into = {u: [e for e in streams if u in self.leaves[e]] for u in units}
        self.switch = [int(fabric.switch[s]) for s in self.site]
        self.unit_at = {site: u for u, site in enumerate(self.site)}
        self._lay_trees()
        self._lay_inputs()
        self.now = 0
        self.register = [0 for _ in streams]
        self.unread = {(e, u): 0 for e in streams for u in self.leaves[e]}
        self.owed = dict(self.unread)
        self.served = dict(self.unread)
        self.sent = [0 for _ in streams]
        self.port: dict[int, Flit | None] = dict.fromkeys(units)
        self.fifo: dict[tuple[int, int], deque[Flit]] = {}
        self.coming: list[tuple[int, int, int]] = []
        self.credits: list[tuple[int, int, int]] = []
        self.compute = {u: Unit() for u in units if problem.kind[u] == COMPUTE}
        self.turns: dict[Any, Turns] = {}

    def _lay_trees(self) -> None:
        self.ways: dict[tuple[int, int], set[Way]] = {}
        self.distance: dict[tuple[int, int], int] = {}
        for e, leaves in enumerate(self.leaves):
            start = self.switch[int(self.problem.source[e])]
            for u in leaves:
                links = path(self.fabric, start, self.switch[u], self.turn[e])
                self.distance[e, u] = len(links)
                for link in links:
                    self.ways.setdefault((e, link // 4), set()).add(("link", link))
                self.ways.setdefault((e, self.switch[u]), set()).add(("site", self.site[u]))

    def _lay_inputs(self) -> None:
        fabric = self.fabric
        self.inputs: dict[int, list[tuple[str, int, int]]] = {}
        for switch in range(fabric.num_switches):
            row, col = divmod(switch, fabric.cols)
            links = [
                4 * other + direction
                for other, direction, there in (
                    (switch - 1, 0, col > 0),
                    (switch + 1, 1, col < fabric.cols - 1),
                    (switch + fabric.cols, 2, row < fabric.rows - 1),
                    (switch - fabric.cols, 3, row > 0),
                )
                if there
            ]
            sites = [s for s in range(fabric.num_sites) if fabric.switch[s] == switch]
            self.inputs[switch] = [
                *(("link", link, channel) for link in sorted(links) for channel in (0, 1)),
                *(("site", site, 0) for site in sites),
            ]

    def play(self, most_cycles: int = 200_000) -> Played:
        """Plays until a state repeats at the end of a sample.

        Raises:
            RuntimeError: if nothing moves any more, or no state repeats in so many cycles.
        """
        ended: list[int] = []
        seen: dict[Any, int] = {}
        moved_last = 0
        while self.now < most_cycles:
            moved_last = self.now if self._cycle() else moved_last
            if self.now - moved_last > 1000 + int(self.problem.cycles.max()):
                raise RuntimeError(f"nothing moves since cycle {moved_last}")
            done = self._samples_ended()
            ended += [self.now] * (done - len(ended))
            self.now += 1
            if done and ended[-1] == self.now - 1:
                state = self._state(done)
                if state in seen:
                    first = seen[state]
                    span = ended[done - 1] - ended[first - 1]
                    return Played(Fraction(span, done - first), ended[0] + 1)
                seen[state] = done
        raise RuntimeError("no state repeats")

    def _turn(self, key: Any) -> Turns:
        return self.turns.setdefault(key, Turns())

    def _cycle(self) -> bool:
        moved = self._arrive()
        room = [self.fabric.output_flits - held for held in self.register]
        unread = dict(self.unread)
        for u in range(self.problem.num_units):
            if self.problem.kind[u] == COMPUTE:
                moved |= self._fire(u, unread)
            elif self.problem.kind[u] == MEMORY:
                moved |= self._hold(u, room, unread)
        moved |= self._channels(room, unread)
        moved |= self._ports()
        return self._switches() or moved

    def _arrive(self) -> bool:
        back = [c for c in self.credits if c[0] == self.now]
        self.credits = [c for c in self.credits if c[0] != self.now]
        for _, e, u in back:
            self.owed[e, u] -= 1
        there = [c for c in self.coming if c[0] == self.now]
        self.coming = [c for c in self.coming if c[0] != self.now]
        for _, e, u in there:
            self.unread[e, u] += 1
        return bool(back or there)

    def _read(self, e: int, u: int, count: int = 1) -> None:
        self.unread[e, u] -= count
        self.served[e, u] += count
        when = self.now + self.fabric.hop_cycles * (self.distance[e, u] + 1)
        self.credits += [(when, e, u)] * count

    def _fire(self, u: int, unread: dict[tuple[int, int], int]) -> bool:
        unit, firings = self.compute[u], int(self.problem.firings[u])
        moved = False
        if unit.ends == self.now:
            moved, unit.ends = True, None
            last = unit.firing + 1
            for e in self.out[u]:
                made = last * self.flits[e] // firings - unit.firing * self.flits[e] // firings
                unit.made[e] = unit.made.get(e, 0) + made
                if last % int(self.problem.burst[u]) == 0 or last == firings:
                    unit.due[e] = unit.due.get(e, 0) + unit.made.pop(e)
            unit.firing = last % firings
            unit.sample += last == firings
        for e in self.out[u]:
            goes = min(unit.due.get(e, 0), self.fabric.output_flits - self.register[e])
            if goes:
                unit.due[e] -= goes
                self.register[e] += goes
                moved = True
        if unit.ends is not None or any(unit.due.values()):
            return moved
        needs: dict[int, int] = {}
        for e in self.into[u]:
            whole = unit.sample * self.flits[e]
            upto = whole + -(-(unit.firing + 1) * self.flits[e] // firings)
            needs[e] = upto - self.served[e, u]
        if all(unread[e, u] >= need for e, need in needs.items()):
            for e, need in needs.items():
                self._read(e, u, need)
            unit.ends = self.now + int(self.problem.cycles[u])
            moved = True
        return moved

    def _hold(self, u: int, room: Sequence[int], unread: dict[tuple[int, int], int]) -> bool:
        banks, depth = self.fabric.banks, int(self.problem.depth[u])
        written = min((self.served[e, u] // self.flits[e] for e in self.into[u]), default=0)
        freed = min((self.sent[e] // self.flits[e] for e in self.out[u]), default=0)
        bank: int | None = None
        wanted = [
            unread[e, u] > 0 and self.served[e, u] // self.flits[e] < freed + depth
            for e in self.into[u]
        ]
        write = self._turn(("write", u)).take(wanted)
        if write is not None:
            e = self.into[u][write]
            sample, flit = divmod(self.served[e, u], self.flits[e])
            bank = (flit + sample) % banks
        open_to_read = [
            room[e] > 0 and (depth == 0 or self._may_read(e, written, bank, banks))
            for e in self.out[u]
        ]
        read = self._turn(("read", u)).take(open_to_read)
        if write is not None:
            self._read(self.into[u][write], u)
        if read is not None:
            self.sent[self.out[u][read]] += 1
            self.register[self.out[u][read]] += 1
        return write is not None or read is not None

    def _may_read(self, e: int, written: int, bank: int | None, banks: int) -> bool:
        sample, flit = divmod(self.sent[e], self.flits[e])
        return sample < written and (flit + sample) % banks != bank

    def _channels(self, room: Sequence[int], unread: dict[tuple[int, int], int]) -> bool:
        moved = False
        for channel in range(self.fabric.num_channels):
            units = [
                u
                for u in range(self.problem.num_units)
                if self.problem.kind[u] == IO and self.fabric.channel[self.site[u]] == channel
            ]
            jobs = [
                *((u, e, True) for u in units for e in self.out[u]),
                *((u, e, False) for u in units for e in self.into[u]),
            ]
            jobs.sort(key=lambda job: (job[0], not job[2], job[1]))
            wanted = [room[e] > 0 if brings else unread[e, u] > 0 for u, e, brings in jobs]
            taken = self._turn(("channel", channel)).take(wanted)
            if taken is None:
                continue
            u, e, brings = jobs[taken]
            moved = True
            if brings:
                self.register[e] += 1
            else:
                self._read(e, u)
        return moved

    def _ports(self) -> bool:
        moved = False
        window = self.fabric.window_flits
        for u, streams in self.out.items():
            if self.port[u] is not None:
                continue
            wanted = [
                self.register[e] > 0 and all(self.owed[e, leaf] < window for leaf in self.leaves[e])
                for e in streams
            ]
            taken = self._turn(("port", u)).take(wanted)
            if taken is not None:
                e, moved = streams[taken], True
                self.register[e] -= 1
                for leaf in self.leaves[e]:
                    self.owed[e, leaf] += 1
                ways = set(self.ways[e, self.switch[u]])
                self.port[u] = Flit(e, self.switch[u], ways, self.now)
        return moved

    def _switches(self) -> bool:
        heads = {switch: self._heads(inputs) for switch, inputs in self.inputs.items()}
        room = {place: self.fabric.fifo_flits - len(queue) for place, queue in self.fifo.items()}
        moved = False
        for switch, first in heads.items():
            for way in sorted({way for flit in first if flit for way in flit.ways}):
                wanted = [flit is not None and self._fits(flit, way, room) for flit in first]
                taken = self._turn(("out", way)).take(wanted)
                flit = None if taken is None else first[taken]
                if flit is not None:
                    flit.ways.discard(way)
                    self._send(flit.stream, way)
                    moved = True
            for place, flit in zip(self.inputs[switch], first, strict=True):
                if flit is not None and not flit.ways:
                    self._leave(place)
        return moved

    def _fits(self, flit: Flit, way: Way, room: dict[tuple[int, int], int]) -> bool:
        if way not in flit.ways:
            return False
        behind_it = room.get((way[1], self.turn[flit.stream]), self.fabric.fifo_flits)
        return way[0] == "site" or behind_it > 0

    def _heads(self, inputs: Iterable[tuple[str, int, int]]) -> list[Flit | None]:
        found: list[Flit | None] = []
        for kind, number, channel in inputs:
            if kind == "link":
                queue = self.fifo.get((number, channel))
                head = queue[0] if queue and queue[0].ready <= self.now else None
            else:
                unit = self.unit_at.get(number)
                head = None if unit is None else self.port[unit]
            found.append(head)
        return found

    def _send(self, e: int, way: Way) -> None:
        when = self.now + self.fabric.hop_cycles
        if way[0] == "site":
            self.coming.append((when, e, self.unit_at[way[1]]))
            return
        target = behind(self.fabric, way[1])
        flit = Flit(e, target, set(self.ways[e, target]), when)
        self.fifo.setdefault((way[1], self.turn[e]), deque()).append(flit)

    def _leave(self, place: tuple[str, int, int]) -> None:
        if place[0] == "link":
            self.fifo[place[1], place[2]].popleft()
        else:
            self.port[self.unit_at[place[1]]] = None

    def _samples_ended(self) -> int:
        counts: list[int] = []
        for u, streams in self.out.items():
            if streams:
                continue
            if u in self.compute:
                counts.append(self.compute[u].sample)
            else:
                counts += [self.served[e, u] // self.flits[e] for e in self.into[u]]
        return min(counts)

    def _state(self, done: int) -> Any:
        """Everything that decides what follows, relative to sample and cycle."""
        now, flits = self.now, self.flits
        shown: Callable[[Flit], Any] = lambda f: (  # noqa: E731
            f.stream,
            f.switch,
            tuple(sorted(f.ways)),
            max(f.ready - now, 0),
        )
        depth = self.problem.depth
        memory_sent = [
            self.sent[e] - done * flits[e] if depth[self.problem.source[e]] > 0 else 0
            for e in range(self.problem.num_streams)
        ]
        return (
            tuple(self.register),
            tuple(self.unread.values()),
            tuple(self.owed.values()),
            tuple(n - done * flits[e] for (e, _), n in self.served.items()),
            tuple(memory_sent),
            tuple(None if f is None else shown(f) for f in self.port.values()),
            tuple((k, tuple(map(shown, q))) for k, q in sorted(self.fifo.items()) if q),
            tuple(sorted((when - now, e, u) for when, e, u in self.coming)),
            tuple(sorted((when - now, e, u) for when, e, u in self.credits)),
            tuple(
                (
                    c.sample - done,
                    c.firing,
                    None if c.ends is None else c.ends - now,
                    tuple(sorted(c.made.items())),
                    tuple(sorted(c.due.items())),
                )
                for c in self.compute.values()
            ),
            tuple(sorted((repr(key), turns.next) for key, turns in self.turns.items())),
            done % self.fabric.banks if np.any(depth > 0) else 0,
        )


def play(problem: MappingProblem, fabric: Fabric, mapping: Mappings) -> Played:
    """Plays one mapping; see `PlainFabric.play`."""
    return PlainFabric(problem, fabric, mapping).play()
