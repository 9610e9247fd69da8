"""What formulas know of a problem whatever lies where: work, ports, windows, bursts and buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    OP_KINDS,
    Fabric,
    MappingProblem,
    bound_cycles,
)


class Facts(NamedTuple):
    """Of a problem on a fabric, in cycles per sample where nothing else is said.

    Attributes:
        bound: no mapping has a shorter period.
        hop: from one switch to the next.
        serial: `[U]`, how long a unit takes for a sample if nothing keeps it waiting: firings and
            what of its bursts has no room before the port, or the flits at its busier port.
        arriving: `[U]`, flits that come in per sample.
        leaving: `[U]`, flits that its port sends per sample.
        rounds: `[L]`, round trips of credits that a destination waits for one after another.
        extra: `[L]`, cycles that each takes besides the way there and back.
        burst_rounds: `[L]`, round trips that the source waits for within its bursts.
        depth: `[U]`, samples that a unit between stages holds.
    """

    bound: float
    hop: float
    serial: Floats
    arriving: Floats
    leaving: Floats
    rounds: Floats
    extra: Floats
    burst_rounds: Floats
    depth: Floats


def facts_of(problem: MappingProblem, fabric: Fabric) -> Facts:
    """Works them out; see `terms` for what they are there for."""
    arriving, leaving = problem.port_flits
    stall, burst_rounds = _bursts(problem, fabric)
    streams = problem.stream_of_leaf
    rounds, extra = _rounds(problem, fabric, streams)
    work = (problem.firings * problem.cycles).astype(np.float64)
    return Facts(
        bound_cycles(problem, fabric),
        float(fabric.hop_cycles),
        np.maximum(np.maximum(work + stall, arriving), leaving).astype(np.float64),
        arriving.astype(np.float64),
        leaving.astype(np.float64),
        rounds,
        extra,
        burst_rounds[streams],
        problem.depth.astype(np.float64),
    )


def _rounds(problem: MappingProblem, fabric: Fabric, streams: Longs) -> tuple[Floats, Floats]:
    """Of each destination, how many round trips follow each other per sample.

    A window of W flits is sent per round trip, so that f flits take `f / W` of them. A compute unit
    reads n flits at once: its firing k needs flits whose credits come back after firing
    `k - floor(W / n)`, and the last `n (floor(W / n) + 1) - W` of them follow each other then.
    """
    window = fabric.window_flits
    flits = problem.flits[streams]
    firings = np.maximum(problem.firings[problem.leaf], 1)
    each = np.minimum(np.ceil(flits / firings), window)
    at_once = (problem.kind[problem.leaf] == COMPUTE) & (each > 1)
    ahead = np.floor(window / each)
    rounds = np.where(at_once, firings / ahead, flits / window)
    extra = np.where(at_once, each * (ahead + 1) - window - 1, 0)
    return rounds.astype(np.float64), extra.astype(np.float64)


def _bursts(problem: MappingProblem, fabric: Fabric) -> tuple[Floats, Floats]:
    """Of each unit cycles that it stands still, and of each stream round trips within bursts.

    What a burst makes beyond the output register of its stream leaves at a flit per cycle while
    the unit stands still; beyond a window, a window per round trip.
    """
    stall = np.zeros(problem.num_units)
    rounds = np.zeros(problem.num_streams)
    compute = problem.kind[problem.source] == COMPUTE
    for stream in np.flatnonzero(compute):
        unit = problem.source[stream]
        firings, burst = int(problem.firings[unit]), int(problem.burst[unit])
        flits = int(problem.flits[stream])
        ends = np.append(np.arange(burst, firings, burst), firings)
        made = np.diff(ends * flits // firings, prepend=0)
        stall[unit] += np.maximum(made - fabric.output_flits, 0).sum()
        beyond = np.maximum(made - fabric.window_flits, 0).sum()
        rounds[stream] = beyond / fabric.window_flits
    return stall, rounds


ISOLATED_RULES = {
    "product": 1.10,
    "attention": 1.15,
    "elementwise": 1.02,
    "reduction": 1.10,
    "normalization": 1.25,
    "softmax": 1.25,
    "window": 1.10,
    "movement": 1.02,
}
"""By how much an op is slower alone than its firings say: products fill and drain their pipeline,
what reduces waits for its last operand, and what goes over its data twice does so twice. Rules of
thumb, as compilers have them; other ops are as fast as their ports."""


def isolated_cycles(problem: MappingProblem) -> Floats:
    """`[U]`, time per sample of each unit if it were alone, by rule of its op."""
    arriving, leaving = problem.port_flits
    slower = np.array([ISOLATED_RULES.get(name, 1.0) for name in OP_KINDS])
    work = problem.firings * problem.cycles * slower[problem.op]
    return np.maximum(np.maximum(work, arriving), leaving).astype(np.float64)
