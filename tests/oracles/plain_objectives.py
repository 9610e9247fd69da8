"""What a placement on a ring comes to under every objective, written down once more, plainly.

Period, latency and memory (as what any plan needs at least) are read off the problem tensor by
tensor; nothing is shared with the compiler, and every placement can be tried. For problems without
views, whose clonable units read the host or other clonable units alone.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field

from mcm_compiler.contracts.partition import PartitionProblem

INFINITY = float("inf")


@dataclass
class Way:
    """How one tensor travels."""

    entered: list[int] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    relays: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    sends: list[int] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    exit: int = -1
    stays: bool = False


@dataclass
class PlainFigures:
    """What one placement comes to; infinite seconds where it breaks a rule."""

    period_s: float = INFINITY
    latency_s: float = INFINITY
    link_bytes: int = 0
    host_bytes: int = 0
    streamed_bytes: int = 0
    chips: int = 0
    energy_j: float = INFINITY


class PlainPlacement:
    """One placement `chips[N]`; entries of clonable units are not looked at."""

    def __init__(self, problem: PartitionProblem, chips: list[int]) -> None:
        self.p = problem
        self.limits = problem.limits
        self.n = problem.num_units
        self.fixed = [u for u in range(self.n) if not problem.clonable[u]]
        self.chip = chips
        self.used = max(chips[u] for u in self.fixed) + 1
        self.delays = self.limits.link_latency_s or (self.limits.hop_latency_s,) * (
            self.limits.num_chips - 1
        )
        self.end = len(self.delays)
        self.readers = [
            problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]].tolist()
            for t in range(len(problem.tensor_bytes))
        ]
        self.maker = problem.tensor_producer.tolist()
        self.size = problem.tensor_bytes.tolist()
        self.on = self._places()
        self.ways = [self._way(t) for t in range(len(self.size))]

    def _places(self) -> list[set[int]]:
        on: list[set[int]] = [set() for _ in range(self.n)]
        for u in reversed(range(self.n)):
            if not self.p.clonable[u]:
                on[u] = {self.chip[u]}
                continue
            for t, maker in enumerate(self.maker):
                if maker == u:
                    for v in self.readers[t]:
                        on[u] |= on[v]
        return on

    def _way(self, t: int) -> Way:
        p, maker = self.p, self.maker[t]
        wanted = sorted({c for u in self.readers[t] for c in self.on[u]})
        ends = self.limits.host_io == "ends"
        if maker < 0:
            if not ends:
                return Way(entered=wanted, received=list(wanted))
            # The last chip of the package reaches the host itself; others get it from the first.
            direct = [c for c in wanted if c == self.end]
            inner = [c for c in wanted if c != self.end]
            return Way(
                entered=[0] * bool(inner) + [c for c in direct if c or not inner],
                links=list(range(inner[-1] if inner else 0)),
                received=list(wanted),
            )
        if p.clonable[maker]:
            return Way()
        here, to_host = self.chip[maker], bool(p.tensor_to_host[t])
        far = max([here, *wanted])
        way = Way(exit=here if to_host else -1)
        way.links = list(range(here, far))
        if p.routing == "relay" and self.limits.forwarding == "engine":
            way.received = list(range(here + 1, far + 1))
            way.passes = way.relays = list(range(here + 1, far))
        else:
            way.received = [c for c in wanted if c > here]
        way.sends = [here] if far > here or to_host else []
        way.stays = not way.links and not to_host
        if to_host and ends and here > 0:
            way.links, way.exit = list(range(here, self.end)), self.end
        return way

    def keeps_rules(self) -> bool:
        p, limits = self.p, self.limits
        if {self.chip[u] for u in self.fixed} != set(
            range(self.used)
        ) or self.used > limits.num_chips:
            return False
        if any(
            p.pinned_chip[u] >= 0 and p.pinned_chip[u] != min(self.on[u]) for u in range(self.n)
        ):
            return False
        arcs = {
            (self.chip[maker], self.chip[v])
            for t, maker in enumerate(self.maker)
            if maker >= 0 and not p.clonable[maker]
            for v in self.readers[t]
            if not p.clonable[v]
        }
        if any(a > b for a, b in arcs):
            return False
        if p.routing == "strict":
            reach = {(a, b): 1 for a, b in arcs if a != b}
            for _ in range(self.used):
                for (a, b), (c, d) in itertools.product(list(reach), arcs):
                    if b == c and c != d:
                        longest = max(reach.get((a, d), 0), reach[a, b] + 1)
                        reach[a, d] = longest
            if any(reach[a, b] > 1 for a, b in arcs if a != b):
                return False
        return all(s is not None for s in (self.streamed(c) for c in range(self.used)))

    def _blocks(self, size: int, up: bool = True) -> int:
        block = self.limits.buffer_alignment_bytes
        return (math.ceil(size / block) if up else size // block) * block

    def streamed(self, c: int) -> int | None:
        """Bytes of weights that chip c streams; None where it cannot hold what it must."""
        p, limits = self.p, self.limits
        weights = 0
        for w, size in enumerate(p.weight_bytes.tolist()):
            users = p.weight_users[p.weight_ptr[w] : p.weight_ptr[w + 1]].tolist()
            if any(c in self.on[u] for u in users):
                weights += self._blocks(size, up=not limits.stream_bytes_per_s)
        held = 0
        at_once: dict[int, int] = defaultdict(int)
        for t, way in enumerate(self.ways):
            room = self._blocks(self.size[t])
            times = (c in way.received) + (c in way.sends) + (c in way.passes)
            held += limits.channel_slots * room * times
            if way.stays and self.chip[self.maker[t]] == c and self.readers[t]:
                for u in {*self.readers[t], self.maker[t]}:
                    at_once[u] += room
        over = weights + held + max(at_once.values(), default=0) - limits.sram_bytes[c]
        if over <= 0:
            return 0
        return over if limits.stream_bytes_per_s and over <= weights else None

    def figures(self) -> PlainFigures:
        """Period and latency, and the bytes that cross links and reach or leave the host."""
        if not self.keeps_rules():
            return PlainFigures()
        link_bytes = sum(self.size[t] * len(way.links) for t, way in enumerate(self.ways))
        host = sum(
            self.size[t] * (len(way.entered) + (way.exit >= 0)) for t, way in enumerate(self.ways)
        )
        streamed = sum(self.streamed(c) or 0 for c in range(self.used))
        figures = PlainFigures(
            self._period(), self._latency(), link_bytes, host, streamed, self.used
        )
        figures.energy_j = self._energy(figures)
        return figures

    def _energy(self, figures: PlainFigures) -> float:
        """By the word of the page on objectives; infinite where nothing is said of energy."""
        costs = self.p.energy
        if costs is None:
            return INFINITY
        joules = sum(float(costs.unit_j[u]) * len(self.on[u]) for u in range(self.n))
        joules += sum(float(costs.relay_j[t]) * len(way.relays) for t, way in enumerate(self.ways))
        joules += figures.link_bytes * costs.link_byte_j + figures.host_bytes * costs.host_byte_j
        return joules + figures.streamed_bytes * costs.memory_byte_j

    def _period(self) -> float:
        p, limits = self.p, self.limits
        busy: dict[tuple[str, int], float] = defaultdict(float)
        for u in range(self.n):
            for c in self.on[u]:
                busy["chip", c] += float(p.compute_s[u]) / float(p.chip_speed[c])
        root = limits.host_total_bytes_per_s or INFINITY
        for t, way in enumerate(self.ways):
            for c in way.relays:
                busy["chip", c] += float(p.relay_s[t]) / float(p.chip_speed[c])
            for c in way.links:
                busy["link", c] += self.size[t] / limits.link_bytes_per_s
            for c in way.entered:
                busy["in", c] += self.size[t] / limits.host_bytes_per_s
                busy["all in", 0] += self.size[t] / root
            if way.exit >= 0:
                busy["out", way.exit] += self.size[t] / limits.host_bytes_per_s
                busy["all out", 0] += self.size[t] / root
        for t, writer, seconds in self._views():
            home = self.chip[self.maker[t]]
            away = self.ways[t].exit >= 0 or any(c != home for c in self.ways[t].received)
            if away and (writer < 0 or self.chip[writer] != home):
                busy["chip", home] += seconds / float(p.chip_speed[home])
        for c in range(self.used):
            if streamed := self.streamed(c) or 0:
                busy["stream", c] += streamed / limits.stream_bytes_per_s
                total = limits.stream_total_bytes_per_s or INFINITY
                busy["all streams", 0] += streamed / total
        return max(busy.values(), default=0.0)

    def _views(self) -> list[tuple[int, int, float]]:
        """Views that may be copied: the tensor, who writes its memory, and the seconds."""
        copies = self.p.copies
        if copies is None:
            return []
        rows = (copies.tensor.tolist(), copies.writer.tolist(), copies.seconds.tolist())
        return list(zip(*rows, strict=True))

    def _latency(self) -> float:
        """By the word of the page on objectives, chip after chip."""
        there: dict[tuple[int, int], float] = {}  # when a tensor is on a chip
        # When the channels are free that all chips share: from the host, to it, from memory.
        shared = {"in": 0.0, "out": 0.0, "memory": 0.0}
        far = max([self.used - 1, *(way.exit for way in self.ways)])
        chips = [PlainChip(self, c, there, shared) for c in range(far + 1)]
        for chip in chips:
            chip.enter()
            chip.pass_on()
            chip.run()
        return max(chip.end for chip in chips)

    def made_by(self, u: int) -> list[int]:
        """The tensors that a unit makes."""
        return [t for t, maker in enumerate(self.maker) if maker == u]

    def with_copies(self, unit: int, have: set[int]) -> list[int]:
        """A unit and the clonable ones that it needs, on its own or through others, but for those
        that are there."""
        bundle = {unit}
        grown = True
        while grown:
            more = {
                maker
                for t, maker in enumerate(self.maker)
                if maker >= 0 and self.p.clonable[maker] and set(self.readers[t]) & bundle
            }
            grown = not more <= bundle
            bundle |= more
        return sorted(bundle - have)


class PlainChip:
    """One chip of a placement while it works on one inference."""

    def __init__(
        self,
        of: PlainPlacement,
        chip: int,
        there: dict[tuple[int, int], float],
        shared: dict[str, float],
    ) -> None:
        self.of, self.chip, self.there, self.shared = of, chip, there, shared
        self.speed = float(of.p.chip_speed[chip]) if chip < of.used else 0.0
        self.ends = of.limits.host_io == "ends"
        self.engine = self.link = self.into = self.out = self.end = 0.0
        self.root = of.limits.host_total_bytes_per_s or INFINITY

    def from_host(self, t: int) -> None:
        size, limits = self.of.size[t], self.of.limits
        self.shared["in"] += size / self.root
        self.into = max(self.into, self.shared["in"]) + size / limits.host_bytes_per_s
        self.there[t, self.chip] = self.into + limits.host_latency_s

    def to_host(self, size: int, ready: float) -> None:
        limits = self.of.limits
        self.out = max(self.out, ready) + size / limits.host_bytes_per_s
        there = self.out + limits.host_latency_s
        if self.root < INFINITY:
            there = self.shared["out"] = max(self.shared["out"], there) + size / self.root
        self.end = max(self.end, there)

    def over_link(self, t: int, ready: float) -> None:
        self.link = max(self.link, ready) + self.of.size[t] / self.of.limits.link_bytes_per_s
        self.there[t, self.chip + 1] = self.link + self.of.delays[self.chip]

    def enter(self) -> None:
        if self.ends and self.chip == 0 < self.of.end:
            for t, way in enumerate(self.of.ways):
                if 0 in way.entered:
                    self.from_host(t)

    def pass_on(self) -> None:
        ways, maker = self.of.ways, self.of.maker
        foreign = [
            t for t in range(len(ways)) if maker[t] < 0 or self.of.chip[maker[t]] != self.chip
        ]
        cuts = self.of.limits.cut_through and self.chip > 0
        on = [t for t in foreign if self.chip in ways[t].links]
        out = [t for t in foreign if ways[t].exit == self.chip]
        for t in on + out:
            ready = self.there[t, self.chip]
            if self.chip in ways[t].relays:
                ready = max(self.engine, ready) + float(self.of.p.relay_s[t]) / self.speed
                self.engine = ready
            elif cuts and t in on:
                # Its head is there that much earlier.
                ready -= self.of.size[t] / self.of.limits.link_bytes_per_s
            if t in on:
                self.over_link(t, ready)
            else:
                self.to_host(self.of.size[t], ready)

    def run(self) -> None:
        mine = [u for u in self.of.fixed if self.of.chip[u] == self.chip]
        have: set[int] = set()
        for u in mine:
            bundle = self.of.with_copies(u, have)
            have |= set(bundle)
            ready = max(self.engine, self.ready(bundle))
            if u == mine[-1]:
                ready = max(ready, self.streamed())
            self.engine = ready + sum(float(self.of.p.compute_s[v]) for v in bundle) / self.speed
            self.hand_on(u)
        self.end = max(self.end, self.engine)

    def ready(self, bundle: list[int]) -> float:
        """When all that some units read is there."""
        found = 0.0
        for t, maker in enumerate(self.of.maker):
            if not set(self.of.readers[t]) & set(bundle) or (
                maker >= 0 and self.of.p.clonable[maker]
            ):
                continue
            if maker < 0 and (t, self.chip) not in self.there:
                self.from_host(t)
            found = max(found, self.there[t, self.chip])
        return found

    def streamed(self) -> float:
        size, limits = self.of.streamed(self.chip) or 0, self.of.limits
        if not size:
            return 0.0
        self.shared["memory"] += size / (limits.stream_total_bytes_per_s or INFINITY)
        return max(size / limits.stream_bytes_per_s, self.shared["memory"])

    def hand_on(self, u: int) -> None:
        sent = self.of.made_by(u)
        for t in sent:
            self.there[t, self.chip] = self.engine
            if self.of.ways[t].exit == self.chip:
                self.to_host(self.of.size[t], self.engine)
            if self.chip in self.of.ways[t].links:
                self.over_link(t, self.engine)


def every_placement(problem: PartitionProblem) -> list[list[int]]:
    """All ways to give the units that are not clonable chips, so that data flow to higher ones."""
    fixed = [u for u in range(problem.num_units) if not problem.clonable[u]]
    arcs = [
        (maker, reader)
        for t, maker in enumerate(problem.tensor_producer.tolist())
        if maker in fixed
        for reader in problem.tensor_consumers[
            problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]
        ].tolist()
        if reader in fixed
    ]
    found: list[list[int]] = []
    for choice in itertools.product(range(min(problem.num_chips, len(fixed))), repeat=len(fixed)):
        chips = [0] * problem.num_units
        for u, c in zip(fixed, choice, strict=True):
            chips[u] = c
        if all(chips[u] <= chips[v] for u, v in arcs):
            found.append(chips)
    return found


@functools.lru_cache(maxsize=32)
def all_figures(problem: PartitionProblem) -> tuple[PlainFigures, ...]:
    """What every placement comes to that breaks no rule; kept for the problems asked last."""
    figures = (PlainPlacement(problem, chips).figures() for chips in every_placement(problem))
    return tuple(one for one in figures if one.period_s < INFINITY)


@functools.lru_cache(maxsize=32)
def share_of(problem: PartitionProblem, pipelines: int) -> PartitionProblem:
    """The problem of one of so many pipelines, with its part of chips and of shared channels."""
    limits, each = problem.limits, problem.num_chips // pipelines
    delays = limits.link_latency_s or (limits.hop_latency_s,) * (problem.num_chips - 1)
    if limits.host_io == "any":
        # The slowest pipeline counts.
        delays = tuple(
            max(delays[r * each + link] for r in range(pipelines)) for link in range(each - 1)
        )
    smaller = dataclasses.replace(
        limits,
        link_latency_s=delays,
        num_chips=each,
        sram_bytes=limits.sram_bytes[:each],
        chip_speed=limits.chip_speed[:each],
        host_total_bytes_per_s=limits.host_total_bytes_per_s / pipelines,
        stream_total_bytes_per_s=limits.stream_total_bytes_per_s / pipelines,
    )
    return dataclasses.replace(problem, limits=smaller)


def least_latency(problem: PartitionProblem) -> float:
    """Of all placements of one pipeline; infinite where there is none."""
    return min((one.latency_s for one in all_figures(problem)), default=INFINITY)


def least_energy(problem: PartitionProblem) -> float:
    """Of all placements of one pipeline; infinite where there is none."""
    return min((one.energy_j for one in all_figures(problem)), default=INFINITY)


def least_period_within(problem: PartitionProblem, latency_s: float, numbers: list[int]) -> float:
    """Seconds per inference of the package, over numbers of pipelines, that answer in time."""
    found = [
        one.period_s / count
        for count in numbers
        for one in all_figures(share_of(problem, count))
        if one.latency_s <= latency_s * (1.0 + 1e-9)
    ]
    return min(found, default=INFINITY)


def fewest_chips(problem: PartitionProblem, rate_per_s: float, numbers: list[int]) -> float:
    """Of all pipelines together, that reach so many inferences per second."""
    found = [
        count * one.chips
        for count in numbers
        for one in all_figures(share_of(problem, count))
        if count / one.period_s >= rate_per_s * (1.0 - 1e-9)
    ]
    return min(found, default=INFINITY)
