"""The trace of a simulation, read back with Perfetto's own schema."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    Trace,
    TracePacket,
    TrackEvent,
)

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report import perfetto_trace
from mcm_compiler.report.memory_counter import LASTING, memory_counter, taken_bytes
from mcm_compiler.report.perfetto_trace import MAX_SLICES, refuse_large_trace, write_trace
from mcm_compiler.report.timeline_tracks import tracks_of
from mcm_compiler.simulation import Hop, Timeline
from tests.unit.report.example_timeline import example_program, example_timeline


@dataclass
class Slice:
    """A slice as a reader of the trace sees it."""

    track: str
    name: str
    begin: int
    end: int = -1
    arguments: dict[str, Any] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    ending: list[int] = field(default_factory=list)


@dataclass
class ReadTrace:
    """What a trace holds, by name of track."""

    slices: dict[str, list[Slice]]
    counters: dict[str, list[tuple[int, int]]]
    parents: dict[str, str]

    def all_slices(self) -> Iterator[Slice]:
        for slices in self.slices.values():
            yield from slices


def written(timeline: Timeline) -> bytes:
    stream = io.BytesIO()
    write_trace(timeline, stream)
    return stream.getvalue()


def read(data: bytes) -> ReadTrace:
    """Follows Perfetto's rules: interned data, tracks, and slices as nested begins and ends."""
    trace = Trace.FromString(data)
    first = trace.packet[0]
    assert first.sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    names = {n.iid: n.name for n in first.interned_data.event_names}
    keys = {n.iid: n.name for n in first.interned_data.debug_annotation_names}
    texts = {n.iid: n.str.decode() for n in first.interned_data.debug_annotation_string_values}
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    found = ReadTrace(defaultdict(list), defaultdict(list), {})
    for track in tracks.values():
        if track.parent_uuid:
            found.parents[track.name] = tracks[track.parent_uuid].name
    running: dict[int, Slice] = {}
    last = 0
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if not packet.HasField("track_event"):
            continue
        assert packet.timestamp >= last, "packets are in the order of time"
        last = packet.timestamp
        event = packet.track_event
        track = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            assert track.counter.unit == CounterDescriptor.UNIT_SIZE_BYTES
            found.counters[track.name].append((packet.timestamp, event.counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in running, "two slices overlap"
            running[event.track_uuid] = Slice(
                track.name,
                names[event.name_iid],
                packet.timestamp,
                arguments={
                    keys[a.name_iid]: texts[a.string_value_iid]
                    if a.string_value_iid
                    else a.uint_value
                    for a in event.debug_annotations
                },
                flows=list(event.flow_ids),
                ending=list(event.terminating_flow_ids),
            )
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            ended = running.pop(event.track_uuid)
            ended.end = packet.timestamp
            found.slices[track.name].append(ended)
    assert not running, "every slice ends"
    return found


def flow_slices(trace: ReadTrace) -> dict[int, list[Slice]]:
    """The slices of each flow in order; each ends exactly once, with the last."""
    flows: dict[int, list[Slice]] = defaultdict(list)
    endings: dict[int, list[Slice]] = defaultdict(list)
    for piece in trace.all_slices():
        for flow in piece.flows:
            flows[flow].append(piece)
        for flow in piece.ending:
            endings[flow].append(piece)
    assert flows.keys() == endings.keys(), "a flow has both ends"
    assert {len(pieces) for pieces in endings.values()} <= {1}
    ways = {
        flow: [*sorted(pieces, key=lambda piece: piece.begin), *endings[flow]]
        for flow, pieces in flows.items()
    }
    assert all(a.begin <= b.begin for way in ways.values() for a, b in pairwise(way))
    return ways


def test_slices_are_those_of_the_timeline() -> None:
    timeline = example_timeline(5)
    trace = read(written(timeline))
    assert {name: len(slices) for name, slices in trace.slices.items()} == {
        "chip 0": 10,
        "chip 2": 15,
        "host -> chip 0": 5,
        "chip 0 -> chip 1": 5,
        "chip 1 -> chip 2": 5,
        "off-package memory -> chip 2": 5,
        "chip 2 -> host": 10,
    }
    second = trace.slices["chip 0"][3]
    assert (second.name, second.begin, second.end) == ("b", 53_000, 73_000)
    assert second.arguments == {"nodes": "b/1, b/2", "engine": "vector", "inference": 1}
    hop = trace.slices["chip 1 -> chip 2"][0]
    assert (hop.name, hop.begin, hop.end) == ("h", 37_000, 40_000)
    expected = {"bytes": 2000, "from": "chip 0", "to": "chip 2", "inference": 0}
    assert hop.arguments == expected


def test_the_tree_of_tracks() -> None:
    parents = read(written(example_timeline())).parents
    assert {parents[name] for name in ("chip 0", "chip 2")} == {"chips"}
    assert parents["host -> chip 0"] == parents["chip 1 -> chip 2"] == "links"
    assert parents["chip 2 SRAM"] == "SRAM"
    assert {parents[name] for name in ("chips", "links", "SRAM")} == {"example"}


def test_flows_go_from_the_maker_over_all_hops_to_every_reader() -> None:
    trace = read(written(example_timeline(3)))
    flows = flow_slices(trace)
    ways = [[piece.name for piece in pieces] for pieces in flows.values()]
    tracks = [[piece.track for piece in pieces] for pieces in flows.values()]
    for way in (["x", "a"], ["b", "h", "h", "c"], ["h", "e"], ["w", "c"], ["e", "y"], ["h", "h"]):
        assert ways.count(way) == 3
    assert len(ways) == 18
    assert ["chip 0", "chip 0 -> chip 1", "chip 1 -> chip 2", "chip 2"] in tracks
    assert ["chip 1 -> chip 2", "chip 2 -> host"] in tracks
    for pieces in flows.values():
        assert len({piece.arguments["inference"] for piece in pieces}) == 1


def test_memory_is_what_the_plan_says() -> None:
    trace = read(written(example_timeline(2)))
    assert trace.counters["chip 0 SRAM"] == [
        (0, 11_000),
        (3_000, 11_700),
        (13_000, 12_000),
        (33_000, 11_000),
        (43_000, 11_700),
        (53_000, 12_000),
        (73_000, 11_000),
    ]
    peaks = {name: max(value for _, value in steps) for name, steps in trace.counters.items()}
    assert peaks["chip 0 SRAM"] == 12_000
    assert peaks["chip 2 SRAM"] == 13_000


def test_bytes_before_while_and_after_a_kernel() -> None:
    lasting, running, after = taken_bytes(example_program().chips[1])
    assert lasting == 5000
    assert running.tolist() == [13_000, 5100, 5100]
    assert after.tolist() == [5000, 5100, 5000]


def test_a_chip_without_kernels_has_a_level_counter() -> None:
    timeline = example_timeline(1)
    chip = timeline.program.chips[1]
    lasting = tuple(b for b in chip.buffers if b.kind in LASTING)
    idle = replace(chip, chip=1, kernels=(), buffers=lasting)
    program = replace(timeline.program, chips=(timeline.program.chips[0], idle), transfers=())
    track = tracks_of(Timeline(program, (), timeline.kernel_start_s[:, :2], np.zeros((1, 0))))[1]
    times, values = memory_counter(idle, track)
    assert (times.tolist(), values.tolist()) == ([0], [5000])


def test_equal_timelines_give_equal_bytes_however_they_are_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = written(example_timeline())
    assert data == written(example_timeline())
    monkeypatch.setattr(perfetto_trace, "_PACKETS_AT_ONCE", 3)
    assert Trace.FromString(written(example_timeline())) == Trace.FromString(data)


def test_rounding_to_nanoseconds_makes_no_overlap() -> None:
    """Starts are sums along other ways than ends, so that they may differ in the last bit."""
    rng = np.random.default_rng(0)
    busy = rng.uniform(0, 30e-9, 400)
    ends = np.cumsum(busy)
    starts = np.concatenate(([0.0], np.nextafter(ends[:-1], 0.0)))
    program = example_program()
    kernel = program.chips[0].kernels[0]
    kernels = tuple(replace(kernel, duration_s=float(s), reads=()) for s in busy)
    chip = replace(program.chips[0], kernels=kernels, buffers=())
    alone = replace(program, chips=(chip,), transfers=())
    trace = read(written(Timeline(alone, (), starts[None, :], np.zeros((1, 0)))))
    assert len(trace.slices["chip 0"]) == 400


def test_hostile_names_stay_text() -> None:
    timeline = example_timeline(1)
    evil = "\x1b[31m\ud800" + "x" * 5000
    chip = timeline.program.chips[0]
    kernel = replace(chip.kernels[0], name=evil, nodes=(evil,) * 50)
    chip = replace(chip, kernels=(kernel, chip.kernels[1]))
    program = replace(timeline.program, target=evil, chips=(chip, timeline.program.chips[1]))
    trace = read(written(replace(timeline, program=program)))
    shown = trace.slices["chip 0"][0]
    for text in (shown.name, shown.arguments["nodes"], trace.parents["chips"]):
        assert text.isprintable()
        assert len(text) == perfetto_trace.MAX_TEXT


def test_mcm_a012_a_trace_that_would_be_too_large() -> None:
    program = example_program()
    refuse_large_trace(program, MAX_SLICES // 11)
    with pytest.raises(CompileError) as caught:
        refuse_large_trace(program, MAX_SLICES // 11 + 1)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-A012"
    assert fault.hint == f"simulate fewer: --inferences {MAX_SLICES // 11}"


@pytest.mark.parametrize("seconds", [1e300, float("nan"), float("inf")])
def test_mcm_a012_times_beyond_64_bits(seconds: float) -> None:
    timeline = example_timeline(1)
    late = replace(timeline, kernel_start_s=timeline.kernel_start_s + seconds)
    with pytest.raises(CompileError) as caught:
        written(late)
    assert caught.value.diagnostics[0].code == "MCM-A012"


def test_many_slices_are_refused_by_the_writer_too() -> None:
    timeline = example_timeline(1)
    hops = (Hop(0, -1, 0, 0.0, 0.0),)
    many = np.zeros((MAX_SLICES, 1))
    with pytest.raises(CompileError) as caught:
        written(Timeline(timeline.program, hops, np.zeros((MAX_SLICES, 5)), many))
    assert caught.value.diagnostics[0].code == "MCM-A012"
