"""The fast model of a partition as one compiled call: its period, or infinity.

For searches, which ask millions of times and want no explanations. `fast_model.evaluate` and
`mcm_compiler.placements.ring_rules` are the authorities; property tests hold them together with
this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_passes.families.ring.analytic.fast_kernels import measure
from mcm_passes.families.ring.loads.chip_memory import streamed_weights
from mcm_passes.families.ring.loads.ring_kernels import HELD, HOST_IN, HOST_OUT, LINK
from mcm_passes.mapping.loads.problem_arrays import ProblemArrays


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
        host_root_bytes_per_s: of what all host channels share, each way; infinite where nothing is.
        stream_root_bytes_per_s: likewise of all streams.
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
    host_root_bytes_per_s: float
    stream_root_bytes_per_s: float
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
            and streams, not of what chips share; left as it is where the period is infinite.
    """
    num_chips = p.num_chips
    if breaks_rule(
        p.clone_row, r.pinned_chip, r.edge_source, r.edge_target, chip_of, num_chips, r.strict
    ):
        return np.inf
    copies, busy, totals, weights, peak, largest = measure(p, chip_of)
    for u in range(chip_of.size if p.num_clonable else 0):
        row = p.clone_row[u]
        if row >= 0 and r.pinned_chip[u] >= 0 and r.pinned_chip[u] != np.argmax(copies[row]):
            return np.inf
    period = 0.0
    all_in, all_out, all_streamed = 0, 0, 0
    for c in range(num_chips):
        live = int(np.ceil(peak[c] * r.packing))
        memory = weights[c] + totals[HELD, c] + -(-live // r.alignment) * r.alignment
        streamed = streamed_weights(
            memory, weights[c], largest[c], r.sram_bytes[c], r.streams, r.stream_slots
        )
        if streamed < 0:
            return np.inf
        loads[0, c] = busy[c] / r.speed[c]
        loads[1, c] = totals[LINK, c] / r.link_bytes_per_s if c < num_chips - 1 else 0.0
        loads[2, c] = totals[HOST_IN, c] / r.host_bytes_per_s
        loads[3, c] = totals[HOST_OUT, c] / r.host_bytes_per_s
        loads[4, c] = streamed / r.stream_bytes_per_s
        for k in range(5):
            period = max(period, loads[k, c])
        all_in += totals[HOST_IN, c]
        all_out += totals[HOST_OUT, c]
        all_streamed += streamed
    period = max(period, max(all_in, all_out) / r.host_root_bytes_per_s)
    return max(period, all_streamed / r.stream_root_bytes_per_s)


@njit(cache=True, nogil=True)
def periods_between(
    p: ProblemArrays, r: RuleArrays, partitions: Ints, begin: int, end: int, periods: Floats
) -> None:
    """Fills `periods[begin:end]` for those rows of `partitions[B, N]`."""
    loads = np.empty((5, p.num_chips))
    for row in range(begin, end):
        periods[row] = loads_of(p, r, partitions[row], loads)
