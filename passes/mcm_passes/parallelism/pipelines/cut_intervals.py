"""Lower bounds for stages whose cuts are only known to lie in intervals.

An interval is a run of neighbouring cuts. A stage from an interval to a later one takes at least
the work between the last cut of the first and the first cut of the second. Sums over the ops never
fall along the chain, so that no choice of cuts inside the intervals takes less. What crosses a cut
is at least the least of its interval. Intervals of one cut give the numbers of `kernels` exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import expanded_njit, inner_njit
from mcm_models.pipelines.problem import Floats, PipelineTables

Ints = NDArray[np.int64]


class CutIntervals(NamedTuple):
    """P intervals in order; the first holds the beginning alone, the last the end.

    Attributes:
        low: `[P]`, first cut of each.
        high: `[P]`, last cut of each.
        cut: `[P]`, the least bytes that cross one of its cuts.
        cheapest: `[P]`, that cut.
        sums_low: `[5, P]`, prefix sums at the first cut: seconds forward and backward, bytes of
            gradients, of weights with their state, and of activations that are kept.
        sums_high: `[5, P]`, the same at the last cut.
    """

    low: Ints
    high: Ints
    cut: Floats
    cheapest: Ints
    sums_low: Floats
    sums_high: Floats


class StageBound(NamedTuple):
    """At least what any stage between two intervals takes.

    Attributes:
        fits: whether one may fit into memory; where not, none to a later interval fits, either.
        valid: whether one may have weights.
        forward: seconds of a micro-batch.
        backward: seconds of a micro-batch.
        reduction: seconds of the reduction of gradients.
    """

    fits: bool
    valid: bool
    forward: float
    backward: float
    reduction: float


def cut_intervals(t: PipelineTables, low: Ints, high: Ints, allowed: Ints) -> CutIntervals:
    """Intervals of allowed cuts.

    Args:
        t: the tables of the problem.
        low: `[P]`, indices into `allowed` of the first cut of each.
        high: `[P]`, of the last.
        allowed: cuts in order, with the beginning and the end.
    """
    sums = np.stack([t.forward, t.backward, t.weights, t.state, t.kept])
    cheapest = np.array(
        [
            allowed[a + int(np.argmin(t.cut[allowed[a : b + 1]]))]
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ],
        np.int64,
    )
    first, last = allowed[low], allowed[high]
    return CutIntervals(first, last, t.cut[cheapest], cheapest, sums[:, first], sums[:, last])


@inner_njit
def stage_bound(
    t: PipelineTables, g: CutIntervals, i: int, j: int, a: int, b: int, stages_left: int
) -> StageBound:
    """The bound for a stage from a cut of interval i to one of interval j on devices a to b - 1."""
    in_flight = t.micro_batches if t.gpipe > 0.0 else min(float(stages_left), t.micro_batches)
    if t.both_ways == 0.0:
        in_flight = 1.0
    kept = max(g.sums_low[4, j] - g.sums_high[4, i], 0.0)
    activations = in_flight * g.cut[i] + kept if t.recompute > 0.0 else in_flight * kept
    held = max(g.sums_low[3, j] - g.sums_high[3, i], 0.0) + activations * t.share[a, b]
    weights = max(g.sums_low[2, j] - g.sums_high[2, i], 0.0)
    return StageBound(
        held <= t.memory,
        g.high[j] > g.low[i] and g.sums_high[2, j] - g.sums_low[2, i] > 0.0,
        max(g.sums_low[0, j] - g.sums_high[0, i], 0.0) / t.speed[a, b],
        max(g.sums_low[1, j] - g.sums_high[1, i], 0.0) / t.speed[a, b],
        weights * t.reduce[a, b] + t.reduce_start[a, b],
    )


@expanded_njit
def transfer_bound(t: PipelineTables, g: CutIntervals, j: int, a: int, b: int, c: int) -> float:
    """At least the seconds over a cut of interval j, from devices a to b - 1 to b to c - 1."""
    if t.servers[a, c] == 1.0:
        return g.cut[j] * t.network.intra / min(b - a, c - b) + t.network.intra_latency
    return (
        g.cut[j] * t.network.inter * max(t.busiest[a, b], t.busiest[b, c]) + t.network.inter_latency
    )
