"""A timeline as a trace for Perfetto (https://ui.perfetto.dev), in its native protobuf.

Chips and links are tracks, and kernels and hops are slices on them. A tensor's way from the kernel
that makes it to the kernels that read it is a flow. Each chip has a counter of the SRAM that is
taken. Pipelines side by side do the same at the same time, each for inferences of its own.
Timestamps are nanoseconds from when the first inference may enter. Names and arguments are
interned: written once, and referred to by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.program import LoweredProgram, Timeline
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report.timeline_tracks import (
    Track,
    end_name,
    inferences_of,
    memory_counter,
    tracks_of,
)
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
        InternedData,
        TracePacket,
        TrackDescriptor,
        TrackEvent,
    )


@dataclass(frozen=True)
class FlowEnds:
    """Flows of one inference, numbered from 0.

    Attributes:
        count: how many there are.
        passes: by activity (as in `Track`), the flows that begin there or go through.
        ends: by activity, the flows that end there.
    """

    count: int
    passes: dict[int, list[int]]
    ends: dict[int, list[int]]


def flows_of(timeline: Timeline) -> FlowEnds:
    """The flows of a timeline.

    A flow connects the kernel that makes a tensor, or the hop by which it came, with all hops of a
    transfer and the first kernel that reads it. Each further reader has a flow of its own from
    the last hop. What reaches a chip and has no reader there but a transfer, or goes to the host,
    ends with its last hop. Where nothing but a single slice is left there is no flow.
    """
    program = timeline.program
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    kernels = 0
    for chip in program.chips:
        for kernel in chip.kernels:
            writer.update(dict.fromkeys(kernel.writes, kernels))
            for transfer in kernel.reads:
                readers.setdefault(transfer, []).append(kernels)
            kernels += 1
    hops: list[list[int]] = [[] for _ in program.transfers]
    for index, hop in enumerate(timeline.hops):
        hops[hop.transfer].append(kernels + index)
    passes: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    count = 0
    for index, transfer in enumerate(program.transfers):
        if transfer.after >= 0:
            made = hops[transfer.after][-1:]
        else:
            made = [writer[index]] if index in writer else []
        way = [*made, *hops[index]]
        reading = readers.get(index, [])
        chains = [[*way, *reading[:1]], *([*way[-1:], reader] for reader in reading[1:])]
        for chain in chains:
            if len(chain) < 2:
                continue
            for activity in chain[:-1]:
                passes.setdefault(activity, []).append(count)
            ends.setdefault(chain[-1], []).append(count)
            count += 1
    return FlowEnds(count, passes, ends)


Longs = npt.NDArray[np.int64]

MAX_SLICES = 400_000
"""Slices of one trace: as many as a browser still shows well, in about 40 MB."""

MAX_SECONDS = 1e8
"""End of the simulated time that a trace can hold; its nanoseconds are 64-bit."""

MAX_TEXT = 1000
"""Characters of a name or an argument."""

SEQUENCE = 1
"""Identifier of the packet sequence; the interned names belong to it."""

_PACKETS_AT_ONCE = 2000
_ROOT, _CHIPS, _LINKS, _MEMORY, _FIRST_FREE = 1, 2, 3, 4, 5


def refuse_large_trace(program: LoweredProgram, inferences: int) -> None:
    """Stops before a simulation whose trace would be too large.

    Raises:
        CompileError: MCM-A012.
    """
    kernels = sum(len(chip.kernels) for chip in program.chips)
    # Transfers over several links have a slice on each; there are no more links than chips.
    per_inference = kernels + sum(
        max(t.destination - t.source, 1) if min(t.source, t.destination) >= 0 else 1
        for t in program.transfers
    )
    if per_inference * inferences > MAX_SLICES:
        fit = MAX_SLICES // per_inference
        raise CompileError.of(
            "MCM-A012",
            f"the trace would have {per_inference * inferences:,} slices, at most "
            f"{MAX_SLICES:,} are written",
            at=f"{inferences} inferences with up to {per_inference:,} slices each",
            hint=f"simulate fewer: --inferences {fit}"
            if fit
            else "the program is too large for a trace",
        )


def refuse_large(slices: int, last_s: float, hint: str | None = None) -> None:
    """Stops before a trace that no browser shows.

    Args:
        slices: of the trace.
        last_s: when the last of them begins.
        hint: what to do.

    Raises:
        CompileError: MCM-A012.
    """
    if slices > MAX_SLICES or not last_s < MAX_SECONDS:
        raise CompileError.of(
            "MCM-A012",
            f"the trace would have {slices:,} slices in {last_s:.3g} s; at most "
            f"{MAX_SLICES:,} slices and {MAX_SECONDS:.0g} s are written",
            hint=hint,
        )


def write_trace(
    timeline: Timeline, file: IO[bytes], replicas: int = 1, chips_each: int = 0, classes: int = 1
) -> None:
    """Writes `timeline` to `file`, which is open for writing bytes.

    Equal arguments give equal bytes. Of pipelines side by side as many are drawn as there is space
    for in `MAX_SLICES`; the chips of the others have tracks that name the chip that does the same.

    Args:
        timeline: of one pipeline.
        file: what to write to.
        replicas: pipelines side by side, which take inferences in turn.
        chips_each: chips from one to the next.
        classes: inferences of a round of one pipeline.

    Raises:
        CompileError: MCM-A012 for more slices or more seconds than a trace can hold.
    """
    slices = timeline.kernel_start_s.size + timeline.hop_start_s.size
    last_s = max(
        float(timeline.kernel_start_s.max(initial=0.0)),
        float(timeline.hop_start_s.max(initial=0.0)),
    )
    refuse_large(slices, last_s)
    drawn = min(replicas, max(MAX_SLICES // max(slices, 1), 1))
    each = [tracks_of(timeline, pipeline * chips_each) for pipeline in range(drawn)]
    tracks, flows = [track for one in each for track in one], flows_of(timeline)
    inferences = [inferences_of(timeline, track, classes) for track in tracks]
    packets = Packets(file)
    names = _Names()
    events = [
        _slice_events(timeline.program, timeline, names, pipeline * chips_each)
        for pipeline in range(drawn)
    ]
    first = packets.add()
    first.sequence_flags = first.SEQ_INCREMENTAL_STATE_CLEARED
    names.write(first.interned_data)
    counters = _describe_tracks(timeline.program, replicas, chips_each, each, packets)
    for time_ns, track, position in _in_order(tracks, counters):
        packet = packets.add()
        packet.timestamp = time_ns
        packet.sequence_flags = packet.SEQ_NEEDS_INCREMENTAL_STATE
        event = packet.track_event
        event.track_uuid = _FIRST_FREE + track
        if track >= len(tracks):
            event.type = event.TYPE_COUNTER
            event.counter_value = int(counters[track - len(tracks)][1][position])
            continue
        row, pipeline = tracks[track], track // len(each[0])
        index, ends = divmod(position, 2)
        if ends:
            event.type = event.TYPE_SLICE_END
            continue
        activity = int(row.activity[index])
        inference = int(inferences[track][index]) * replicas + pipeline
        event.CopyFrom(events[pipeline][activity])
        event.track_uuid = _FIRST_FREE + track
        event.debug_annotations.add(name_iid=names.arguments["inference"], uint_value=inference)
        _connect(event, flows, activity, inference)
    packets.flush()


class Packets:
    """Packets on their way to a file, some at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder

        self._new = TraceProtoBuilder
        self._builder = TraceProtoBuilder()
        self._file = file
        self._count = 0

    def add(self) -> TracePacket:
        """A new packet, to be filled before the next call."""
        if self._count == _PACKETS_AT_ONCE:
            self.flush()
        self._count += 1
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def flush(self) -> None:
        """Writes what is there: serialised traces can be joined end to end."""
        self._file.write(self._builder.serialize())
        self._builder, self._count = self._new(), 0


@dataclass(frozen=True)
class _Names:
    """Texts by the numbers that events refer to them with."""

    events: dict[str, int] = field(default_factory=dict[str, int])
    categories: dict[str, int] = field(default_factory=dict[str, int])
    arguments: dict[str, int] = field(default_factory=dict[str, int])
    texts: dict[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def number(table: dict[str, int], text: str) -> int:
        shown = printable(text)
        if len(shown) > MAX_TEXT:
            shown = shown[: MAX_TEXT - 3] + "..."
        return table.setdefault(shown, len(table) + 1)

    def write(self, data: InternedData) -> None:
        for text, iid in self.events.items():
            data.event_names.add(iid=iid, name=text)
        for text, iid in self.categories.items():
            data.event_categories.add(iid=iid, name=text)
        for text, iid in self.arguments.items():
            data.debug_annotation_names.add(iid=iid, name=text)
        for text, iid in self.texts.items():
            data.debug_annotation_string_values.add(iid=iid, str=text.encode())


def _slice_events(
    program: LoweredProgram, timeline: Timeline, names: _Names, first_chip: int
) -> list[TrackEvent]:
    """The begin event of each activity of a pipeline, without what depends on the inference."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

    def event(name: str, category: str, arguments: Mapping[str, str | int]) -> TrackEvent:
        made = TrackEvent(
            type=TrackEvent.TYPE_SLICE_BEGIN,
            name_iid=names.number(names.events, name),
            category_iids=[names.number(names.categories, category)],
        )
        for key, value in arguments.items():
            note = made.debug_annotations.add(name_iid=names.number(names.arguments, key))
            if isinstance(value, int):
                note.uint_value = value
            else:
                note.string_value_iid = names.number(names.texts, value)
        return made

    names.number(names.arguments, "inference")
    made = [
        event(k.name, "kernel", {"nodes": ", ".join(k.nodes), "engine": k.engine})
        for chip in program.chips
        for k in chip.kernels
    ]
    for hop in timeline.hops:
        transfer = program.transfers[hop.transfer]
        ends = {
            "from": end_name(transfer.source, first_chip),
            "to": end_name(transfer.destination, first_chip),
        }
        size = {"bytes": transfer.size_bytes}
        made.append(event(transfer.tensor, "transfer", size | ends))
    return made


def _describe_tracks(
    program: LoweredProgram,
    replicas: int,
    each: int,
    pipelines: Sequence[Sequence[Track]],
    packets: Packets,
) -> list[tuple[Longs, Longs]]:
    """Writes the tree of tracks; returns the memory counters, whose tracks follow the others.

    Args:
        program: of one pipeline.
        replicas: pipelines side by side.
        each: chips from one to the next.
        pipelines: the tracks of each pipeline that is drawn.
        packets: what to write to.
    """

    def describe(uuid: int, name: str, parent: int | None, rank: int) -> TrackDescriptor:
        track = packets.add().track_descriptor
        track.uuid = uuid
        track.name = name
        if parent is not None:
            track.parent_uuid = parent
            track.sibling_order_rank = rank
        return track

    def describe_group(uuid: int, name: str, parent: int | None, rank: int) -> None:
        track = describe(uuid, name, parent, rank)
        track.child_ordering = track.EXPLICIT

    root = program.target
    if replicas > len(pipelines):
        root += f": the first {len(pipelines)} of {replicas} equal pipelines"
    elif replicas > 1:
        root += f": {replicas} equal pipelines"
    describe_group(_ROOT, printable(root)[:MAX_TEXT], None, 0)
    describe_group(_CHIPS, "chips", _ROOT, 0)
    describe_group(_LINKS, "links", _ROOT, 1)
    describe_group(_MEMORY, "SRAM", _ROOT, 2)
    tracks = [track for one in pipelines for track in one]
    for rank, track in enumerate(tracks):
        describe(_FIRST_FREE + rank, track.name, _LINKS if track.chip is None else _CHIPS, rank)
    counters: list[tuple[Longs, Longs]] = []
    for pipeline, own in enumerate(pipelines):
        by_chip = {track.chip: track for track in own}
        for chip in program.chips:
            rank = len(tracks) + len(counters)
            name = f"{end_name(chip.chip, pipeline * each)} SRAM"
            counter = describe(_FIRST_FREE + rank, name, _MEMORY, rank).counter
            counter.unit = counter.UNIT_SIZE_BYTES
            counters.append(memory_counter(chip, by_chip[chip.chip]))
    rank = len(tracks) + len(counters)
    for pipeline in range(len(pipelines), replicas):
        for chip in program.chips:
            name = f"{end_name(chip.chip, pipeline * each)}: as {end_name(chip.chip)}"
            describe(_FIRST_FREE + rank, name, _CHIPS, rank)
            rank += 1
    return counters


def _in_order(
    tracks: Sequence[Track], counters: Sequence[tuple[Longs, Longs]]
) -> Iterator[tuple[int, int, int]]:
    """`(nanosecond, track, position on it)` of all events; equal times in the order of tracks.

    A slice has two positions: that of its begin and that of its end.
    """
    times = [np.stack([t.begin_ns, t.end_ns], axis=1).ravel() for t in tracks]
    times += [time for time, _ in counters]
    track = np.repeat(np.arange(len(times)), [len(time) for time in times])
    position = np.concatenate([np.arange(len(time)) for time in times])
    merged = np.concatenate(times)
    order = np.argsort(merged, kind="stable")
    yield from zip(
        merged[order].tolist(), track[order].tolist(), position[order].tolist(), strict=True
    )


def _connect(event: TrackEvent, flows: FlowEnds, activity: int, inference: int) -> None:
    base = inference * flows.count + 1
    event.flow_ids.extend(base + flow for flow in flows.passes.get(activity, ()))
    event.terminating_flow_ids.extend(base + flow for flow in flows.ends.get(activity, ()))
