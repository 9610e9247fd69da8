"""What searches know of a step before they begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_passes.families.box.clusters.adjacency import depths, fastest_times
from mcm_passes.families.box.clusters.slack_classes import by_slack, slacks
from mcm_passes.families.box.clusters.weight_clusters import divided, is_weight, weight_clusters
from mcm_passes.families.box.search.starts import device_speeds
from mcm_passes.families.box.search.units import Fallbacks, Units, fallbacks, units_of


@dataclass(frozen=True, eq=False)
class PreparedStep:
    """A step, its clusters, and how long its ops take and may wait.

    Attributes:
        problem: what is placed.
        box: where.
        duration: `[N]`, on the fastest device that may run an op.
        depth: `[N]`, the longest path to an op.
        slack: `[N]`, how much later it may begin.
        clusters: `[N]`, around weights.
        speeds: `[D]`, of devices, see `device_speeds`.
        ways: of ops that may not run everywhere.
    """

    problem: StepProblem
    box: Box
    duration: Floats
    depth: Floats
    slack: Floats
    clusters: Ints
    speeds: Floats
    ways: Fallbacks

    def whole_clusters(self) -> Units:
        """One unit per cluster."""
        return units_of(self.problem, self.clusters, self.clusters, self.duration)

    def pieces(self, parts: int) -> Units:
        """Clusters divided by slack, and by depth into so many parts at most."""
        longest = float((self.depth + self.duration).max(initial=0.0))
        classes = by_slack(self.clusters, self.problem.together, self.slack, longest)
        of_op = divided(classes, self.problem.together, self.depth, self.duration, parts)
        return units_of(self.problem, of_op, classes, self.duration)

    def first_uses(self) -> Floats:
        """`[clusters]`, when each cluster's weights have to be read first, at the latest.

        At the latest, because what an optimiser keeps of a weight may be read at once, and has the
        time until the end; what the loss waits for has not.
        """
        problem = self.problem
        reader = np.repeat(np.arange(problem.num_ops), np.diff(problem.read_begin))
        counts = is_weight(problem)[problem.reads] & (self.duration[reader] > 0.0)
        latest = self.depth + self.slack
        found = np.full(int(self.clusters.max()) + 1, float(latest.max(initial=0.0)))
        np.minimum.at(found, self.clusters[reader[counts]], latest[reader[counts]])
        return found


def prepared(problem: StepProblem, box: Box) -> PreparedStep:
    """Looks at a step; near linear in its size."""
    duration = fastest_times(problem, box)
    depth = depths(problem, duration)
    return PreparedStep(
        problem,
        box,
        duration,
        depth,
        slacks(problem, duration, depth),
        weight_clusters(problem),
        device_speeds(duration, problem.time_s, box.kind_of),
        fallbacks(problem, box),
    )


def groups_of_ops(problem: StepProblem, box: Box, parts: int) -> Ints:
    """`[N]`, the cluster of each op, or with parts its piece.

    Args:
        problem: what is placed.
        box: where.
        parts: as `PreparedStep.pieces`; 0 for whole clusters.
    """
    if not parts:
        return weight_clusters(problem)
    return prepared(problem, box).pieces(parts).of_op


def devices_of_units(units: Units, placement: Ints, duration: Floats, num_devices: int) -> Ints:
    """`[U]`, the device on which most of each unit's time is spent under a placement `[N]`."""
    sums = np.zeros((units.count, num_devices))
    np.add.at(sums, (units.of_op, placement), duration + 1e-12)
    return sums.argmax(axis=1).astype(np.int32)
