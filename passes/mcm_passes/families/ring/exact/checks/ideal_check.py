"""An independent check of bounds over order ideals, in plain Python.

Shares no code with the search: sets are Python integers, costs are read off the problem, and
instead of the best chain it asks whether there is one below a given period.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.bound_checks.plain_need import (
    PlainTensor,
    plain_tensors,
    plain_weights,
    readers_of,
)

MOST_WINDOWS = 500_000
"""Windows that a check over order ideals may weigh, at 30,000 to 250,000 a second."""

ROUNDING = 1e-12
"""Relative slack of sums taken in another order: no chain is left out because of it."""


@dataclass(frozen=True)
class PlainWay:
    """A tensor that travels along the ring."""

    number: int
    """Of the problem."""
    producer: int
    """Bit of the unit that makes it."""
    readers: int
    """Bits of the units that read it."""
    link_bytes: int
    memory: PlainTensor
    relay_s: float
    to_host: bool
    relayed: bool
    copy_s: float
    """Seconds of a copy, where it leaves a chip and `writer` is not there."""
    writer: int
    """Bit of the unit whose memory it is a view of; 0 where no unit writes that."""


@dataclass(frozen=True)
class _Item:
    seconds: float
    room: int
    weight: int
    in_bytes: int


class Window(NamedTuple):
    """What units of one chip come to together; summed up as the window grows.

    Attributes:
        work: of the units themselves, in seconds at speed 1.
        items: bits of what they need once.
        once: of those, in seconds at speed 1.
        room: bytes that those hold.
        weights: bytes of those that are weights.
        in_bytes: bytes of those that the host sends.
        sent: tensors that are given to the host by any chip.
        out_bytes: bytes of those.
    """

    work: float = 0.0
    items: int = 0
    once: float = 0.0
    room: int = 0
    weights: int = 0
    in_bytes: int = 0
    sent: tuple[PlainWay, ...] = ()
    out_bytes: int = 0


_Sources = tuple[tuple[int, int], ...]
"""Under the strict rule, for each chip that is still read from: the bits of the units there whose
tensors are, and those of such units on chips that lead to it."""


class IdealCheck:
    """Asks whether a chain of order ideals is below a period.

    A chain says which units are on which chip, so that all rules are asked for, the whole triangle
    rule as well. Where the host reaches only the ends of the package, it is let reach every chip,
    which makes no chain slower.

    Attributes:
        windows: windows that were weighed.
    """

    def __init__(self, problem: PartitionProblem, most_windows: int) -> None:
        self.windows = 0
        self._most_windows = most_windows
        self._ends = problem.limits.at_ends
        limits = dataclasses.replace(problem.limits, host_io="any")
        problem = dataclasses.replace(problem, limits=limits) if self._ends else problem
        self._problem = problem
        self._limits = problem.limits
        self._fixed = np.flatnonzero(~problem.clonable).tolist()
        self._all = sum(1 << u for u in self._fixed)
        self._before = [0] * problem.num_units
        self._above = [0] * problem.num_units
        self._below = [0] * problem.num_units
        source, target = dependency_edges(problem)
        for u, v in sorted(zip(source.tolist(), target.tolist(), strict=True), key=lambda e: e[1]):
            self._before[v] |= 1 << u
            self._above[v] |= self._above[u] | 1 << u
        for v in reversed(self._fixed):
            for u in units_of(self._above[v]):
                self._below[u] |= 1 << v
        self._following: list[list[int]] = [[] for _ in range(problem.num_units)]
        for v in self._fixed:
            for u in units_of(self._before[v]):
                self._following[u].append(v)
        self._work: list[float] = problem.compute_s.tolist()
        self._speed: list[float] = problem.chip_speed.tolist()
        self._ready: dict[int, list[int]] = {}
        self._crossed: dict[int, list[PlainWay]] = {}
        self._pinned_to: dict[int, int] = {}
        for u in self._fixed:
            if (pin := int(problem.pinned_chip[u])) >= 0:
                self._pinned_to[pin] = self._pinned_to.get(pin, 0) | 1 << u
        self._pinned = sum(self._pinned_to.values())
        self._items: list[_Item] = []
        self._needs = [0] * problem.num_units
        self._tensors: list[PlainWay] = []
        self._made: list[list[PlainWay]] = [[] for _ in range(problem.num_units)]
        self._kept: list[tuple[int, PlainTensor]] = []
        self._read_facts()
        self._link_bytes: dict[int, int] = {}
        # No unit of a window holds more than it does among all units.
        self._most_hungry = self._hungriest(self._all)
        self._roomy = self._most_room() <= min(map(self._usable, range(problem.num_chips)))

    def none_below(self, period_s: float) -> bool | None:
        """Whether no valid partition is faster than `period_s`; None where that takes too long."""
        limits, chips = self._limits, self._problem.num_chips
        if self._host_s() >= period_s:
            return True
        alike = (
            len(set(limits.sram_bytes)) == 1
            and len(set(limits.chip_speed)) <= 1
            and not (self._problem.pinned_chip >= 0).any()
        )
        reached: dict[int, set[_Sources]] = {0: {()}}
        seen: set[tuple[int, _Sources]] = set()
        for chip in range(chips):
            further: dict[int, set[_Sources]] = {}
            for held in sorted(reached):
                arriving = self._crossing(held)
                for grown in self._chips_from(held, chip, period_s):
                    self.windows += len(reached[held]) - 1
                    for sources in sorted(reached[held]):
                        after = self._sources_after(sources, arriving, held, grown)
                        # Where chips are alike, what fewer chips reach need not be reached by more.
                        if after is not None and not (alike and (grown, after) in seen):
                            further.setdefault(grown, set()).add(after)
                if self.windows > self._most_windows:
                    return None
            if self._all in further:
                return False
            seen |= {(held, one) for held, many in further.items() for one in many}
            reached = further
        return True

    def _sources_after(
        self, sources: _Sources, arriving: list[PlainWay], held: int, grown: int
    ) -> _Sources | None:
        """The sources once a window is on a chip; None where that closes a triangle.

        It does if one of the chips that the window reads from leads to another one.
        """
        if self._problem.routing != "strict":
            return ()
        inside = grown & ~held
        read = 0
        for t in arriving:
            read |= t.producer if t.readers & inside else 0
        from_chips = [(made, before) for made, before in sources if made & read]
        before = 0
        for made, leading in from_chips:
            if any(other & leading for other, _ in from_chips):
                return None
            before |= made | leading
        wanted = 0
        for t in self._crossing(grown):
            wanted |= t.producer if t.readers & ~grown else 0
        after = [
            (made & wanted, leading & wanted) for made, leading in (*sources, (inside, before))
        ]
        return tuple(sorted(one for one in after if one[0]))

    def _host_s(self) -> float:
        """Least time of the channel that carries all inputs, or all outputs; 0 without such."""
        p = self._problem
        rate = p.limits.host_total_bytes_per_s
        if not rate:
            return 0.0
        read = np.diff(p.tensor_ptr) > 0
        entering = int(p.tensor_bytes[(p.tensor_producer < 0) & read].sum())
        leaving = int(p.tensor_bytes[(p.tensor_producer >= 0) & p.tensor_to_host].sum())
        return max(entering, leaving) / rate

    def _read_facts(self) -> None:
        p = self._problem
        memory = plain_tensors(p)
        behind = self._behind_clones()
        copies: dict[int, tuple[float, int]] = {}
        if p.copies is not None:
            columns = (p.copies.tensor, p.copies.least.seconds, p.copies.writer)
            copies = {t: (s, w) for t, s, w in zip(*(c.tolist() for c in columns), strict=True)}
        self._kept = [(sum(1 << u for u in t.family), t) for t in memory if t.live_room]
        for t, producer in enumerate(p.tensor_producer.tolist()):
            readers = sorted({v for u in readers_of(p, t) for v in behind[u]})
            size = int(p.tensor_bytes[t])
            if producer >= 0 and p.clonable[producer]:
                # Held for a while only.
                continue
            if producer < 0:
                slots = self._limits.channel_slots
                self._add_item(readers, _Item(0.0, slots * memory[t].room, 0, size))
            else:
                tensor = PlainWay(
                    number=t,
                    producer=1 << producer,
                    readers=sum(1 << v for v in readers),
                    link_bytes=size,
                    memory=memory[t],
                    relay_s=0.0 if p.limits.forwarding == "router" else float(p.relay_s[t]),
                    to_host=bool(p.tensor_to_host[t]),
                    relayed=p.routing == "relay" and p.limits.forwarding == "engine",
                    copy_s=(copy := copies.get(t, (0.0, -1)))[0],
                    writer=1 << copy[1] if copy[1] >= 0 else 0,
                )
                self._tensors.append(tensor)
                self._made[producer].append(tensor)
        for u in np.flatnonzero(p.clonable).tolist():
            self._add_item(behind[u], _Item(float(p.compute_s[u]), 0, 0, 0))
        for weight in plain_weights(p):
            item = _Item(0.0, weight.room, weight.room, 0)
            self._add_item(sorted({v for u in weight.users for v in behind[u]}), item)

    def _add_item(self, users: list[int], item: _Item) -> None:
        for v in users:
            self._needs[v] |= 1 << len(self._items)
        self._items.append(item)

    def _behind_clones(self) -> list[list[int]]:
        p = self._problem
        behind: list[list[int]] = [[] if p.clonable[u] else [u] for u in range(p.num_units)]
        for u in reversed(np.flatnonzero(p.clonable).tolist()):
            found: set[int] = set()
            for t in np.flatnonzero(p.tensor_producer == u).tolist():
                for v in readers_of(p, t):
                    found.update(behind[v])
            behind[u] = sorted(found)
        return behind

    def _chips_from(self, held: int, chip: int, period_s: float) -> Iterator[int]:
        """The ideals that `chip` can hand over at, where it takes over at `held`.

        Left out are those that leave more work to later chips than these do in a period each.
        """
        if held == self._all:
            return
        left_s = math.fsum(self._work[u] for u in units_of(self._all & ~held))
        later = self._speed[chip + 1 :]
        later_s = period_s * math.fsum(later) if later else 0.0
        least_s = left_s * (1.0 - ROUNDING) - later_s
        passing = [t for t in self._arriving(held) if t.relayed and t.relay_s]

        def exceeds(_: int, window: Window) -> bool:
            return self._exceeds(window, chip, period_s)

        for grown, window in self._grown_from(held, exceeds):
            enough = window.work >= least_s
            if enough and self._fits(held, grown, window, passing, chip, period_s):
                yield grown

    def _grown_from(
        self, held: int, exceeds: Callable[[int, Window], bool]
    ) -> Iterator[tuple[int, Window]]:
        """The larger ideals, each with the window up to it, as far as that does not exceed a chip.

        What exceeds a chip does so in all larger windows. Ends beyond the windows that may be
        weighed.
        """
        queue, seen = [(held, Window())], {held}
        while queue:
            at, before = queue.pop()
            for u in self._ready_at(at):
                grown = at | 1 << u
                if grown in seen:
                    continue
                seen.add(grown)
                self._grow(at, u, grown)
                self.windows += 1
                window = self._with(before, u)
                if not exceeds(grown, window):
                    queue.append((grown, window))
                    yield grown, window
            if self.windows > self._most_windows:
                return

    def _with(self, window: Window, u: int) -> Window:
        """A window with one more unit."""
        work, items, once, room, weights, in_bytes, sent, out_bytes = window
        for i in units_of(self._needs[u] & ~items):
            item = self._items[i]
            once += item.seconds
            room += item.room
            weights += item.weight
            in_bytes += item.in_bytes
        given = tuple(t for t in self._made[u] if t.to_host)
        sent += given
        out_bytes += sum(t.link_bytes for t in given)
        items |= self._needs[u]
        return Window(work + self._work[u], items, once, room, weights, in_bytes, sent, out_bytes)

    def _ready_at(self, held: int) -> list[int]:
        """Units that an ideal can take in next."""
        if held not in self._ready:
            self._ready[held] = [
                u for u in self._fixed if not (held >> u & 1 or self._before[u] & ~held)
            ]
        return self._ready[held]

    def _grow(self, at: int, u: int, grown: int) -> None:
        """Derives what is ready behind an ideal, and what crosses it, from the one before."""
        if grown not in self._ready:
            after = [v for v in self._following[u] if not self._before[v] & ~grown]
            self._ready[grown] = sorted([*(v for v in self._ready_at(at) if v != u), *after])
        if grown not in self._crossed:
            known = [*self._crossing(at), *self._made[u]]
            self._crossed[grown] = [t for t in known if t.readers & ~grown]

    def _crossing(self, held: int) -> list[PlainWay]:
        if held == self._all:
            return []
        if held not in self._crossed:
            self._crossed[held] = [
                t for t in self._tensors if t.producer & held and t.readers & ~held
            ]
        return self._crossed[held]

    def _arriving(self, held: int) -> list[PlainWay]:
        """What a chip is sent that takes over at an ideal; the first one is sent nothing."""
        return self._crossing(held) if held else []

    def _exceeds(self, window: Window, chip: int, period_s: float) -> bool:
        """Whether a window takes a period or its weights exceed the chip, larger ones included."""
        too_large = window.weights > self._limits.sram_bytes[chip] and not self._problem.streams
        return too_large or (window.work + window.once) / self._speed[chip] >= period_s

    def _fits(
        self,
        held: int,
        grown: int,
        window: Window,
        passing: list[PlainWay],
        chip: int,
        period_s: float,
    ) -> bool:
        """Whether a window that does not exceed a chip is valid on it and below the period.

        Args:
            held: the ideal at which the chip takes over.
            grown: the one at which it hands over.
            window: what is between them.
            passing: what crosses `held` and takes time to be passed on.
            chip: the chip.
            period_s: the period.
        """
        limits = self._limits
        if not self._keeps_pins(grown & ~held, grown, chip):
            return False
        passed_s = sum(t.relay_s for t in passing if t.readers & ~grown)
        inside = grown & ~held
        crossing = [t for t in self._crossing(grown) if t.producer & inside]
        leaving = {t.number: t for t in (*crossing, *window.sent)}.values()
        passed_s += sum(t.copy_s for t in leaving if not t.writer & inside)
        seconds = (window.work + window.once + passed_s) / self._speed[chip]
        link_s = self._bytes_across(grown) / limits.link_bytes_per_s
        in_s = window.in_bytes / limits.host_bytes_per_s
        out_s = window.out_bytes / limits.host_bytes_per_s
        if max(seconds, link_s, in_s, out_s) >= period_s:
            return False
        if self._problem.routing == "strict" and self._detour(held, grown):
            return False
        over = self._over(held, grown, window, chip)
        return over is not None and not (over and over / limits.stream_bytes_per_s >= period_s)

    def _bytes_across(self, held: int) -> int:
        """Bytes on the link behind an ideal."""
        if held not in self._link_bytes:
            self._link_bytes[held] = sum(t.link_bytes for t in self._crossing(held))
        return self._link_bytes[held]

    def _keeps_pins(self, inside: int, grown: int, chip: int) -> bool:
        """Whether all pinned units of a window belong to its chip, and all of those are there."""
        wanted = self._pinned_to.get(chip, 0)
        return not (inside & self._pinned & ~wanted or wanted & ~grown)

    def _over(self, held: int, grown: int, window: Window, chip: int) -> int | None:
        """Bytes of weights that a chip has to stream; None where nothing helps.

        Args:
            held: the ideal at which the chip takes over.
            grown: the one at which it hands over.
            window: what is between them.
            chip: the chip.
        """
        if self._roomy:
            return 0
        limits = self._limits
        arriving, leaving = self._arriving(held), self._crossing(grown)
        room = window.room + self._buffers(held, grown, arriving, leaving)
        # What is read beyond as well has its send buffers already.
        sent = sum(t.memory.sent_room for t in window.sent if not t.readers & ~grown)
        room += limits.channel_slots * sent
        usable = self._usable(chip)
        if room + self._most_hungry <= usable:
            return 0
        room += self._hungriest(grown & ~held)
        over = max(room - usable, 0)
        movable = window.weights if limits.stream_bytes_per_s else 0
        return over if over <= movable else None

    def _usable(self, chip: int) -> int:
        """Memory is handed out in whole blocks."""
        block = self._limits.buffer_alignment_bytes
        return self._limits.sram_bytes[chip] // block * block

    def _most_room(self) -> int:
        """No window holds more, whatever it is: a tensor has no buffer more than three times."""
        buffers = 3 * sum(t.memory.room + t.memory.sent_room for t in self._tensors)
        items = sum(item.room for item in self._items)
        return items + self._limits.channel_slots * buffers + self._most_hungry

    def _buffers(
        self, held: int, grown: int, arriving: list[PlainWay], leaving: list[PlainWay]
    ) -> int:
        inside = grown & ~held
        room = sum(t.memory.room for t in arriving if t.relayed or t.readers & inside)
        room += sum(t.memory.sent_room for t in leaving if t.producer & inside)
        room += sum(t.memory.room for t in leaving if t.relayed and not t.producer & inside)
        return self._limits.channel_slots * room

    def _hungriest(self, inside: int) -> int:
        """The most that one unit of the window holds at once of what stays within."""
        held: dict[int, int] = {}
        for family, tensor in self._kept:
            if not family & ~inside:
                for u in tensor.holders:
                    held[u] = held.get(u, 0) + tensor.live_room
        return max(held.values(), default=0)

    def _detour(self, held: int, grown: int) -> bool:
        """Ask whether a unit of the window is on a path next to a dependency that passes it."""
        inside = grown & ~held
        return any(
            inside & self._below[t.producer.bit_length() - 1] & self._above[v]
            for t in self._arriving(held)
            for v in units_of(t.readers & ~grown)
        )


def units_of(bits: int) -> list[int]:
    """The units of a set, ascending."""
    found: list[int] = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
