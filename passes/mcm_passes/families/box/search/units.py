"""Units of many ops that search moves, and the placements that devices of units stand for.

A network of layers keeps all its devices busy if neighbouring layers lie on neighbouring devices.
Where it is a sequence of several stacks, such as an encoder and a decoder, each stack wants all
devices for itself. How many stacks there are is tried (our derivation).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.box.clusters.weight_clusters import (
    SMALL_BYTES,
    Adjacency,
    edge_bytes,
    fastest_times,
    quotient,
    spread_along,
    sums_of,
)


@dataclass(frozen=True, eq=False)
class Fallbacks:
    """Where ops go that may not run on the device which was chosen for them.

    Attributes:
        allowed: `[N, D]`.
        instead: `[N]`, of the devices that an op may have the one that is fastest for all ops that
            it runs together with; of equals the first.
        restricted: ops that may not run everywhere, ascending.
    """

    allowed: Bools
    instead: Ints
    restricted: Longs

    def placement(self, wanted: Ints) -> Ints:
        """`[N]` for the wanted devices `[N]`, equal for ops that run together."""
        return self.placements(wanted[None])[0]

    def placements(self, wanted: Ints) -> Ints:
        """`[K, N]`, the same for K rows of devices."""
        places = wanted.astype(np.int32)
        some = self.restricted
        rows, at = np.nonzero(~self.allowed[some, places[:, some]])
        places[rows, some[at]] = self.instead[some[at]]
        return places


def fallbacks(problem: StepProblem, box: Box) -> Fallbacks:
    """The fallbacks of a problem."""
    times = problem.device_times(box)
    sums = np.zeros((problem.num_groups, box.num_devices))
    np.add.at(sums, problem.together, times)
    instead = sums.argmin(axis=1).astype(np.int32)[problem.together]
    return Fallbacks(problem.allowed, instead, np.flatnonzero(~problem.allowed.all(axis=1)))


@dataclass(frozen=True, eq=False)
class Units:
    """U sets of ops, and what moves have to know of them.

    Attributes:
        of_op: `[N]`, unit of each op; of ops that run together the same.
        cluster: `[U]`, the cluster that a unit is a part of; parts of one follow each other.
        neighbours: units that exchange values; weights are bytes.
        work: `[U]`, time of the ops on the fastest devices.
        movable: units that may have more than one device, ascending.
        may: `[U, D]`, whether most of the unit's time may be spent on a device.
    """

    of_op: Ints
    cluster: Ints
    neighbours: Adjacency
    work: Floats
    movable: Longs
    may: Bools

    @property
    def count(self) -> int:
        """U."""
        return len(self.cluster)


def units_of(problem: StepProblem, of_op: Ints, cluster: Ints, duration: Floats) -> Units:
    """Units of labels.

    Args:
        problem: what is placed.
        of_op: `[N]`, numbers from 0 without gaps.
        cluster: `[N]`, cluster of each op.
        duration: `[N]`, time of each op on the fastest device.
    """
    count = int(of_op.max()) + 1
    neighbours = quotient(problem.edges, edge_bytes(problem), of_op, count)
    work = sums_of(of_op, duration, count)
    heavy = duration + 1e-12
    able = np.zeros((count, problem.allowed.shape[1]))
    np.add.at(able, of_op, heavy[:, None] * problem.allowed)
    may = able > 0.5 * np.bincount(of_op, heavy, count)[:, None]
    of_cluster = np.zeros(count, np.int32)
    of_cluster[of_op] = cluster
    return Units(of_op, of_cluster, neighbours, work, np.flatnonzero(may.sum(axis=1) > 1), may)


MOST_STACKS = 3


def device_speeds(work: Floats, times: Floats, kind_of: Ints) -> Floats:
    """`[D]`, how fast devices are at a whole step, as a share of the fastest.

    Args:
        work: `[N]`, time on the fastest device.
        times: `[N, K]`, infinite where a kind cannot run an op.
        kind_of: `[D]`.
    """
    known = np.where(np.isfinite(times), times, 10.0 * work[:, None] + 1e-6)
    sums = np.maximum(known.sum(axis=0), 1e-30)  # all are as fast where nothing takes time
    return (sums.min() / sums)[kind_of]


def fast_devices(speeds: Floats) -> Ints:
    """Devices that are at least half as fast as the fastest, ascending."""
    return np.flatnonzero(speeds >= 0.5 * speeds.max()).astype(np.int32)


def striped_starts(units: Units, depth: Floats, speeds: Floats) -> Iterator[Ints]:
    """Devices `[U]` of starts: all on one device, and stripes over all fast ones.

    Args:
        units: clusters; one unit each.
        depth: `[U]`, where each begins.
        speeds: `[D]`, see `device_speeds`.
    """
    fast = fast_devices(speeds)
    yield np.full(units.count, fast[0], np.int32)
    if len(fast) < 2:
        return
    order = np.argsort(depth, kind="stable")
    sums = np.cumsum(units.work[order])
    middle = (sums - units.work[order] / 2) / max(float(sums[-1]), 1e-30)
    by_count = (np.arange(units.count) + 0.5) / units.count
    for share in (middle, by_count):
        for stacks in range(1, MOST_STACKS + 1):
            stripe = np.minimum(
                (share * stacks * len(fast)).astype(np.int64), stacks * len(fast) - 1
            )
            there_and_back = stripe % (2 * len(fast))
            back = there_and_back >= len(fast)
            there_and_back[back] = 2 * len(fast) - 1 - there_and_back[back]
            for chosen in (stripe % len(fast), there_and_back)[:stacks]:
                devices = np.empty(units.count, np.int32)
                devices[order] = fast[chosen]
                yield devices


STACKS = (1, 2)
"""How often layers go round the devices. An encoder and a decoder each use all of them; names do
not say how many stacks there are."""


def layered_placements(problem: StepProblem, box: Box) -> Ints:
    """`[stacks, N]`, the layers over the fast devices, once for each count of `STACKS`.

    Raises:
        CompileError: MCM-D050 where no op has a layer.
    """
    layer = layers_of_all(problem)
    speeds = device_speeds(fastest_times(problem, box), problem.time_s, box.kind_of)
    fast = fast_devices(speeds)
    count, ways = int(layer.max()) + 1, fallbacks(problem, box)
    found: list[Ints] = []
    for stacks in STACKS:
        turn = layer.astype(np.int64) * (stacks * len(fast)) // count
        found.append(ways.placement(fast[turn % len(fast)]))
    return np.stack(found)


def has_layers(problem: StepProblem) -> bool:
    """Return whether the name of any op names a layer."""
    return bool((problem.layer >= 0).any())


def layers_of_all(problem: StepProblem) -> Ints:
    """`[N]`, layer of each op, those without one by the nearest op that has one.

    Raises:
        CompileError: MCM-D050 where no op has a layer.
    """
    known = np.flatnonzero(problem.layer >= 0)
    if not has_layers(problem):
        raise CompileError.of(
            "MCM-D050", "no op's name shows the layer of the op", at="placer expert"
        )
    count = problem.num_ops
    graph = quotient(problem.edges, edge_bytes(problem), np.arange(count), count)
    nearest = spread_along(graph, known, SMALL_BYTES)
    layer = np.where(nearest >= 0, problem.layer[known[nearest]], 0)
    return layer[problem.leader[problem.together]].astype(np.int32)
