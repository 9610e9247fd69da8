"""A timeline as slices on tracks, in whole nanoseconds, and the SRAM of a chip over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.program import ChipProgram, Timeline
from mcm_compiler.graph.rounds import class_in
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE_ROOT
from mcm_compiler.report import sentences
from mcm_compiler.report.activity import is_shared

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NS_PER_S = 1e9


@dataclass(frozen=True, eq=False)
class Track:
    """Slices of one resource: M, one after another.

    Activities are numbered: first the kernels of the program, chip by chip in their order, then
    the hops.

    Attributes:
        name: of the chip or the link.
        chip: index on the ring, or None for a link.
        begin_ns: `[M]`, ascending.
        end_ns: `[M]`; none ends after the next begins.
        activity: `[M]`, what ran.
        inference: `[M]`, for which inference.
    """

    name: str
    chip: int | None
    begin_ns: Longs
    end_ns: Longs
    activity: Longs
    inference: Longs


def tracks_of(timeline: Timeline, first_chip: int = 0) -> list[Track]:
    """One track per chip and one per link that is used.

    They come in the order in which tensors go: links into the package, then each chip with the
    links that leave it. Where times are equal, this order is that of cause and effect.

    Args:
        timeline: of one pipeline.
        first_chip: its place in the package, for the names.
    """
    chips = timeline.program.chips
    durations = np.array([k.duration_s for chip in chips for k in chip.kernels])
    keyed: list[tuple[tuple[int, int, int], Track]] = []
    first = 0
    for chip in chips:
        kernels = np.arange(first, first + len(chip.kernels))
        first += len(chip.kernels)
        start_s = timeline.kernel_start_s[:, kernels]
        track = _track(
            end_name(chip.chip, first_chip), chip.chip, start_s, durations[kernels], kernels
        )
        keyed.append(((chip.chip, 0, 0), track))
    # What all chips share interleaves tensors, so that each has a track of its own.
    on_link: dict[tuple[int, int, int], list[int]] = {}
    lanes: Counter[tuple[int, int]] = Counter()
    for index, hop in enumerate(timeline.hops):
        ends = (hop.source, hop.destination)
        lanes[ends] += is_shared(*ends)
        on_link.setdefault((*ends, lanes[ends]), []).append(index)
    busy_s = np.array([hop.busy_s for hop in timeline.hops])
    for (source, destination, lane), indices in on_link.items():
        hops = np.array(indices, np.int64)
        name = f"{end_name(source, first_chip)} -> {end_name(destination, first_chip)}"
        name += f" ({lane})" if lane else ""
        track = _track(name, None, timeline.hop_start_s[:, hops], busy_s[hops], hops + first)
        keyed.append(((source if source >= 0 else HOST, 1, destination), track))
    return [track for _, track in sorted(keyed, key=lambda pair: pair[0])]


def inferences_of(timeline: Timeline, track: Track, classes: int) -> Longs:
    """`[M]`, the inference of each slice of a pipeline, where a period is a round of N classes."""
    if classes == 1:
        return track.inference
    names = [k.name for chip in timeline.program.chips for k in chip.kernels]
    names += [timeline.program.transfers[hop.transfer].tensor for hop in timeline.hops]
    class_of = np.array([*map(class_in, names)], np.int64)
    return track.inference * classes + class_of[track.activity]


def end_name(place: int, first_chip: int = 0) -> str:
    """An end of a transfer of a pipeline whose chip 0 is chip `first_chip` of the package."""
    if place in (HOST_ROOT, OFF_PACKAGE_ROOT):
        return "root of all chips"
    return sentences.place_name(first_chip + place if place >= 0 else place)


def _track(
    name: str, chip: int | None, start_s: Floats, busy_s: Floats, activities: Longs
) -> Track:
    """Slices in the order of their starts.

    Args:
        name: of the track.
        chip: index on the ring, or None for a link.
        start_s: `[inferences, A]`.
        busy_s: `[A]`.
        activities: `[A]`.
    """
    order = np.argsort(start_s, axis=None, kind="stable")
    starts = start_s.ravel()[order]
    inference, column = np.divmod(order, max(len(activities), 1))
    begin = np.rint(starts * NS_PER_S).astype(np.int64)
    end = np.rint((starts + busy_s[column]) * NS_PER_S).astype(np.int64)
    # Equal times that were computed along different ways may round to neighbours.
    late = (end[:-1] > begin[1:]) & (end[:-1] <= begin[1:] + 1)
    end[:-1][late] = begin[1:][late]
    return Track(name, chip, begin, end, activities[column], inference)


LASTING = ("weight", "state", "receive", "send")
"""Kinds of buffers that are taken all the time."""


def taken_bytes(program: ChipProgram) -> tuple[int, Longs, Longs]:
    """SRAM that is taken before, while and after each kernel runs.

    Returns:
        The bytes of lasting buffers, which are taken between inferences as well; `[kernels]`,
        all bytes while each kernel runs; `[kernels]`, all bytes after it, until the next begins.
    """
    lasting = sum(b.size_bytes for b in program.buffers if b.kind in LASTING)
    kernels = len(program.kernels)
    begun, ended = np.zeros(kernels + 1, np.int64), np.zeros(kernels + 1, np.int64)
    for buffer in program.buffers:
        if buffer.kind not in LASTING:
            begun[buffer.first] += buffer.size_bytes
            ended[buffer.last] += buffer.size_bytes
    begun, ended = np.cumsum(begun[:kernels]), np.cumsum(ended[:kernels])
    before = np.concatenate((np.zeros(1, np.int64), ended))[:kernels]
    return lasting, lasting + begun - before, lasting + begun - ended


def memory_counter(program: ChipProgram, track: Track) -> tuple[Longs, Longs]:
    """The counter of a chip: times in nanoseconds and the bytes that are taken from each on.

    Args:
        program: what the chip runs.
        track: when it ran.

    Returns:
        Times, ascending from 0, and bytes; no two that follow each other are equal.
    """
    lasting, running, after = taken_bytes(program)
    kernel = track.activity - int(track.activity.min(initial=np.iinfo(np.int64).max))
    times = np.stack([track.begin_ns, track.end_ns], axis=1).ravel()
    values = np.stack([running[kernel], after[kernel]], axis=1).ravel()
    times = np.concatenate((np.zeros(1, np.int64), times))
    values = np.concatenate((np.array([lasting], np.int64), values))
    settled = np.append(times[1:] > times[:-1], True)
    times, values = times[settled], values[settled]
    changed = np.insert(values[1:] != values[:-1], 0, True)
    return times[changed], values[changed]
