from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.target import HOST
from mcm_hardware.builtin_targets import mcm36
from mcm_hardware.event_graph import EventGraph, build_event_graph
from mcm_hardware.ring_simulator import RingSimulator

SPEC = replace(
    mcm36().spec,
    chips=(mcm36().spec.reference,) * 6,
    physical=tuple(range(6)),
    link_bytes_per_s=1.0,
    hop_latency_s=(0.5,) * 5,
    host_bytes_per_s=2.0,
    host_latency_s=0.25,
)


@st.composite
def pipelines(draw: st.DrawFn) -> LoweredProgram:
    """Chains of chips with skips, where every chip's work reaches the host."""
    num_chips = draw(st.integers(1, 5))
    seconds = st.integers(0, 12).map(lambda quarter: quarter / 4)
    lengths = [draw(st.integers(1, 4)) for _ in range(num_chips)]
    durations = [[draw(seconds) for _ in range(n)] for n in lengths]
    durations[0][0] = 1.0
    reads: list[list[list[int]]] = [[[] for _ in range(n)] for n in lengths]
    writes: list[list[list[int]]] = [[[] for _ in range(n)] for n in lengths]
    transfers: list[Transfer] = []

    def send(source: int, destination: int, after: int = -1) -> None:
        index = len(transfers)
        slots = draw(st.integers(1, 3))
        size = draw(st.integers(0, 8))
        transfers.append(Transfer(f"t{index}", source, destination, size, slots, after))
        if source != HOST and after < 0:
            writes[source][draw(st.integers(0, lengths[source] - 1))].append(index)
        if destination != HOST:
            reads[destination][draw(st.integers(0, lengths[destination] - 1))].append(index)

    send(HOST, 0)
    for chip in range(num_chips):
        for _ in range(draw(st.integers(1, 2))):
            send(chip, chip + 1 if chip + 1 < num_chips else HOST)
    for source in range(num_chips - 2):
        if draw(st.booleans()):
            send(source, source + 2)
        if draw(st.booleans()):
            brought = next(
                i for i, t in enumerate(transfers)
                if t.source == source and t.destination == source + 1
            )  # fmt: skip
            send(source + 1, source + 2, after=brought)
    chips = tuple(
        ChipProgram(
            c,
            tuple(
                Kernel(f"k{c}.{i}", (f"n{c}.{i}",), durations[c][i],
                       tuple(reads[c][i]), tuple(writes[c][i]))
                for i in range(n)
            ),
            (), 0, 0,
        )
        for c, n in enumerate(lengths)
    )  # fmt: skip
    return LoweredProgram("drawn", chips, tuple(transfers))


@given(pipelines())
@settings(max_examples=150, deadline=None)
def test_no_resource_is_busier_than_the_period(program):
    result = RingSimulator(SPEC).run(program, inferences=48)
    loads = [c.busy_s for c in result.chips] + [link.busy_s for link in result.links]
    assert result.period_s >= max(loads)
    assert all(wait >= 0 for c in result.chips for wait in c.stall_s.values())


@given(pipelines())
@settings(max_examples=100, deadline=None)
def test_period_is_the_maximum_cycle_ratio(program):
    graph = build_event_graph(program, SPEC)
    result = RingSimulator(SPEC).run(program, inferences=200)
    assert result.period_s == pytest.approx(maximum_cycle_ratio(graph), rel=1e-3)


@given(pipelines())
@settings(max_examples=60, deadline=None)
def test_time_of_a_chip_is_work_or_stall(program):
    result = RingSimulator(SPEC).run(program, inferences=200)
    for chip in result.chips:
        assert chip.busy_s + sum(chip.stall_s.values()) == pytest.approx(result.period_s, rel=1e-2)


@given(pipelines())
@settings(max_examples=60, deadline=None)
def test_more_buffers_never_hurt(program):
    before = RingSimulator(SPEC).run(program)
    more = tuple(replace(t, slots=t.slots + 1) for t in program.transfers)
    after = RingSimulator(SPEC).run(replace(program, transfers=more))
    assert after.latency_s == before.latency_s
    assert after.period_s <= before.period_s * (1 + 1e-9)


@given(pipelines())
@settings(max_examples=60, deadline=None)
def test_json_form_plays_the_same(program):
    again = LoweredProgram.from_dict(json.loads(json.dumps(program.to_dict())))
    assert again == program
    assert RingSimulator(SPEC).run(again) == RingSimulator(SPEC).run(program)


def maximum_cycle_ratio(graph: EventGraph) -> float:
    """Lawler 1976: bisection on the ratio, with Bellman and Ford to look for a heavier cycle."""
    target = np.repeat(np.arange(len(graph.busy_s)), np.diff(graph.arcs.ptr))
    low, high = 0.0, float(graph.arcs.weight_s.sum()) + 1.0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        weight = graph.arcs.weight_s - middle * graph.arcs.lag
        longest = np.zeros(len(graph.busy_s))
        for _ in range(len(graph.busy_s) + 1):
            before = longest.copy()
            np.maximum.at(longest, target, before[graph.arcs.source] + weight)
            if np.array_equal(before, longest):
                high = middle
                break
        else:
            low = middle
    return (low + high) / 2
