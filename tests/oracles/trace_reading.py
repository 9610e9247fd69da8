"""Reading a trace back with Perfetto's own schema."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    Trace,
    TracePacket,
    TrackEvent,
)

from mcm_compiler.contracts.program import Timeline
from mcm_compiler.report.perfetto_trace import write_trace


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


def written(timeline: Timeline, replicas: int = 1, chips_each: int = 0, classes: int = 1) -> bytes:
    stream = io.BytesIO()
    write_trace(timeline, stream, replicas, chips_each, classes)
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
