"""A simulated step as data, as rows, and as a trace for Perfetto (https://ui.perfetto.dev).

In the trace each device has a track of its ops and one of the copies that leave it. Timestamps are
nanoseconds from the start of the step.
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepTrace
from mcm_compiler.report.perfetto_trace import MAX_TEXT, Packets, refuse_large
from mcm_compiler.text.units import bytes_text, printable, seconds_text

MOST_OPS = 12
"""Ops of the chain that are listed."""


def step_data(problem: StepProblem, box: Box, trace: StepTrace) -> dict[str, Any]:
    """The JSON form: the chain in order, and what each device does.

    Args:
        problem: what was placed.
        box: the devices.
        trace: what happens when.
    """
    time = trace.end_s - trace.start_s
    chain = trace.critical_ops
    return {
        "seconds": float(max(trace.end_s.max(initial=0.0), trace.copy_end_s.max(initial=0.0))),
        "copies": len(trace.copy_value),
        "copied_bytes": int(problem.value_bytes[trace.copy_value].sum()),
        "chain_ops_s": float(time[chain].sum()),
        "devices": [
            {
                "device": name,
                "busy_s": float(time[trace.device_of == d].sum()),
                "copies": int(np.count_nonzero(trace.copy_from == d)),
                "copy_s": float(
                    (trace.copy_end_s - trace.copy_start_s)[trace.copy_from == d].sum()
                ),
                "peak_bytes": int(trace.peak_bytes[d]),
            }
            for d, name in enumerate(box.devices)
        ],
        "chain": [
            {
                "op": problem.names[op],
                "op_type": problem.op_types[op],
                "device": box.devices[trace.device_of[op]],
                "start_s": float(trace.start_s[op]),
                "end_s": float(trace.end_s[op]),
            }
            for op in chain.tolist()
        ],
    }


def chain_rows(problem: StepProblem, box: Box, trace: StepTrace) -> list[list[str]]:
    """The longest ops of the chain, in the order in which they run, below a head."""
    chain = trace.critical_ops
    time = (trace.end_s - trace.start_s)[chain]
    longest = np.sort(np.argsort(-time, kind="stable")[:MOST_OPS])
    rows = [["start", "takes", "device", "type", "op"]]
    for place in longest.tolist():
        op = int(chain[place])
        rows.append(
            [
                seconds_text(float(trace.start_s[op])),
                seconds_text(float(time[place])),
                box.devices[int(trace.device_of[op])],
                problem.op_types[op],
                problem.names[op],
            ]
        )
    return rows


_ROOT = 1


def refuse_large_step(trace: StepTrace) -> None:
    """Stops before a trace that no browser shows.

    Raises:
        CompileError: MCM-A012.
    """
    refuse_large(
        len(trace.start_s) + len(trace.copy_value),
        float(trace.end_s.max(initial=0.0)),
        "place a smaller step, such as one that is unrolled less",
    )


def write_step_trace(problem: StepProblem, box: Box, trace: StepTrace, file: IO[bytes]) -> None:
    """Writes a trace; equal arguments give equal bytes.

    Args:
        problem: what was placed; ops that take no time are left out.
        box: the devices.
        trace: what happens when.
        file: open for writing bytes.

    Raises:
        CompileError: MCM-A012 for a step that is too large.
    """
    refuse_large_step(trace)
    packets = Packets(file)
    for uuid, name, parent in _tracks(box):
        packet = packets.add()
        track = packet.track_descriptor
        track.uuid, track.name = uuid, printable(name)[:MAX_TEXT]
        if parent:
            track.parent_uuid = parent
    begin, end, track_of, names, notes = _slices(problem, box, trace)
    times = np.concatenate([begin, end])
    # What ends makes room for what begins at the same time.
    order = np.lexsort((np.repeat([1, 0], len(begin)), times))
    for event in order.tolist():
        ends, index = divmod(event, len(begin))
        packet = packets.add()
        packet.timestamp = int(times[event])
        slice_ = packet.track_event
        slice_.track_uuid = int(track_of[index])
        slice_.type = slice_.TYPE_SLICE_END if ends else slice_.TYPE_SLICE_BEGIN
        if not ends:
            slice_.name = printable(names[index])[:MAX_TEXT]
            note = slice_.debug_annotations.add()
            note.name, note.string_value = notes[index]
    packets.flush()


def _tracks(box: Box) -> list[tuple[int, str, int]]:
    """Number, name and parent of each track."""
    tracks = [(_ROOT, "step", 0)]
    for d, device in enumerate(box.devices):
        tracks += [(_op_track(d), device, _ROOT), (_op_track(d) + 1, f"{device} sends", _ROOT)]
    return tracks


def _op_track(device: int) -> int:
    return _ROOT + 1 + 2 * device


def _slices(
    problem: StepProblem, box: Box, trace: StepTrace
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str], list[tuple[str, str]]]:
    """Begin and end in ns, track, name and note of each op and copy that takes time."""
    begin = np.round(np.concatenate([trace.start_s, trace.copy_start_s]) * 1e9).astype(np.int64)
    end = np.round(np.concatenate([trace.end_s, trace.copy_end_s]) * 1e9).astype(np.int64)
    copies = trace.copy_value.tolist()
    track = np.concatenate(
        [_op_track(0) + 2 * trace.device_of, _op_track(0) + 2 * trace.copy_from + 1]
    )
    names = [*problem.names, *(problem.value_names[v] for v in copies)]
    notes = [("type", kind) for kind in problem.op_types]
    notes += [
        ("copy", f"{bytes_text(int(problem.value_bytes[v]))} to {box.devices[to]}")
        for v, to in zip(copies, trace.copy_to.tolist(), strict=True)
    ]
    long = np.flatnonzero(end > begin)
    kept = long.tolist()
    return begin[long], end[long], track[long], [names[i] for i in kept], [notes[i] for i in kept]
