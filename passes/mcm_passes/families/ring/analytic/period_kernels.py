"""The fast model of a partition as one compiled call: its period, or infinity.

For searches, which ask millions of times and want no explanations. `fast_model.evaluate` and
`mcm_compiler.placements.ring_rules` are the authorities; property tests hold them together with
this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_passes.families.ring.analytic.fast_kernels import measure
from mcm_passes.families.ring.loads.chip_memory import streamed_weights
from mcm_passes.families.ring.loads.ring_kernels import HELD, Loads
from mcm_passes.families.ring.loads.ring_seconds import load_of_chip, load_of_root
from mcm_passes.mapping.loads.problem_arrays import ProblemArrays


class RuleArrays(NamedTuple):
    """What the rules and the package add to `ProblemArrays`.

    Attributes:
        edge_source: `[E]`, dependencies between units, those of clonable producers left out.
        edge_target: `[E]`.
        pinned_chip: `[N]`, or -1.
        sram_bytes: `[C]`.
        rate: `[5, C]`, see `chip_rates`.
        root_rate: `[3]`, see `root_rates`.
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
    rate: Floats
    root_rate: Floats
    streams: bool
    strict: bool
    alignment: int
    packing: float
    stream_slots: int


@inner_njit
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
    period, all_streamed = 0.0, np.zeros(num_chips, np.int64)
    for c in range(num_chips):
        live = int(np.ceil(peak[c] * r.packing))
        memory = weights[c] + totals[HELD, c] + -(-live // r.alignment) * r.alignment
        streamed = streamed_weights(
            memory, weights[c], largest[c], r.sram_bytes[c], r.streams, r.stream_slots
        )
        if streamed < 0:
            return np.inf
        all_streamed[c] = streamed
        for k in range(5):
            loads[k, c] = load_of_chip(r.rate, Loads(busy, totals), k, c, streamed)
            period = max(period, loads[k, c])
    for k in range(3):
        period = max(period, load_of_root(r.root_rate, totals, k, all_streamed))
    return period


@entry_njit
def periods_between(
    p: ProblemArrays, r: RuleArrays, partitions: Ints, begin: int, end: int, periods: Floats
) -> None:
    """Fills `periods[begin:end]` for those rows of `partitions[B, N]`."""
    loads = np.empty((5, p.num_chips))
    for row in range(begin, end):
        periods[row] = loads_of(p, r, partitions[row], loads)
