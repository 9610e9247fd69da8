"""Facts of a problem and terms of a mapping, of which formulas are made, and their ridge."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import lean_inner_njit
from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    EAST,
    NORTH,
    OP_KINDS,
    SOUTH,
    WEST,
    Fabric,
    MappingProblem,
    bound_cycles,
)
from mcm_passes.families.fabric.routing_trees import Routed, Tables


class Facts(NamedTuple):
    """Of a problem on a fabric, in cycles per sample where nothing else is said.

    Attributes:
        bound: no mapping has a shorter period.
        hop: from one switch to the next.
        serial: `[U]`, how long a unit takes for a sample if nothing keeps it waiting: firings and
            what of its bursts has no space before the port, or the flits at its busier port.
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


BOUND, LINK, CHANNEL, TRIP, QUEUED, BURST, BUFFER, WIRE = range(8)
"""Places in an array of terms, all in cycles per sample. The bound of the problem, the busiest
link, the busiest memory channel, and the slowest stream by its round trips in an empty mesh and in
a loaded one. The slowest unit with its bursts, the slowest buffer, and the mean load of links."""

NUM_TERMS = 8


class Scratch(NamedTuple):
    """Scratch arrays of `work_out`.

    Attributes:
        wait: `[4, switches]`, by direction, waiting from the begin of a row or column up to there.
        filled: `[U]`, cycles until a unit between stages has been given a sample.
        emptied: `[U]`, cycles until it has been read.
    """

    wait: Floats
    filled: Floats
    emptied: Floats


def scratch_for(tables: Tables) -> Scratch:
    """Arrays of the right sizes."""
    units = len(tables.streams.kind)
    return Scratch(
        np.zeros((4, tables.grid.rows * tables.grid.cols)), np.zeros(units), np.zeros(units)
    )


@lean_inner_njit
def resources(facts: Facts, state: Routed, terms: Floats) -> None:
    """The terms that loads alone decide: bound, busiest link and channel, mean load."""
    busiest, total = 0, 0
    first, second = state.load[0], state.load[1]
    for link in range(len(first)):
        load = first[link] + second[link]
        total += load
        busiest = max(busiest, load)
    channel = 0
    for k in range(len(state.channel_load)):
        channel = max(channel, state.channel_load[k])
    terms[BOUND] = facts.bound
    terms[LINK] = busiest
    terms[CHANNEL] = channel
    terms[WIRE] = total / len(first)


@lean_inner_njit
def work_out(
    tables: Tables, facts: Facts, state: Routed, queueing: float, scratch: Scratch, terms: Floats
) -> None:
    """All terms of a mapping.

    A stream sends a window per round trip of its credits to each destination, over hops and
    queues; a tree is as slow as its slowest leaf. A unit that makes more than its registers hold
    waits for its port, and beyond a window for credits. A buffer of d samples is filled again only
    when sample n - d has been read, so that filling, reading and the ways there share d periods.

    Args:
        tables: where sites lie, and streams.
        facts: see there.
        state: the mapping and its loads.
        queueing: cycles that a flit waits at a link of half its rate.
        scratch: space.
        terms: `[NUM_TERMS]`, filled here.
    """
    resources(facts, state, terms)
    trip, _, _ = _trips(tables, facts, state, 0.0, 1.0, scratch)
    terms[TRIP] = trip
    period = max(facts.bound, terms[LINK], terms[CHANNEL], trip)
    _waits(tables, state, queueing, period, scratch)
    queued, burst, buffer = _trips(tables, facts, state, queueing, period, scratch)
    terms[QUEUED], terms[BURST], terms[BUFFER] = queued, burst, buffer


@lean_inner_njit
def _waits(tables: Tables, state: Routed, queueing: float, period: float, scratch: Scratch) -> None:
    """Sums of waiting along rows and columns, so that a path costs two differences.

    A link whose load is the share r of the period keeps a flit waiting for `queueing r / (1 - r)`
    cycles, as a queue with one server does.
    """
    rows, cols = tables.grid.rows, tables.grid.cols
    wait, first, second = scratch.wait, state.load[0], state.load[1]
    full = 1.05 * period
    for at in range(rows * cols):
        for way in range(4):
            load = first[4 * at + way] + second[4 * at + way]
            wait[way, at] = queueing * load / (full - load)
    # Links to the east and south count where they begin, those to the west and north where they do.
    for row in range(rows):
        east, west = 0.0, 0.0
        for at in range(row * cols, (row + 1) * cols):
            step = wait[EAST, at]
            wait[EAST, at] = east
            east += step
            west += wait[WEST, at]
            wait[WEST, at] = west
    for col in range(cols):
        south, north = 0.0, 0.0
        for at in range(col, rows * cols, cols):
            step = wait[SOUTH, at]
            wait[SOUTH, at] = south
            south += step
            north += wait[NORTH, at]
            wait[NORTH, at] = north


@lean_inner_njit
def _trips(
    tables: Tables, facts: Facts, state: Routed, queueing: float, period: float, scratch: Scratch
) -> tuple[float, float, float]:
    """Slowest stream by round trips, slowest unit with bursts, slowest buffer."""
    grid, streams, wait = tables.grid, tables.streams, scratch.wait
    cols, hop = grid.cols, facts.hop
    full = 1.05 * period
    loaded = queueing > 0.0
    trip, burst, buffer = 0.0, 0.0, 0.0
    if loaded:
        scratch.filled[:] = 0.0
        scratch.emptied[:] = 0.0
    for stream in range(len(streams.source)):
        source = streams.source[stream]
        home = state.site[source]
        r0, c0 = int(grid.row[home]), int(grid.col[home])
        turn = state.turn[stream]
        for k in range(streams.leaf_ptr[stream], streams.leaf_ptr[stream + 1]):
            leaf = streams.leaf[k]
            place = state.site[leaf]
            r1, c1 = int(grid.row[place]), int(grid.col[place])
            way = hop * (abs(r1 - r0) + abs(c1 - c0) + 1)
            queue = 0.0
            if loaded:
                flits = streams.flits[stream]
                row, col = (r0, c1) if turn == 0 else (r1, c0)
                queue = _queue(wait, cols, r0, c0, r1, c1, row, col)
                others = facts.arriving[leaf] - flits
                queue += queueing * others / (full - others)
                others = facts.leaving[source] - flits
                queue += queueing * others / (full - others)
            back = 2.0 * way + queue
            trip = max(trip, facts.rounds[k] * (back + facts.extra[k]))
            if loaded:
                burst = max(burst, facts.serial[source] + facts.burst_rounds[k] * back)
                if facts.depth[leaf] > 0.0:
                    needs = facts.serial[source] + way + queue
                    scratch.filled[leaf] = max(scratch.filled[leaf], needs)
                if facts.depth[source] > 0.0:
                    needs = facts.serial[leaf] + way + queue
                    scratch.emptied[source] = max(scratch.emptied[source], needs)
    if loaded:
        for unit in range(len(scratch.filled)):
            if facts.depth[unit] > 0.0:
                both = scratch.filled[unit] + scratch.emptied[unit]
                buffer = max(buffer, both / facts.depth[unit])
    return trip, burst, buffer


@lean_inner_njit
def _queue(
    wait: Floats, cols: int, r0: int, c0: int, r1: int, c1: int, row: int, col: int
) -> float:
    """Cycles that a flit waits at links from one switch to another by way of a row and a column."""
    if c1 > c0:
        queue = wait[EAST, row * cols + c1] - wait[EAST, row * cols + c0]
    else:
        queue = wait[WEST, row * cols + c0] - wait[WEST, row * cols + c1]
    if r1 > r0:
        return queue + wait[SOUTH, r1 * cols + col] - wait[SOUTH, r0 * cols + col]
    return queue + wait[NORTH, r0 * cols + col] - wait[NORTH, r1 * cols + col]


NUM_FEATURES = NUM_TERMS
"""The logarithm of each term over the slowest one, dimensionless."""

LEAST = 0.02
"""Terms below this share of the slowest are taken for so much."""

FARTHEST = 3.0
"""Deviations from the mean at which a feature is cut off: beyond, a line is no knowledge."""


@lean_inner_njit
def slowest(terms: Floats) -> float:
    """The period by round trips: the slowest of all terms, each a bound by itself."""
    loads = max(terms[BOUND], terms[LINK], terms[CHANNEL])
    return max(loads, terms[QUEUED], terms[BURST], terms[BUFFER])


@lean_inner_njit
def feature(terms: Floats, k: int, most: float) -> float:
    """The k-th feature, given the slowest term."""
    return math.log(max(terms[k] / most, LEAST))


@lean_inner_njit
def ridge_factor(terms: Floats, centre: Floats, spread: Floats, weights: Floats) -> float:
    """By which the slowest term has to be multiplied.

    Args:
        terms: `[NUM_TERMS]`.
        centre: `[F]`, means of features where it was fitted.
        spread: `[F]`, their deviations.
        weights: `[1 + F]`, of 1 and of features.
    """
    most = slowest(terms)
    total = weights[0]
    for k in range(len(centre)):
        away = (feature(terms, k, most) - centre[k]) / spread[k]
        total += weights[1 + k] * min(max(away, -FARTHEST), FARTHEST)
    return math.exp(min(max(total, -1.0), 1.0))
