"""An independent check of bounds over order ideals, in plain Python.

Shares no code with the search: sets are Python integers, costs are read off the problem, and
instead of the best chain it asks whether there is one below a given period.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.bound_checks.bound_checks import host_transfers
from mcm_passes.mapping.bound_checks.plain_need import (
    PlainTensor,
    plain_copies,
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
    copy_s: float
    """Seconds of a copy, where it leaves a chip and `writer` is not there."""
    writer: int
    """Bit of the unit whose memory it is a view of; 0 where no unit writes that."""


class Window(NamedTuple):
    """Sums over units of one chip, which grow with the window.

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


class Step(NamedTuple):
    """A window on a chip, which takes over at the ideal `held` and hands over at `grown`."""

    chip: int
    held: int
    grown: int
    window: Window


State = TypeVar("State")
"""Facts of a chain of windows up to an ideal."""

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
        behind: of each unit those with a place of their own that need it there: itself, or of a
            clonable one those that read it, through others as well.
        alike: whether it does not matter which chip has which units.
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
        source, target = dependency_edges(problem)
        for u, v in sorted(zip(source.tolist(), target.tolist(), strict=True), key=lambda e: e[1]):
            self._before[v] |= 1 << u
            self._above[v] |= self._above[u] | 1 << u
        self._following: list[list[int]] = [[] for _ in range(problem.num_units)]
        for v in self._fixed:
            for u in units_of(self._before[v]):
                self._following[u].append(v)
        self._work: list[float] = problem.compute_s.tolist()
        self._speed: list[float] = problem.chip_speed.tolist()
        self._ready = {0: [u for u in self._fixed if not self._before[u]]}
        self._crossing: dict[int, list[PlainWay]] = {0: []}
        self._link_bytes = {0: 0}
        self._pinned_to: dict[int, int] = {}
        for u in self._fixed:
            if (pin := int(problem.pinned_chip[u])) >= 0:
                self._pinned_to[pin] = self._pinned_to.get(pin, 0) | 1 << u
        self._pinned = sum(self._pinned_to.values())
        self._items: list[tuple[float, int, int, int]] = []
        self._needs = [0] * problem.num_units
        self._made: list[list[PlainWay]] = [[] for _ in range(problem.num_units)]
        self._kept: list[tuple[int, PlainTensor]] = []
        limits = problem.limits
        self.alike = len(set(limits.sram_bytes)) == 1 and len(set(limits.chip_speed)) <= 1
        self.alike &= not self._pinned
        self.behind = self._behind_clones()
        self._read_facts()
        # No unit of a window holds more than it does among all units.
        self._most_hungry = self._hungriest(self._all)

    def none_below(self, period_s: float) -> bool | None:
        """Return whether no partition is faster than `period_s`; None where that takes too long."""
        if host_transfers(self._problem, period_s):
            return True

        def windows(chip: int, held: int, _: list[_Sources]) -> Iterator[Step]:
            return self.steps_below(chip, held, period_s)

        first: _Sources = ()
        return self.no_chain(first, windows, self._sources_after, front(operator.eq, self.alike))

    def no_chain(
        self,
        first: State,
        windows: Callable[[int, int, list[State]], Iterable[Step]],
        after: Callable[[State, Step], State | None],
        keep: Callable[[dict[int, list[State]], int, State], None],
    ) -> bool | None:
        """Return whether no chain of windows holds all units; None beyond `most_windows`.

        Ideals are taken from the smallest on, so that all chains up to one are known.

        Args:
            first: what is known of the empty chain.
            windows: the windows that a chip may hold which takes over at an ideal, after chains of
                which some things are known.
            after: what is known of a chain with one more window; None where it is of no use.
            keep: adds to what is known of chains up to an ideal, by their number of chips.
        """
        reached: dict[int, dict[int, list[State]]] = {0: {0: [first]}}
        by_size: list[list[int]] = [[0], *([] for _ in self._fixed)]
        for held in chain.from_iterable(map(sorted, by_size[:-1])):
            for chip, states in sorted(reached.pop(held).items()):
                if chip == self._problem.num_chips or not states:
                    continue
                for step in windows(chip, held, states):
                    self.windows += len(states) - 1
                    for state in states:
                        new = after(state, step)
                        if new is None:
                            continue
                        if step.grown == self._all:
                            return False
                        if step.grown not in reached:
                            by_size[step.grown.bit_count()].append(step.grown)
                        keep(reached.setdefault(step.grown, {}), chip + 1, new)
                if self.windows > self._most_windows:
                    return None
        return True

    def _sources_after(self, sources: _Sources, step: Step) -> _Sources | None:
        """The sources once a window is on a chip; None where that closes a triangle.

        It does if one of the chips that the window reads from leads to another one.
        """
        if self._problem.routing != "strict":
            return ()
        inside = step.grown & ~step.held
        read = 0
        for t in self._crossing[step.held]:
            read |= t.producer if t.readers & inside else 0
        from_chips = [(made, before) for made, before in sources if made & read]
        before = 0
        for made, leading in from_chips:
            if any(other & leading for other, _ in from_chips):
                return None
            before |= made | leading
        wanted = 0
        for t in self._crossing[step.grown]:
            wanted |= t.producer
        after = [
            (made & wanted, leading & wanted) for made, leading in (*sources, (inside, before))
        ]
        return tuple(sorted(one for one in after if one[0]))

    def _read_facts(self) -> None:
        p = self._problem
        memory = plain_tensors(p)
        copies = plain_copies(p)
        self._kept = [(sum(1 << u for u in t.family), t) for t in memory if t.live_room]
        for t, producer in enumerate(p.tensor_producer.tolist()):
            readers = readers_of(p, t)
            size = int(p.tensor_bytes[t])
            if producer >= 0 and p.clonable[producer]:
                # Held for a while only.
                continue
            if producer < 0:
                room = self._limits.channel_slots * memory[t].room
                self._add_item(readers, room=room, in_bytes=size)
            else:
                tensor = PlainWay(
                    number=t,
                    producer=1 << producer,
                    readers=sum(1 << v for v in self._placed(readers)),
                    link_bytes=size,
                    memory=memory[t],
                    relay_s=float(p.relay_s[t]),
                    to_host=bool(p.tensor_to_host[t]),
                    copy_s=(copy := copies.get(t, (-1, 0.0)))[1],
                    writer=1 << copy[0] if copy[0] >= 0 else 0,
                )
                self._made[producer].append(tensor)
        for u in np.flatnonzero(p.clonable).tolist():
            self._add_item([u], seconds=float(p.compute_s[u]))
        for weight in plain_weights(p):
            self._add_item(weight.users, room=weight.room, weight=weight.room)

    def _add_item(
        self,
        users: Iterable[int],
        seconds: float = 0.0,
        room: int = 0,
        weight: int = 0,
        in_bytes: int = 0,
    ) -> None:
        """Enters what each chip with some units, or copies of them, needs once."""
        for v in self._placed(users):
            self._needs[v] |= 1 << len(self._items)
        self._items.append((seconds, room, weight, in_bytes))

    def _placed(self, users: Iterable[int]) -> set[int]:
        """The units with a place of their own whose chips need some units."""
        return {v for u in users for v in self.behind[u]}

    def _behind_clones(self) -> list[list[int]]:
        p = self._problem
        behind: list[list[int]] = [[] if p.clonable[u] else [u] for u in range(p.num_units)]
        for t in np.argsort(-p.tensor_producer, kind="stable").tolist():
            # Readers come after makers, so that all is known of them.
            u = int(p.tensor_producer[t])
            if u >= 0 and p.clonable[u]:
                found = {v for reader in readers_of(p, t) for v in behind[reader]}
                behind[u] = sorted(found.union(behind[u]))
        return behind

    def steps_below(self, chip: int, held: int, period_s: float) -> Iterator[Step]:
        """The windows that `chip` can hold below a period, where it takes over at `held`.

        Left out are those that leave more work to later chips than these do in a period each.
        """
        left_s = math.fsum(self._work[u] for u in units_of(self._all & ~held))
        later = self._speed[chip + 1 :]
        later_s = period_s * math.fsum(later) if later else 0.0
        least_s = left_s * (1.0 - ROUNDING) - later_s

        def exceeds(window: Window, _: int) -> bool:
            # Larger windows do so as well.
            seconds = (window.work + window.once) / self._speed[chip]
            return self.too_large(window, self._limits.sram_bytes[chip]) or seconds >= period_s

        for step in self.steps_from(chip, held, exceeds):
            if step.window.work >= least_s and self._fits(step, period_s):
                yield step

    def steps_from(
        self, chip: int, held: int, exceeds: Callable[[Window, int], bool]
    ) -> Iterator[Step]:
        """The windows from an ideal on, the smallest first, as far as they do not exceed a chip.

        Ends beyond the windows that may be weighed.

        Args:
            chip: the chip.
            held: the ideal.
            exceeds: whether a window up to an ideal exceeds the chip, and all larger ones do.
        """
        queue, seen = [(held, Window())], {held}
        while queue:
            at, before = queue.pop()
            for u in self._ready[at]:
                grown = at | 1 << u
                if grown in seen:
                    continue
                seen.add(grown)
                self._grow(at, u, grown)
                self.windows += 1
                window = self._with(before, u)
                if not exceeds(window, grown):
                    queue.append((grown, window))
                    yield Step(chip, held, grown, window)
            if self.windows > self._most_windows:
                return

    def _with(self, window: Window, u: int) -> Window:
        """A window with one more unit."""
        work, items, once, room, weights, in_bytes, sent, out_bytes = window
        for i in units_of(self._needs[u] & ~items):
            seconds, held, weight, received = self._items[i]
            once, room = once + seconds, room + held
            weights, in_bytes = weights + weight, in_bytes + received
        given = tuple(t for t in self._made[u] if t.to_host)
        sent += given
        out_bytes += sum(t.link_bytes for t in given)
        items |= self._needs[u]
        return Window(work + self._work[u], items, once, room, weights, in_bytes, sent, out_bytes)

    def _grow(self, at: int, u: int, grown: int) -> None:
        """Derives what is ready behind an ideal, and what crosses it, from the one before."""
        if grown not in self._ready:
            after = [v for v in self._following[u] if not self._before[v] & ~grown]
            self._ready[grown] = sorted([*(v for v in self._ready[at] if v != u), *after])
            known = [*self._crossing[at], *self._made[u]]
            self._crossing[grown] = [t for t in known if t.readers & ~grown]
            self._link_bytes[grown] = sum(t.link_bytes for t in self._crossing[grown])

    def too_large(self, window: Window, sram_bytes: int) -> bool:
        """Return whether the weights of a window, and of all larger ones, exceed a memory."""
        return window.weights > sram_bytes and not self._problem.streams

    def _fits(self, step: Step, period_s: float) -> bool:
        """Return whether a window that does not exceed its chip fits it below a period."""
        limits, (chip, held, grown, window) = self._limits, step
        if not self.keeps_pins(step) or self._detour(step):
            return False
        inside = grown & ~held
        crossing = [t for t in self._crossing[grown] if t.producer & inside]
        leaving = {t.number: t for t in (*crossing, *window.sent)}.values()
        passed_s = self.passed_s(step) + sum(t.copy_s for t in leaving if not t.writer & inside)
        seconds = (window.work + window.once + passed_s) / self._speed[chip]
        link_s = self._link_bytes[grown] / limits.link_bytes_per_s
        host_s = max(window.in_bytes, window.out_bytes) / limits.host_bytes_per_s
        if max(seconds, link_s, host_s) >= period_s:
            return False
        over = self.over(step)
        return over is not None and not (over and over / limits.stream_bytes_per_s >= period_s)

    def _detour(self, step: Step) -> bool:
        """Return whether the strict rule bars a window.

        A unit of it is then on a path next to a dependency that passes it.
        """
        passing = self._crossing[step.held] if self._problem.routing == "strict" else []
        beyond = ((t.producer, v) for t in passing for v in units_of(t.readers & ~step.grown))
        inside = step.grown & ~step.held
        return any(p & self._above[u] for p, v in beyond for u in units_of(inside & self._above[v]))

    def passed_s(self, step: Step) -> float:
        """Seconds of what the chip of a window passes on."""
        passing = self._crossing[step.held] if self._problem.relays else []
        return sum(t.relay_s for t in passing if t.readers & ~step.grown)

    def keeps_pins(self, step: Step) -> bool:
        """Return whether a window has all units pinned to its chip, and no other pinned."""
        wanted = self._pinned_to.get(step.chip, 0)
        foreign = self._pinned & ~wanted
        return not (step.grown & ~step.held & foreign or wanted & ~step.grown)

    def over(self, step: Step) -> int | None:
        """Bytes of weights that a chip has to stream for a window; None where nothing helps."""
        limits, (chip, held, grown, window) = self._limits, step
        inside, relays = grown & ~held, self._problem.relays
        arriving, leaving = self._crossing[held], self._crossing[grown]
        buffers = sum(t.memory.room for t in arriving if relays or t.readers & inside)
        buffers += sum(t.memory.sent_room for t in leaving if t.producer & inside)
        if relays:
            buffers += sum(t.memory.room for t in leaving if not t.producer & inside)
        # What is read beyond as well has its send buffers already.
        buffers += sum(t.memory.sent_room for t in window.sent if not t.readers & ~grown)
        room = window.room + limits.channel_slots * buffers
        usable = limits.sram_bytes[chip]
        if room + self._most_hungry <= usable:
            return 0
        room += self._hungriest(inside)
        over = max(room - usable, 0)
        movable = window.weights if limits.stream_bytes_per_s else 0
        return over if over <= movable else None

    def _hungriest(self, inside: int) -> int:
        """The most that one unit of the window holds at once of what stays within."""
        held: dict[int, int] = {}
        for family, tensor in self._kept:
            if not family & ~inside:
                for u in tensor.holders:
                    held[u] = held.get(u, 0) + tensor.live_room
        return max(held.values(), default=0)


def front(
    no_worse: Callable[[State, State], bool], alike: bool
) -> Callable[[dict[int, list[State]], int, State], None]:
    """Keeps what no other is as good as, with as many chips, or with fewer that are alike."""

    def keep(known: dict[int, list[State]], chips: int, new: State) -> None:
        fewer = [count for count in known if count == chips or (alike and count < chips)]
        if any(no_worse(old, new) for count in fewer for old in known[count]):
            return
        for count, states in known.items():
            if count == chips or (alike and count > chips):
                states[:] = [old for old in states if not no_worse(new, old)]
        known.setdefault(chips, []).append(new)

    return keep


def units_of(bits: int) -> list[int]:
    """The units of a set, ascending."""
    found: list[int] = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
