"""The simulator against a naive reading of its rules, in exact arithmetic."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.placements.side_by_side import side_by_side
from mcm_compiler.text.json_text import record_of
from mcm_hardware.event_graph.cycle_ratio import performance
from mcm_hardware.event_graph.graph import EventGraph, event_graph
from mcm_hardware.event_graph.program_arrays import channel_arrays, program_arrays
from mcm_hardware.event_graph.service_order import serve_in_order
from mcm_hardware.event_graph.stall_times import stall_times
from mcm_hardware.event_graph.steady_state import steady_state
from mcm_hardware.families.ring.ring_machine import RingSpec, ring_machine
from mcm_hardware.families.ring.ring_target import mcm36
from tests.generators.small_rings import ring_simulator

# All times are multiples of 1/64 s, so that the reading below is exact.
SPEC = replace(
    mcm36().spec,
    chips=(mcm36().spec.reference,) * 6,
    physical=tuple(range(6)),
    link_bytes_per_s=1.0,
    hop_latency_s=(0.5, 0.25, 1.0, 0.5, 0.125),
    host_bytes_per_s=2.0,
    host_latency_s=0.25,
    stream_bytes_per_s=4.0,
    stream_latency_s=0.125,
)
SPECS = [
    replace(SPEC, switching=switching, host_io=host_io)
    for switching in ("store_and_forward", "cut_through")
    for host_io in ("any", "ends")
]
ROOTED = [replace(spec, host_total_bytes_per_s=4.0, stream_total_bytes_per_s=8.0) for spec in SPECS]
ROUTERS = [replace(spec, forwarding="router") for spec in SPECS + ROOTED if spec.host_io == "any"]
specs = st.sampled_from(SPECS + ROOTED + ROUTERS)


@st.composite
def programs(draw: st.DrawFn) -> LoweredProgram:
    """Any valid program of a few chips."""
    first = draw(st.integers(0, 2))
    chips = range(first, first + draw(st.integers(1, 4)))
    lengths = {c: draw(st.integers(1, 3)) for c in chips}
    durations = {c: [draw(st.integers(0, 12)) / 4 for _ in range(n)] for c, n in lengths.items()}
    durations[first][0] += 1.0
    reads = {c: [list[int]() for _ in range(n)] for c, n in lengths.items()}
    writes = {c: [list[int]() for _ in range(n)] for c, n in lengths.items()}
    transfers: list[Transfer] = []

    def send(source: int, destination: int, after: int = -1) -> None:
        index = len(transfers)
        size, slots = draw(st.integers(0, 8)), draw(st.integers(1, 3))
        transfers.append(Transfer(f"t{index}", source, destination, size, slots, after))
        if source >= 0 and after < 0 and draw(st.integers(0, 9)):
            writes[source][draw(st.integers(0, lengths[source] - 1))].append(index)
        if destination >= 0:
            for reader in range(lengths[destination]):
                if draw(st.integers(0, 2)) == 0:
                    reads[destination][reader].append(index)

    def stream(chip: int) -> None:
        readers = [i for i in range(lengths[chip]) if draw(st.booleans())]
        buffers = draw(st.integers(1, 2))
        base = len(transfers)
        for turn, reader in enumerate(readers):
            size, last = draw(st.integers(1, 8)), base + (turn - buffers) % len(readers)
            transfers.append(Transfer(f"w{base + turn}", OFF_PACKAGE, chip, size, 1, -1, last))
            reads[chip][reader].append(base + turn)

    send(HOST, first)
    for chip in chips:
        for _ in range(draw(st.integers(1, 3))):
            send(chip, draw(st.sampled_from([HOST, *range(chip + 1, chips.stop)])))
        if draw(st.integers(0, 3)) == 0:
            send(HOST, chip)
        if draw(st.integers(0, 3)) == 0:
            stream(chip)
        came = [i for i, t in enumerate(transfers) if t.destination == chip]
        brought = [i for i in came if transfers[i].source != OFF_PACKAGE]
        if brought and draw(st.booleans()):
            onward = draw(st.sampled_from([HOST, *range(chip + 1, chips.stop)]))
            send(chip, onward, after=draw(st.sampled_from(brought)))
    made = tuple(
        ChipProgram(
            c,
            tuple(
                Kernel(f"k{c}.{i}", (), durations[c][i], tuple(reads[c][i]), tuple(writes[c][i]))
                for i in range(lengths[c])
            ),
            (),
            0,
            0,
        )
        for c in chips
    )
    sequences = draw(st.sampled_from([0, 0, 1, 2, 4]))
    return LoweredProgram("drawn", made, tuple(transfers), sequences=sequences)


Activity = tuple[object, ...]


@dataclass
class Reading:
    """A program as activities and arcs `(source, target, seconds, lag)`, read naively."""

    busy: dict[Activity, Fraction] = field(default_factory=dict)
    there: dict[Activity, Fraction] = field(default_factory=dict)
    resource: dict[Activity, tuple[int, ...]] = field(default_factory=dict)
    arcs: list[tuple[Activity, Activity, Fraction, int]] = field(default_factory=list)
    turns: list[tuple[Activity, Activity, Fraction, int]] = field(default_factory=list)
    """Arcs of the first inference alone."""
    finals: list[Activity] = field(default_factory=list)
    hops: list[list[Activity]] = field(default_factory=list)
    """Of each transfer."""
    readers: dict[int, list[Activity]] = field(default_factory=lambda: defaultdict(list))
    """What frees the buffer of each transfer."""

    def add_hops(self, program: LoweredProgram, spec: RingSpec) -> None:
        for index, transfer in enumerate(program.transfers):
            self.hops.append([])
            for link in walk(transfer, spec):
                rate, delay = rate_and_delay(link, spec)
                hop = ("hop", index, len(self.hops[-1]))
                self.hops[-1].append(hop)
                self.busy[hop] = Fraction(transfer.size_bytes) / Fraction(rate)
                self.there[hop] = self.busy[hop] + Fraction(delay)
                self.resource[hop] = link

    def add_kernels(self, program: LoweredProgram) -> None:
        for chip in program.chips:
            kernels = [("kernel", chip.chip, position) for position in range(len(chip.kernels))]
            for me, kernel in zip(kernels, chip.kernels, strict=True):
                self.busy[me] = Fraction(kernel.duration_s)
                self.resource[me] = (chip.chip,)
                for index in kernel.reads:
                    came = self.hops[index][-1]
                    self.arcs.append((came, me, self.there[came], 0))
                    self.readers[index].append(me)
                for index in kernel.writes:
                    departs = self.hops[index][0]
                    self.arcs.append((me, departs, self.busy[me], 0))
                    slots = program.transfers[index].slots
                    self.arcs.append((departs, me, self.busy[departs], slots))
            self.arcs += [(one, other, self.busy[one], 0) for one, other in pairwise(kernels)]

    def add_ways(self, program: LoweredProgram, spec: RingSpec) -> None:
        """What goes on: from hop to hop, and from transfer to transfer."""
        for index, transfer in enumerate(program.transfers):
            for one, other in pairwise(self.hops[index]):
                self.go_on(one, other, spec)
            if transfer.after >= 0:
                self.go_on(self.hops[transfer.after][-1], self.hops[index][0], spec)
                self.readers[transfer.after].append(self.hops[index][0])

    def go_on(self, one: Activity, other: Activity, spec: RingSpec) -> None:
        gap = self.there[one]
        on_ring = all(min(walked) >= 0 for walked in (self.resource[one], self.resource[other]))
        if spec.switching == "cut_through" and on_ring:
            gap -= min(self.busy[one], self.busy[other])
        self.arcs.append((one, other, gap, 0))

    def add_buffers(self, program: LoweredProgram, spec: RingSpec) -> None:
        for index, transfer in enumerate(program.transfers):
            held = spec.forwarding == "router"
            if transfer.destination == HOST or held:
                for one, other in pairwise(self.hops[index]):
                    self.arcs.append((other, one, self.busy[other], transfer.slots))
            if transfer.destination == HOST:
                continue
            arrives = self.hops[index][-1 if held else 0]
            holder, lag = index, transfer.slots
            if transfer.reuses >= 0:
                holder, lag = transfer.reuses, 1 if transfer.reuses >= index else 0
            readers = self.readers[holder]
            self.arcs += [(reader, arrives, self.busy[reader], lag) for reader in readers]
            if not readers:
                came = self.hops[holder][-1]
                self.arcs.append((came, arrives, self.there[came], lag))

    def add_steps(self, program: LoweredProgram) -> None:
        """The host knows the next step of a sequence once the one before is out."""
        for index, transfer in enumerate(program.transfers):
            if program.sequences == 0 or transfer.source != HOST:
                continue
            for final in self.finals:
                out = self.there.get(final, self.busy[final])
                self.arcs.append((final, self.hops[index][0], out, program.sequences))


def read_naively(program: LoweredProgram, spec: RingSpec) -> Reading:
    """The rules in the docstring of `event_graph/graph.py`, one after another."""
    reading = Reading()
    reading.add_hops(program, spec)
    reading.add_kernels(program)
    reading.add_ways(program, spec)
    reading.add_buffers(program, spec)
    serve_naively(reading, program)
    paths = zip(reading.hops, program.transfers, strict=True)
    reading.finals = [path[-1] for path, transfer in paths if transfer.destination == HOST]
    if not reading.finals:
        reading.finals = [("kernel", c.chip, len(c.kernels) - 1) for c in program.chips]
    reading.add_steps(program)
    return reading


def walk(transfer: Transfer, spec: RingSpec) -> list[tuple[int, int]]:
    if transfer.source == OFF_PACKAGE:
        shared = [(OFF_PACKAGE_ROOT, OFF_PACKAGE)] if spec.stream_total_bytes_per_s else []
        return [*shared, (OFF_PACKAGE, transfer.destination)]
    last = spec.num_chips - 1
    at, path = transfer.source, list[tuple[int, int]]()
    if at == HOST:
        path += [(HOST_ROOT, HOST)] if spec.host_total_bytes_per_s else []
        near = spec.host_io == "any" or transfer.destination == last
        at = transfer.destination if near else 0
        path.append((HOST, at))
    until = transfer.destination
    if until == HOST:
        until = at if spec.host_io == "any" or at == 0 else last
    while at < until:
        path.append((at, at + 1))
        at += 1
    if transfer.destination == HOST:
        path.append((at, HOST))
        path += [(HOST, HOST_ROOT)] if spec.host_total_bytes_per_s else []
    return path


def rate_and_delay(link: tuple[int, int], spec: RingSpec) -> tuple[float, float]:
    if OFF_PACKAGE_ROOT in link:
        return spec.stream_total_bytes_per_s, 0.0
    if HOST_ROOT in link:
        return spec.host_total_bytes_per_s, 0.0
    if link[0] == OFF_PACKAGE:
        return spec.stream_bytes_per_s, spec.stream_latency_s
    if HOST in link:
        return spec.host_bytes_per_s, spec.host_latency_s
    return spec.link_bytes_per_s, spec.hop_latency_s[link[0]]


def ready_naively(
    busy: dict[Activity, Fraction], arcs: list[tuple[Activity, Activity, Fraction, int]]
) -> list[Activity]:
    """Activities of a lone inference with free links: the earliest to become ready comes next."""
    before: dict[Activity, list[tuple[Activity, Fraction]]] = defaultdict(list)
    for source, target, seconds, lag in arcs:
        if lag == 0:
            before[target].append((source, seconds))
    ready: dict[Activity, Fraction] = {}
    left = sorted(busy, key=lambda a: (a[0] != "kernel", a))
    while left:
        times = {
            a: max((ready[s] + seconds for s, seconds in before[a]), default=Fraction(0))
            for a in left
            if all(s in ready for s, _ in before[a])
        }
        chosen = min(times, key=lambda a: times[a])
        ready[chosen] = times[chosen]
        left = [a for a in left if a != chosen]
    return list(ready)


def turns_naively(
    reading: Reading, program: LoweredProgram
) -> list[tuple[Activity, Activity, bool]]:
    """Which hop on a channel that all chips share with the host goes just before which.

    And whether both are of one chip.

    Chip after chip by their last kernels; inputs of one chip by the first kernel that reads them,
    those that none reads at the end; outputs as they become ready.
    """
    ready = ready_naively(reading.busy, reading.arcs)
    lines: dict[tuple[int, ...], list[tuple[int, bool, int, Activity]]] = defaultdict(list)
    for index, transfer in enumerate(program.transfers):
        chip = transfer.source if transfer.destination == HOST else transfer.destination
        engine = [i for i, a in enumerate(ready) if a[:2] == ("kernel", chip)]
        for hop in (a for a in reading.hops[index] if HOST_ROOT in reading.resource[a]):
            readers = [ready.index(a) for a in reading.readers[index] if a[0] == "kernel"]
            at = min(readers, default=ready.index(hop))
            lines[reading.resource[hop]].append((engine[-1], not readers, at, hop))
    return [
        (one[-1], other[-1], one[0] == other[0])
        for line in lines.values()
        for one, other in pairwise(sorted(line))
    ]


def serve_naively(reading: Reading, program: LoweredProgram) -> None:
    """Adds what each resource serves before what: the earliest to become ready, alone."""
    busy, resource, arcs = reading.busy, reading.resource, reading.arcs
    turns = turns_naively(reading, program)
    reading.turns = [(a, b, busy[a], 0) for a, b, _ in turns]
    of_one_chip = [(a, b, busy[a], 0) for a, b, own in turns if own]
    served: dict[tuple[int, ...], list[Activity]] = defaultdict(list)
    for chosen in ready_naively(busy, arcs + of_one_chip):
        served[resource[chosen]].append(chosen)
    for place, line in served.items():
        if min(place) <= HOST_ROOT:
            # Interleaved: each once in a round of all.
            arcs += [(one, one, sum(busy[a] for a in line), 1) for one in line]
            continue
        for one, other in pairwise(line):
            arcs.append((one, other, busy[one], 0))
        arcs.append((line[-1], line[0], busy[line[-1]], 1))


def cycle_ratio(reading: Reading) -> Fraction:
    """Raises the ratio to that of any heavier cycle until Bellman and Ford find none."""
    names = {name: i for i, name in enumerate(reading.busy)}
    arcs = [
        (names[s], names[t], int(seconds * 64), lag * 64) for s, t, seconds, lag in reading.arcs
    ]
    up, down = 0, 1
    while (found := heavier_cycle(len(names), arcs, up, down)) is not None:
        up, down = found
    return Fraction(up, down)


def heavier_cycle(
    count: int, arcs: list[tuple[int, int, int, int]], up: int, down: int
) -> tuple[int, int] | None:
    """Seconds and lags of a cycle whose ratio is greater than `up / down`, if there is one."""
    longest = [0] * count
    via: list[tuple[int, int, int, int] | None] = [None] * count
    for _ in range(count + 1):
        changed = -1
        for arc in arcs:
            source, target, seconds, lag = arc
            length = longest[source] + seconds * down - lag * up
            if length > longest[target]:
                longest[target], via[target], changed = length, arc, target
        if changed < 0:
            return None
    at, seen = changed, set[int]()
    while at not in seen:
        seen.add(at)
        at = step(via, at)[0]
    end, seconds, lags = at, 0, 0
    while True:
        source, _, weight, lag = step(via, at)
        at, seconds, lags = source, seconds + weight, lags + lag
        if at == end:
            return seconds, lags


def step(via: list[tuple[int, int, int, int] | None], at: int) -> tuple[int, int, int, int]:
    arc = via[at]
    assert arc is not None
    return arc


def first_latency(reading: Reading, program: LoweredProgram, spec: RingSpec) -> Fraction:
    """Longest path of the first inference to where it ends."""
    start = dict.fromkeys(reading.busy, Fraction(0))
    for _ in start:
        for source, target, seconds, lag in reading.arcs + reading.turns:
            if lag == 0:
                start[target] = max(start[target], start[source] + seconds)
    ends: list[Fraction] = []
    for final in reading.finals:
        delay = 0.0
        if final[0] == "hop":
            source, destination = reading.resource[final]
            delay = rate_and_delay((source, destination), spec)[1]
        ends.append(start[final] + reading.busy[final] + Fraction(delay))
    return max(ends)


@given(programs(), specs)
@settings(max_examples=200)
def test_the_period_is_the_maximum_cycle_ratio(program, spec):
    result = ring_simulator(spec).run(program, inferences=1)
    reading = read_naively(program, spec)
    assert result.period_s == pytest.approx(float(cycle_ratio(reading)), rel=1e-9)
    loads = [c.busy_s for c in result.chips] + [link.busy_s for link in result.links]
    assert result.period_s >= max(loads)
    assert result.period_s >= sum(c.busy_s for c in result.chips) / SPEC.num_chips


@given(programs(), specs)
@settings(max_examples=100)
def test_more_sequences_are_never_slower_and_one_waits_for_itself(program, spec):
    simulator = ring_simulator(spec)
    free = simulator.run(replace(program, sequences=0), inferences=1)
    periods = [
        simulator.run(replace(program, sequences=n), inferences=1).period_s for n in (1, 2, 3, 200)
    ]
    assert periods == sorted(periods, reverse=True)
    assert periods[-1] == pytest.approx(free.period_s, rel=1e-9)


@given(programs(), specs)
@settings(max_examples=100)
def test_latency_is_the_longest_path(program, spec):
    result = ring_simulator(spec).run(program, inferences=1)
    reading = read_naively(program, spec)
    assert result.latency_s == pytest.approx(float(first_latency(reading, program, spec)))


@given(programs(), specs)
@settings(max_examples=150)
def test_the_steady_state_is_what_the_timeline_comes_to(program, spec):
    result = ring_simulator(spec).run(program)
    if result.steady_from is None:
        return
    times = ring_simulator(spec).timeline(program, result.steady_from + 40)
    starts = np.hstack([times.kernel_start_s, times.hop_start_s])[result.steady_from :]
    repeats = [
        np.allclose(starts[c:] - starts[:-c], c * result.period_s, rtol=1e-9)
        for c in range(1, 17)
    ]  # fmt: skip
    assert any(repeats)


@given(programs(), specs)
@settings(max_examples=200)
def test_time_of_a_chip_is_work_or_stall(program, spec):
    result = ring_simulator(spec).run(program)
    for chip in result.chips:
        assert min(chip.stall_s.values()) >= 0
        assert chip.busy_s + sum(chip.stall_s.values()) == pytest.approx(result.period_s, rel=1e-9)
        assert sum(chip.engine_s.values()) == pytest.approx(chip.busy_s)
    assert min(link.queue_s for link in result.links) >= 0


@given(programs(), specs)
@settings(max_examples=200)
def test_a_computed_steady_state_accounts_for_all_time_too(program, spec):
    arrays = program_arrays(program)
    graph = event_graph(arrays, channel_arrays(ring_machine(spec)))
    speed = performance(graph)
    steady = steady_state(graph, speed.period_s, speed.critical, 1, 1)
    assert steady.since == -1
    stalls, queue = stall_times(arrays, graph, steady, speed.period_s)
    assert stalls.min() >= 0
    assert queue.min() >= 0
    engines = ring_machine(spec).num_channels + arrays.chip
    whole = stalls.sum(axis=1) + speed.busy_s
    np.testing.assert_allclose(whole[engines], speed.period_s, rtol=1e-9)


@given(programs(), specs)
@settings(max_examples=100)
def test_nothing_is_lost_and_nothing_done_twice(program, spec):
    times = ring_simulator(spec).timeline(program, 5)
    paths: dict[int, list[tuple[int, int]]] = defaultdict(list)
    carried: dict[tuple[int, int], int] = defaultdict(int)
    lines: dict[object, list[tuple[float, float]]] = defaultdict(list)
    for position, hop in enumerate(times.hops):
        link = (hop.source, hop.destination)
        paths[hop.transfer].append(link)
        carried[link] += program.transfers[hop.transfer].size_bytes
        # What all chips share interleaves transfers; none follows itself too soon.
        line = (*link, hop.transfer) if min(link) <= HOST_ROOT else link
        lines[line] += [(start, start + hop.busy_s) for start in times.hop_start_s[:, position]]
    for index, transfer in enumerate(program.transfers):
        path = paths[index]
        place = {HOST_ROOT: HOST, OFF_PACKAGE_ROOT: OFF_PACKAGE}
        ends = tuple(place.get(end, end) for end in (path[0][0], path[-1][1]))
        assert ends == (transfer.source, transfer.destination)
        assert all(one[1] == other[0] for one, other in pairwise(path))
    result = ring_simulator(spec).run(program, inferences=1)
    found = {(k.source, k.destination): k.bytes_per_inference for k in result.links}
    assert found == dict(carried)
    position = 0
    for chip in program.chips:
        for kernel in chip.kernels:
            starts = times.kernel_start_s[:, position]
            lines[chip.chip] += [(start, start + kernel.duration_s) for start in starts]
            position += 1
    for line in lines.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(line)))


def speeds(graph: EventGraph, order: EventGraph, spec: RingSpec) -> tuple[float, float]:
    """Period and latency with the static order of another graph."""
    resources, shared = graph.num_resources, channel_arrays(ring_machine(spec)).shared
    before, lag = serve_in_order(order.order, graph.resource, resources, shared)
    same = graph._replace(order=order.order, before=before, before_lag=lag, turn=order.turn)
    result = performance(same)
    return result.period_s, result.latency_s


@given(programs(), specs, st.sampled_from(["chip", "ring", "host", "memory", "delay"]), st.data())
@settings(max_examples=120)
def test_faster_parts_never_slow_the_package_in_the_same_order(program, spec, part, data):
    slow = event_graph(program_arrays(program), channel_arrays(ring_machine(spec)))
    faster, upgraded = program, spec
    if part == "chip":
        chosen = data.draw(st.integers(0, len(program.chips) - 1))
        chip = program.chips[chosen]
        kernels = tuple(replace(k, duration_s=k.duration_s / 2) for k in chip.kernels)
        chips = [*program.chips]
        chips[chosen] = replace(chip, kernels=kernels)
        faster = replace(program, chips=tuple(chips))
    elif part == "delay":
        upgraded = replace(spec, hop_latency_s=tuple(s / 2 for s in spec.hop_latency_s))
    elif part == "ring":
        upgraded = replace(spec, link_bytes_per_s=spec.link_bytes_per_s * 2)
    elif part == "host":
        upgraded = replace(spec, host_bytes_per_s=spec.host_bytes_per_s * 2)
    else:
        upgraded = replace(spec, stream_bytes_per_s=spec.stream_bytes_per_s * 2)
    fast = event_graph(program_arrays(faster), channel_arrays(ring_machine(upgraded)))
    before, after = speeds(slow, slow, spec), speeds(fast, slow, spec)
    assert after[0] <= before[0] * (1 + 1e-9)
    assert after[1] <= before[1] * (1 + 1e-9)


@given(programs(), st.sampled_from([s for s in ROOTED if s.host_io == "any"]), st.integers(2, 3))
@settings(max_examples=100)
def test_pipelines_side_by_side_wait_for_what_they_share_and_for_nothing_else(program, spec, count):
    each = spec.num_chips
    wide = replace(
        spec,
        chips=spec.chips * count,
        physical=tuple(range(each * count)),
        hop_latency_s=((*spec.hop_latency_s, 0.5) * count)[:-1],
    )
    alone = ring_simulator(wide).run(program)
    program = side_by_side(program, count, each, ring_machine(wide))
    together = ring_simulator(wide).run(program)
    shared = [link for link in alone.links if HOST_ROOT in (link.source, link.destination)]
    shared_s = max((link.busy_s for link in shared), default=0.0)
    assert together.period_s == pytest.approx(max(alone.period_s, count * shared_s), rel=1e-9)
    found = {(link.source, link.destination): link.busy_s for link in together.links}
    for link in shared:
        assert found[link.source, link.destination] == pytest.approx(count * link.busy_s)
    # Streamed weights are read once for all.
    for link in alone.links:
        if link.source == OFF_PACKAGE_ROOT:
            assert found[link.source, link.destination] == pytest.approx(link.busy_s)
    assert len(together.chips) == count * len(alone.chips)


@given(programs(), specs)
@settings(max_examples=60)
def test_more_buffers_never_hurt(program, spec):
    before = ring_simulator(spec).run(program)
    more = tuple(replace(t, slots=t.slots + 1) for t in program.transfers)
    after = ring_simulator(spec).run(replace(program, transfers=more))
    assert after.latency_s == before.latency_s
    assert after.period_s <= before.period_s * (1 + 1e-9)


@given(programs(), specs)
@settings(max_examples=30)
def test_json_form_plays_the_same(program, spec):
    again = record_of(json.loads(json.dumps(program.to_dict())), LoweredProgram)
    assert again == program
    assert ring_simulator(spec).run(again) == ring_simulator(spec).run(program)
