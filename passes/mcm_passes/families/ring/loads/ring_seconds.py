"""From what is loaded on a ring to the seconds that it takes, as compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit
from mcm_compiler.contracts.partition import Floats, Longs, PartitionProblem
from mcm_passes.families.ring.loads.ring_kernels import HOST_IN, HOST_OUT, LINK, Loads

STREAM = 4
"""The last row of `chip_rates`."""


def chip_rates(problem: PartitionProblem, block_bytes: int = 1) -> Floats:
    """`[5, C]`, what a second of a chip, its link, its host channels and its stream does.

    Work at normal speed, or bytes; the last in blocks. Infinite where nothing can be streamed. On a
    machine that is no ring, whose channels are apart, it is the row of chips alone.
    """
    limits = problem.limits
    if not problem.on_ring:
        return problem.chip_speed[None]
    rates = (
        problem.chip_speed,
        limits.link_bytes_per_s,
        limits.host_bytes_per_s,
        limits.host_bytes_per_s,
        (limits.stream_bytes_per_s or np.inf) / block_bytes,
    )
    return np.stack([np.broadcast_to(rate, problem.num_chips) for rate in rates])


def root_rates(problem: PartitionProblem, block_bytes: int = 1) -> Floats:
    """`[3]`, what a second of a channel does that all chips share.

    Bytes from the host, bytes to it, blocks of weights that are streamed; infinite where none is
    shared, or the machine has channels of its own for that.
    """
    if not problem.on_ring:
        return np.full(3, np.inf)
    root = problem.limits.host_root_bytes_per_s
    return np.array([root, root, problem.limits.stream_root_bytes_per_s / block_bytes])


class Ring(NamedTuple):
    """The package and the rules, as compiled code takes them.

    Attributes:
        rate: `[5, C]`, see `chip_rates`.
        root_rate: `[3]`, see `root_rates`.
        shared: whether one of these is finite.
        room: `[C]`, blocks of memory.
        strict: whether the triangle rule holds.
        streams: whether weights that do not fit may be streamed.
        packing: bytes for gaps, as a share of the peak of live bytes.
        alignment: blocks to which sizes are rounded up.
        stream_slots: buffers that streamed weights pass through.
        last_chip: as in `PackageLimits`.
        at_ends: likewise.
        skips: whether a chip below the highest used one may be empty.
    """

    rate: Floats
    root_rate: Floats
    shared: bool
    room: Longs
    strict: bool
    streams: bool
    packing: float
    alignment: int
    stream_slots: int
    last_chip: int
    at_ends: bool
    skips: bool


def ring_of(problem: PartitionProblem, block_bytes: int = 1) -> Ring:
    """The package of a problem, with memory in blocks of `block_bytes`."""
    limits, root_rate = problem.limits, root_rates(problem, block_bytes)
    return Ring(
        rate=chip_rates(problem, block_bytes),
        root_rate=root_rate,
        shared=bool(np.isfinite(root_rate).any()),
        room=np.array(limits.sram_bytes, np.int64) // block_bytes,
        strict=problem.routing == "strict" and problem.on_ring,
        streams=problem.streams,
        packing=limits.activation_packing,
        alignment=limits.buffer_alignment_bytes // block_bytes,
        stream_slots=limits.stream_buffers,
        last_chip=limits.last_chip,
        at_ends=limits.at_ends and problem.on_ring,
        skips=not problem.on_ring,
    )


@inlined_njit
def load_of_chip(rates: Floats, loads: Loads, k: int, c: int, streamed: int) -> float:
    """Seconds that a resource of a chip is busy, by its row of `chip_rates`.

    Args:
        rates: those.
        loads: of all chips.
        k: the row.
        c: the chip.
        streamed: blocks of weights that it streams.
    """
    if k == 0:
        return loads.busy_s[c] / rates[0, c]
    if k == STREAM:
        return streamed / rates[STREAM, c]
    row = LINK if k == 1 else HOST_IN if k == 2 else HOST_OUT
    return loads.totals[row, c] / rates[k, c]


@inlined_njit
def load_of_root(rates: Floats, totals: Longs, k: int, streamed: Longs) -> float:
    """Seconds that a channel is busy which all chips share, by its place in `root_rates`.

    Args:
        rates: those.
        totals: as in `Loads`.
        k: the place.
        streamed: `[C]`, blocks of weights that each chip streams.
    """
    amount = 0
    for c in range(streamed.size):
        if k == 0:
            amount += totals[HOST_IN, c]
        elif k == 1:
            amount += totals[HOST_OUT, c]
        else:
            amount += streamed[c]
    return amount / rates[k]
