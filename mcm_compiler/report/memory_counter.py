"""How much SRAM of a chip is taken over time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.program import ChipProgram
from mcm_compiler.report.timeline_tracks import Track

Longs = npt.NDArray[np.int64]

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
