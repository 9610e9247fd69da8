"""Any program on any machine against a plain reading of the simulator's rules, in exact numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_hardware.package.machine_simulator import MachineSimulator
from mcm_hardware.package.start_times import with_start_times
from tests.generators.small_mesh import small_mesh

THE_HOST, THE_MEMORY, BEHIND_THE_HOST = -1, -2, -3

Rates = st.sampled_from([0.5, 1.0, 2.0, 4.0])
Delays = st.sampled_from([0.0, 0.125, 0.5, 1.0])


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Devices with some links; each route takes links in ascending order, so that none block."""
    count = draw(st.integers(1, 5))
    links = MachineBuilder(count)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=9)) if pairs else []
    ends = [
        (links.channel(a, b, draw(Rates), draw(Delays), cuts=draw(st.booleans())), a, b)
        for a, b in chosen
    ]
    for source in range(count):
        ways: dict[int, list[int]] = {source: []}
        for index, a, b in ends:
            if a in ways and b not in ways:
                ways[b] = [*ways[a], index]
        for destination, way in ways.items():
            if way:
                links.route(source, destination, way)
    # Some share a channel in front of their own, and some are reached over another device.
    shared = links.channel(BEHIND_THE_HOST, THE_HOST, draw(Rates), draw(Delays))
    for device in range(count):
        into = links.channel(THE_HOST, device, draw(Rates), draw(Delays), cuts=draw(st.booleans()))
        links.route(THE_HOST, device, [shared, into] if draw(st.booleans()) else [into])
        out = links.channel(device, THE_HOST, draw(Rates), draw(Delays))
        links.route(device, THE_HOST, [out])
        if draw(st.booleans()):
            read = links.channel(THE_MEMORY, device, draw(Rates), draw(Delays))
            links.route(THE_MEMORY, device, [read])
    return links.machine("drawn", [64] * count, [1.0] * count)


@st.composite
def programs(draw: st.DrawFn, machine: Machine) -> LoweredProgram:
    """Kernels one after another on devices in any order; tensors go to later kernels."""
    count = machine.num_devices
    steps = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=7))
    used = sorted(set(steps))
    reads: list[list[int]] = [[] for _ in steps]
    writes: list[list[int]] = [[] for _ in steps]
    transfers: list[Transfer] = []
    came: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def send(source: int, destination: int, since: int, after: int = -1) -> None:
        """A transfer that is there for the steps from `since` on."""
        index = len(transfers)
        size, slots = draw(st.integers(0, 6)), draw(st.integers(1, 3))
        transfers.append(Transfer(f"t{index}", source, destination, size, slots, after))
        came[destination].append((index, since))
        for later in range(since, len(steps)):
            if steps[later] == destination and draw(st.booleans()):
                reads[later].append(index)

    for step, device in enumerate(steps):
        if draw(st.integers(0, 3)) == 0:
            send(THE_HOST, device, step)
        ends = [d for d in used if d != device and machine.route(device, d)]
        for _ in range(draw(st.integers(0, 2))):
            writes[step].append(len(transfers))
            send(device, draw(st.sampled_from([THE_HOST, *ends])), step + 1)
        brought = [(index, since) for index, since in came[device] if since <= step]
        if brought and draw(st.booleans()):
            index, since = draw(st.sampled_from(brought))
            send(device, draw(st.sampled_from([THE_HOST, *ends])), since, after=index)
    for device in used:
        own = [step for step, at in enumerate(steps) if at == device and draw(st.booleans())]
        if own and machine.route(THE_MEMORY, device):
            buffers, base = draw(st.integers(1, 2)), len(transfers)
            for turn, step in enumerate(own):
                last = base + (turn - buffers) % len(own)
                size = draw(st.integers(0, 6))
                transfers.append(
                    Transfer(f"w{base + turn}", THE_MEMORY, device, size, 1, reuses=last)
                )
                reads[step].append(base + turn)
            for index, since in came[device]:
                if transfers[index].source == THE_HOST and draw(st.booleans()):
                    turn = draw(st.integers(0, len(own) - 1))
                    waits = {"reuses": base + turn, "lag": int(own[turn] >= since)}
                    transfers[index] = replace(transfers[index], **waits)
    seconds = [draw(st.integers(0, 8)) / 4 for _ in steps]
    seconds[0] += 1.0
    chips = tuple(
        ChipProgram(
            device,
            tuple(
                Kernel(f"k{step}", (), seconds[step], tuple(reads[step]), tuple(writes[step]))
                for step, at in enumerate(steps)
                if at == device
            ),
            (),
            0,
            0,
        )
        for device in used
    )
    return LoweredProgram("drawn", chips, tuple(transfers))


Names = list[list[tuple[object, ...]]]
"""Of the kernels of each chip, or the hops of each transfer."""

Frees = dict[int, list[object]]
"""What ends the use of each transfer's buffer."""


@dataclass
class Plain:
    """Activities as dictionaries; arcs are `(from, to, seconds, inferences before)`."""

    busy: dict[object, Fraction] = field(default_factory=dict)
    there: dict[object, Fraction] = field(default_factory=dict)
    place: dict[object, object] = field(default_factory=dict)
    shared: set[object] = field(default_factory=set)
    cuts: dict[object, bool] = field(default_factory=dict)
    arcs: list[tuple[object, object, Fraction, int]] = field(default_factory=list)
    turns: list[tuple[object, object]] = field(default_factory=list)
    finals: list[object] = field(default_factory=list)
    order: list[object] = field(default_factory=list)


def read_plainly(program: LoweredProgram, machine: Machine, *, ordered: bool = True) -> Plain:
    plain = Plain()
    hops = [
        [("hop", t, i) for i in range(len(machine.route(transfer.source, transfer.destination)))]
        for t, transfer in enumerate(program.transfers)
    ]
    kernels = [
        [("kernel", chip.chip, i) for i in range(len(chip.kernels))] for chip in program.chips
    ]
    add_times(plain, program, machine, kernels, hops)
    frees: Frees = defaultdict(list)
    add_kernels(plain, program, kernels, hops, frees)
    add_ways(plain, program, hops, frees)
    add_buffers(plain, program, hops, frees)
    ends = zip(program.transfers, hops, strict=True)
    plain.finals = [path[-1] for transfer, path in ends if transfer.destination == THE_HOST]
    plain.finals = plain.finals or [names[-1] for names in kernels]
    names = [*(k for names in kernels for k in names), *(h for path in hops for h in path)]
    if ordered:
        serve(names, plain, take_turns(names, plain, program, hops))
    return plain


def add_times(
    plain: Plain, program: LoweredProgram, machine: Machine, kernels: Names, hops: Names
) -> None:
    plain.shared = {
        ("channel", channel)
        for channel, ends in enumerate(machine.channel_ends.tolist())
        if BEHIND_THE_HOST in ends
    }
    for chip, names in zip(program.chips, kernels, strict=True):
        for kernel, name in zip(chip.kernels, names, strict=True):
            plain.busy[name] = plain.there[name] = Fraction(kernel.duration_s)
            plain.place[name] = ("engine", chip.chip)
    for transfer, path in zip(program.transfers, hops, strict=True):
        route = machine.route(transfer.source, transfer.destination)
        for channel, hop in zip(route, path, strict=True):
            rate = Fraction(float(machine.channel_bytes_per_s[channel]))
            plain.busy[hop] = transfer.size_bytes / rate
            delay = Fraction(float(machine.channel_latency_s[channel]))
            plain.there[hop] = plain.busy[hop] + delay
            plain.place[hop] = ("channel", channel)
            plain.cuts[hop] = bool(machine.channel_cuts[channel])


def add_kernels(
    plain: Plain, program: LoweredProgram, kernels: Names, hops: Names, frees: Frees
) -> None:
    for chip, names in zip(program.chips, kernels, strict=True):
        plain.arcs += [(a, b, plain.busy[a], 0) for a, b in pairwise(names)]
        for kernel, name in zip(chip.kernels, names, strict=True):
            for t in kernel.reads:
                plain.arcs.append((hops[t][-1], name, plain.there[hops[t][-1]], 0))
                frees[t].append(name)
            for t in kernel.writes:
                out, slots = hops[t][0], program.transfers[t].slots
                plain.arcs.append((name, out, plain.busy[name], 0))
                plain.arcs.append((out, name, plain.busy[out], slots))


def add_ways(plain: Plain, program: LoweredProgram, hops: Names, frees: Frees) -> None:
    for t, transfer in enumerate(program.transfers):
        ways = list(pairwise(hops[t]))
        if transfer.after >= 0:
            ways.append((hops[transfer.after][-1], hops[t][0]))
            frees[transfer.after].append(hops[t][0])
        for one, other in ways:
            seconds = plain.there[one]
            if plain.cuts[one] and plain.cuts[other]:
                seconds -= min(plain.busy[one], plain.busy[other])
            plain.arcs.append((one, other, seconds, 0))


def add_buffers(plain: Plain, program: LoweredProgram, hops: Names, frees: Frees) -> None:
    for t, transfer in enumerate(program.transfers):
        if transfer.destination == THE_HOST:
            for one, other in pairwise(hops[t]):
                plain.arcs.append((other, one, plain.busy[other], transfer.slots))
            continue
        room, before = t, transfer.slots
        if transfer.reuses >= 0:
            before = transfer.lag if transfer.lag >= 0 else int(transfer.reuses >= t)
            room = transfer.reuses
        plain.arcs += [(by, hops[t][0], plain.busy[by], before) for by in frees[room]]
        if not frees[room]:
            last = hops[room][-1]
            plain.arcs.append((last, hops[t][0], plain.there[last], before))


def take_turns(
    names: list[object], plain: Plain, program: LoweredProgram, hops: Names
) -> list[tuple[object, object]]:
    """Turns of the first inference on channels that all share; returns those within one device.

    Device after device by their last kernels; inputs by the first kernel that reads them, what none
    reads at the end; outputs as they become ready.
    """
    ready = ready_order(names, plain, [])
    lines: dict[object, list[tuple[int, bool, int, object]]] = defaultdict(list)
    for transfer, path in zip(program.transfers, hops, strict=True):
        if transfer.source == THE_MEMORY or transfer.reuses >= 0:
            continue
        device = transfer.source if transfer.destination == THE_HOST else transfer.destination
        last = max(i for i, name in enumerate(ready) if name[:2] == ("kernel", device))
        readers = [b for a, b, _, d in plain.arcs if a == path[-1] and not d and b[0] == "kernel"]
        for hop in (hop for hop in path if plain.place[hop] in plain.shared):
            at = min(map(ready.index, readers), default=ready.index(hop))
            lines[plain.place[hop]].append((last, not readers, at, hop))
    pairs = [pair for line in lines.values() for pair in pairwise(sorted(line))]
    plain.turns = [(one[-1], other[-1]) for one, other in pairs]
    return [(one[-1], other[-1]) for one, other in pairs if one[0] == other[0]]


def ready_order(
    names: list[object], plain: Plain, turns: list[tuple[object, object]]
) -> list[object]:
    """The order in which things become ready if nothing else is there."""
    needs: dict[object, list[tuple[object, Fraction]]] = defaultdict(list)
    for one, other, seconds, before in plain.arcs:
        if not before:
            needs[other].append((one, seconds))
    for one, other in turns:
        needs[other].append((one, plain.busy[one]))
    ready: dict[object, Fraction] = {}
    left = list(names)
    while left:
        free = [a for a in left if all(one in ready for one, _ in needs[a])]
        times = {a: max([ready[o] + s for o, s in needs[a]], default=Fraction(0)) for a in free}
        chosen = min(free, key=lambda a: times[a])
        ready[chosen] = times[chosen]
        left.remove(chosen)
    return list(ready)


def serve(names: list[object], plain: Plain, turns: list[tuple[object, object]]) -> None:
    """Channels and engines in the order in which things become ready if nothing else is there."""
    plain.order = ready_order(names, plain, turns)
    lines: dict[object, list[object]] = defaultdict(list)
    for name in plain.order:
        lines[plain.place[name]].append(name)
    for place, line in lines.items():
        if place in plain.shared:
            # Whatever crosses it does so once in a round of all of it.
            round_s = sum(plain.busy[name] for name in line)
            plain.arcs += [(name, name, round_s, 1) for name in line]
            continue
        plain.arcs += [(one, other, plain.busy[one], 0) for one, other in pairwise(line)]
        plain.arcs.append((line[-1], line[0], plain.busy[line[-1]], 1))


def play(plain: Plain, inferences: int) -> list[dict[object, Fraction]]:
    incoming: dict[object, list[tuple[object, Fraction, int]]] = defaultdict(list)
    for one, other, seconds, before in plain.arcs:
        incoming[other].append((one, seconds, before))
    earlier: dict[object, list[object]] = defaultdict(list)
    for one, other in plain.turns:
        earlier[other].append(one)

    def first(name: object, inference: int) -> list[tuple[object, int]]:
        """What comes before it, and by how many inferences; turns are another order."""
        found = [(one, lag) for one, _, lag in incoming[name] if lag <= inference]
        return found + [(one, 0) for one in earlier[name] if not inference]

    starts: list[dict[object, Fraction]] = []
    for i in range(inferences):
        starts.append({})
        left = list(plain.order)
        while left:
            name = next(a for a in left if all(o in starts[i - d] for o, d in first(a, i)))
            left.remove(name)
            waits = [starts[i - d][o] + s for o, s, d in incoming[name] if d <= i]
            waits += [starts[0][one] + plain.busy[one] for one in earlier[name] if not i]
            starts[i][name] = max(waits, default=Fraction(0))
    return starts


@given(st.data())
@settings(max_examples=120)
def test_everything_starts_when_the_rules_say(data):
    machine = data.draw(machines())
    program = data.draw(programs(machine))
    plain = read_plainly(program, machine)
    starts = play(plain, 6)
    found = MachineSimulator(machine).timeline(program, 6)
    # All times are multiples of 1/64 s, so that floats hold them exactly.
    kernels = [name for name in plain.busy if name[0] == "kernel"]
    hops = [name for name in plain.busy if name[0] == "hop"]
    for i in range(6):
        assert found.kernel_start_s[i].tolist() == [float(starts[i][k]) for k in kernels]
        assert found.hop_start_s[i].tolist() == [float(starts[i][h]) for h in hops]
    ends = [starts[0][name] + plain.there[name] for name in plain.finals]
    result = MachineSimulator(machine).run(program, inferences=1)
    assert result.latency_s == float(max(ends))


@given(st.data())
@settings(max_examples=40)
def test_the_period_is_what_the_plain_play_comes_to(data):
    machine = data.draw(machines())
    program = data.draw(programs(machine))
    result = MachineSimulator(machine).run(program, inferences=1)
    assume(result.steady_from is not None and result.steady_from < 30)
    plain = read_plainly(program, machine)
    starts = play(plain, result.steady_from + 40)[result.steady_from :]
    times = np.array([[float(row[name]) for name in plain.order] for row in starts])
    repeats = [
        np.allclose(times[c:] - times[:-c], c * result.period_s, rtol=1e-9, atol=1e-9)
        for c in range(1, 17)
    ]
    assert any(repeats)
    busy: dict[object, float] = defaultdict(float)
    for name, place in plain.place.items():
        busy[place] += float(plain.busy[name])
    assert result.period_s >= max(busy.values()) * (1 - 1e-12)
    carried = {("engine", chip.chip): chip.busy_s for chip in result.chips}
    for place, seconds in busy.items():
        if place[0] == "engine":
            assert carried[place] == seconds
    on_channels = sorted(seconds for place, seconds in busy.items() if place[0] == "channel")
    assert sorted(link.busy_s for link in result.links) == on_channels


def crossing_program(rng: np.random.Generator, machine: Machine) -> LoweredProgram:
    """A pipeline over devices in any order, each of which sends to some of all later ones."""
    line = [int(d) for d in rng.permutation(machine.num_devices)]
    reads: dict[int, list[int]] = defaultdict(list)
    writes: dict[int, list[int]] = defaultdict(list)
    transfers = [Transfer("in", THE_HOST, line[0], 1, 2)]
    reads[line[0]].append(0)
    for at, device in enumerate(line):
        later = [d for i, d in enumerate(line[at + 1 :]) if i == 0 or rng.random() < 0.4]
        for destination in later or [THE_HOST]:
            writes[device].append(len(transfers))
            reads[destination].append(len(transfers))
            size = int(rng.integers(0, 7))
            transfers.append(Transfer(f"t{len(transfers)}", device, destination, size, 2))
    chips = tuple(
        ChipProgram(
            d,
            (
                Kernel(f"a{d}", (), float(rng.integers(0, 12)) / 4, tuple(reads[d]), ()),
                Kernel(f"b{d}", (), float(rng.integers(1, 12)) / 4, (), tuple(writes[d])),
            ),
            (),
            0,
            0,
        )
        for d in sorted(line)
    )
    return LoweredProgram("crossing", chips, tuple(transfers))


def with_starts(program: LoweredProgram, machine: Machine, size: int = 0) -> LoweredProgram:
    count = len(program.transfers)
    return with_start_times(program, machine, [size] * count, [-1] * count)


def play_by_starts(
    plain: Plain, program: LoweredProgram, inferences: int
) -> list[dict[object, Fraction]]:
    """Step by step: each resource serves its line of (inference, activity), one after another."""
    names = list(plain.busy)
    planned = dict(zip(names, map(Fraction, program.start_s), strict=True))
    period = Fraction(program.period_s)
    line = [(planned[a] + i * period, i, a) for i in range(inferences) for a in names]
    incoming: dict[object, list[tuple[object, Fraction, int]]] = defaultdict(list)
    for one, other, seconds, before in plain.arcs:
        incoming[other].append((one, seconds, before))
    starts: list[dict[object, Fraction]] = [{} for _ in range(inferences)]
    free_s: dict[object, Fraction] = defaultdict(Fraction)
    left = sorted(line, key=lambda entry: (entry[0], entry[1], names.index(entry[2])))
    while left:
        at = next(
            at
            for at, (_, i, a) in enumerate(left)
            if all(o in starts[i - d] for o, _, d in incoming[a] if d <= i)
        )
        _, i, a = left.pop(at)
        waits = [starts[i - d][o] + s for o, s, d in incoming[a] if d <= i]
        starts[i][a] = max([*waits, free_s[plain.place[a]]], default=Fraction(0))
        free_s[plain.place[a]] = starts[i][a] + plain.busy[a]
    return starts


def test_start_times_keep_every_wait_and_play_as_channels_serve_by_them():
    rng = np.random.default_rng(5)
    machine = small_mesh().machine
    simulator, found = MachineSimulator(machine), 0
    for _ in range(40):
        program = crossing_program(rng, machine)
        timed = with_starts(program, machine)
        if timed is program:
            continue
        before, found = simulator.run(program, 1), found + 1
        assert simulator.run(timed, 1).period_s <= timed.period_s < before.period_s
        plain = read_plainly(timed, machine, ordered=False)
        names, period = list(plain.busy), Fraction(timed.period_s)
        start = dict(zip(names, map(Fraction, timed.start_s), strict=True))
        for one, other, seconds, lag in plain.arcs:
            assert start[other] - start[one] + lag * period >= seconds
        for place in {*plain.place.values()}:
            own = [a for a in names if plain.place[a] == place]
            line = sorted((start[a] % period, plain.busy[a]) for a in own)
            line.append((line[0][0] + period, Fraction(0)))
            assert all(t + busy <= after for (t, busy), (after, _) in pairwise(line))
        # What channels serve in between is of later inferences, too.
        later = int(max(timed.start_s) / timed.period_s) + 1
        played = play_by_starts(plain, timed, 6 + later)
        times = simulator.timeline(timed, 6)
        for i in range(6):
            shown = [*times.kernel_start_s[i].tolist(), *times.hop_start_s[i].tolist()]
            assert shown == [float(played[i][a]) for a in names]
    assert found >= 10


def test_buffers_are_added_as_far_as_there_is_memory():
    """All that is free goes into buffers, none beyond; without any the program stays as it was."""
    rng = np.random.default_rng(11)
    machine = small_mesh().machine
    seen = set[int]()
    for _ in range(25):
        program = crossing_program(rng, machine)
        more: list[int] = []
        for size in (0, 1 << 20, int(machine.memory_bytes[0]) + 1):
            timed = with_starts(program, machine, size)
            pairs = list(zip(timed.transfers, program.transfers, strict=True))
            assert all(new.slots >= old.slots for new, old in pairs)
            more.append(sum(new.slots - old.slots for new, old in pairs))
            for device in range(machine.num_devices):
                held = [n.slots - o.slots for n, o in pairs if n.destination == device]
                assert sum(held) * size <= machine.memory_bytes[device]
            MachineSimulator(machine).run(timed, 1)
        assert more[0] >= more[1] >= more[2] == 0
        seen.add(more[1])
    assert len(seen) > 2


def test_start_times_that_were_changed_are_refused():
    rng = np.random.default_rng(3)
    machine = small_mesh().machine
    timed = next(
        made
        for made in (with_starts(crossing_program(rng, machine), machine) for _ in range(40))
        if made.start_s
    )
    simulator, starts = MachineSimulator(machine), list(timed.start_s)
    simulator.run(timed, 1)
    later = [i for i, start in enumerate(starts) if start > timed.period_s]
    changes = {
        "all at once": (0.0,) * len(starts),
        "one too early": tuple(0.0 if i == later[-1] else s for i, s in enumerate(starts)),
        "one a period later": tuple(
            s + 9 * timed.period_s if i == later[0] else s for i, s in enumerate(starts)
        ),
        "one missing": tuple(starts[:-1]),
        "negative": (-1.0, *starts[1:]),
        "no number": (float("nan"), *starts[1:]),
        "without end": (float("inf"), *starts[1:]),
    }
    for start_s in changes.values():
        with pytest.raises(CompileError, match=r"MCM-T01[37]"):
            simulator.run(replace(timed, start_s=start_s), 1)
    for period_s in (0.0, -1.0, timed.period_s * 0.9, float("nan"), float("inf")):
        with pytest.raises(CompileError, match="MCM-T017"):
            simulator.timeline(replace(timed, period_s=period_s), 2)
    fewer = tuple(replace(t, slots=1) for t in timed.transfers)
    with pytest.raises(CompileError, match="MCM-T017"):
        simulator.run(replace(timed, transfers=fewer), 1)


@pytest.mark.parametrize(
    ("slots", "sequences", "waits"),
    [(8, 0, ()), (1, 0, ("buffer",)), (8, 1, ("step",)), (8, 8, ())],
)
def test_the_kind_of_wait_that_sets_the_period_is_named(slots, sequences, waits):
    """A tensor that is long under way: its buffers, or its sequence, hold the package up."""
    machine = small_mesh().machine
    ways = [(THE_HOST, 0), (0, 2), (2, THE_HOST)]
    transfers = tuple(Transfer(f"t{i}", a, b, 1, slots) for i, (a, b) in enumerate(ways))
    chips = tuple(
        ChipProgram(d, (Kernel(f"k{d}", (), 2.0, (i,), (i + 1,)),), (), 0, 0)
        for i, d in enumerate((0, 2))
    )
    program = LoweredProgram("far", chips, transfers, sequences=sequences)
    found = MachineSimulator(machine).run(program, 1)
    assert found.cycle_waits == waits
    assert (found.period_s > 2.0) == bool(waits)


def test_links_that_wait_for_turns_are_named_and_start_times_free_them():
    rng = np.random.default_rng(5)
    machine = small_mesh().machine
    simulator = MachineSimulator(machine)
    programs = [crossing_program(rng, machine) for _ in range(30)]
    many = [
        replace(p, transfers=tuple(replace(t, slots=64) for t in p.transfers)) for p in programs
    ]
    found = [simulator.run(p, 1) for p in many]
    assert {result.cycle_waits for result in found} >= {(), ("channel",)}
    timed = [simulator.run(with_starts(p, machine), 1) for p in many]
    assert sum(not one.cycle_waits for one in timed) > 20
