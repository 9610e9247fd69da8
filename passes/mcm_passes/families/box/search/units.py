"""What search moves: units of many ops, and the placements that devices of units stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_passes.families.box.clusters.adjacency import Adjacency, edge_bytes, quotient, sums_of


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
        place = wanted.astype(np.int32)
        some = self.restricted
        barred = some[~self.allowed[some, place[some]]]
        place[barred] = self.instead[barred]
        return place


def fallbacks(problem: StepProblem, box: Box) -> Fallbacks:
    """The fallbacks of a problem."""
    times = np.where(problem.allowed, problem.time_s[:, box.kind_of], np.inf)
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
