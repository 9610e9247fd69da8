"""The fast model's verdict on a partition as one compiled call: its period, or infinity.

For searches, which ask millions of times and want no explanations. `fast_model.evaluate` and
`mcm_compiler.ring_rules` are the authorities; property tests hold them together with this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs
from mcm_passes.mapping.loads.ring_kernels import HELD, HOST_IN, HOST_OUT, LINK
from mcm_passes.partitioning.fast_kernels import ProblemArrays, measure

_WORD = 64
"""Chips per word of a bitset."""


class RuleArrays(NamedTuple):
    """What the rules and the package add to `ProblemArrays`.

    Attributes:
        edge_source: `[E]`, dependencies between units, those of clonable producers left out.
        edge_target: `[E]`.
        pinned_chip: `[N]`, or -1.
        sram_bytes: `[C]`.
        speed: `[C]`.
        link_bytes_per_s: of each link.
        host_bytes_per_s: of each host channel.
        stream_bytes_per_s: infinite where nothing can be streamed.
        streams: whether weights that do not fit may be streamed.
        strict: whether the triangle rule holds.
        alignment: bytes to which sizes are rounded up.
        packing: room for gaps over the peak of live bytes.
        stream_slots: buffers that streamed weights pass through.
    """

    edge_source: Ints
    edge_target: Ints
    pinned_chip: Ints
    sram_bytes: Longs
    speed: Floats
    link_bytes_per_s: float
    host_bytes_per_s: float
    stream_bytes_per_s: float
    streams: bool
    strict: bool
    alignment: int
    packing: float
    stream_slots: int


@njit(cache=True, nogil=True)
def loads_of(p: ProblemArrays, r: RuleArrays, chip_of: Ints, loads: Floats) -> float:
    """The period of a partition; infinite where it breaks a rule or overflows a chip.

    Args:
        p: the problem.
        r: the rules.
        chip_of: `[N]`; entries of clonable units are not looked at.
        loads: `[5, C]`, filled with the busy seconds of chips, links, host channels in and out,
            and streams; left as it is where the period is infinite.
    """
    num_chips = p.num_chips
    used = np.zeros(num_chips, np.bool_)
    for u in range(chip_of.size):
        if p.clone_row[u] >= 0:
            continue
        c = chip_of[u]
        if c < 0 or c >= num_chips or (r.pinned_chip[u] >= 0 and r.pinned_chip[u] != c):
            return np.inf
        used[c] = True
    for e in range(r.edge_source.size):
        if chip_of[r.edge_source[e]] > chip_of[r.edge_target[e]]:
            return np.inf
    copies, busy, totals, weights, peak, largest = measure(p, chip_of)
    for u in range(chip_of.size):
        row = p.clone_row[u]
        if row < 0:
            continue
        first = 0
        for c in range(num_chips):
            if copies[row, c]:
                first = c
                break
        if r.pinned_chip[u] >= 0 and r.pinned_chip[u] != first:
            return np.inf
        used[first] = True
    highest = 0
    for c in range(num_chips):
        if used[c]:
            highest = c
    for c in range(highest):
        if not used[c]:
            return np.inf
    if r.strict and _has_triangle(r, chip_of, highest + 1):
        return np.inf
    period = 0.0
    for c in range(num_chips):
        live = int(np.ceil(peak[c] * r.packing))
        memory = weights[c] + totals[HELD, c] + -(-live // r.alignment) * r.alignment
        streamed = 0
        over = memory - r.sram_bytes[c]
        if r.streams and over > 0:
            streamed = min(over + r.stream_slots * largest[c], weights[c])
            memory += r.stream_slots * largest[c] - streamed
        if memory > r.sram_bytes[c]:
            return np.inf
        loads[0, c] = busy[c] / r.speed[c]
        loads[1, c] = totals[LINK, c] / r.link_bytes_per_s if c < num_chips - 1 else 0.0
        loads[2, c] = totals[HOST_IN, c] / r.host_bytes_per_s
        loads[3, c] = totals[HOST_OUT, c] / r.host_bytes_per_s
        loads[4, c] = streamed / r.stream_bytes_per_s
        for k in range(5):
            period = max(period, loads[k, c])
    return period


@njit(cache=True, nogil=True)
def _has_triangle(r: RuleArrays, chip_of: Ints, num_chips: int) -> bool:
    """Whether some direct dependency between chips has a longer path beside it (MCM, Eq. 4).

    Edges go to higher chips only, so one sweep from the last chip down closes reachability.
    """
    words = (num_chips + _WORD - 1) // _WORD
    one = np.uint64(1)
    direct = np.zeros((num_chips, words), np.uint64)
    for e in range(r.edge_source.size):
        a, b = chip_of[r.edge_source[e]], chip_of[r.edge_target[e]]
        if a != b:
            direct[a, b // _WORD] |= one << np.uint64(b % _WORD)
    reach = np.zeros((num_chips, words), np.uint64)
    for c in range(num_chips - 1, -1, -1):
        for after in range(c + 1, num_chips):
            if direct[c, after // _WORD] >> np.uint64(after % _WORD) & one:
                for word in range(words):
                    reach[c, word] |= reach[after, word]
        for word in range(words):
            if reach[c, word] & direct[c, word]:
                return True
            reach[c, word] |= direct[c, word]
    return False


@njit(cache=True, nogil=True)
def periods_between(
    p: ProblemArrays, r: RuleArrays, partitions: Ints, begin: int, end: int, periods: Floats
) -> None:
    """Fills `periods[begin:end]` for those rows of `partitions[B, N]`."""
    loads = np.empty((5, p.num_chips))
    for row in range(begin, end):
        periods[row] = loads_of(p, r, partitions[row], loads)
