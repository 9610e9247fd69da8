"""Coarse steps: the ops of a step drawn together into groups, so that a simulation takes less.

An op has a *part*, ops of which have the same device in every placement, and a *bucket*, the
stretch of the longest path that it begins in. Its *level* is how often the part changes, at most,
on a way to it within its bucket. A group is what has all three in common. Along an edge the bucket
never falls, within a bucket the level never does, and where neither rises the part stays. Edges
between groups thus all go up, and there is no cycle (our derivation).

What a group makes is there when all of it has ended. Those waits are false, and the finer the
buckets, the shorter they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.dags import topological
from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import VARIABLE, Box, StepProblem
from mcm_passes.families.box.clusters.weight_clusters import (
    by_slack,
    divided,
    fastest_times,
    heads_and_tails,
    in_order,
    is_weight,
    sums_of,
    weight_clusters,
)
from mcm_passes.families.box.search.units import (
    Fallbacks,
    Units,
    device_speeds,
    fallbacks,
    units_of,
)


@dataclass(frozen=True, eq=False)
class CoarseStep:
    """G groups of N ops.

    Attributes:
        problem: of groups; those of one part run together. A group has the name and the type of
            its first op.
        group_of: `[N]`, the group of each op.
        first: `[G]`, the first op of each group.
    """

    problem: StepProblem
    group_of: Ints
    first: Longs

    def placement(self, device_of: Ints) -> Ints:
        """`[G]`, devices of groups under a placement `[N]` in which no part is divided."""
        return device_of[self.first]

    def ways(self, ways: Fallbacks) -> Fallbacks:
        """Fallbacks of `ways`, of groups."""
        allowed = self.problem.allowed
        barred = np.flatnonzero(~allowed.all(axis=1))
        return Fallbacks(allowed, ways.instead[self.first], barred)


def coarse_step(
    problem: StepProblem, box: Box, piece: Ints, depth: Floats, instead: Ints, buckets: int
) -> CoarseStep:
    """Draws ops together; near linear in the size of the step.

    Seconds of ops are summed for each kind. Values of a group that the same parts read are one,
    and what only the group itself reads is none: the memory that results is about right.

    Args:
        problem: what is placed.
        box: where.
        piece: `[N]`, ops that get devices together; the same for ops that run together.
        depth: `[N]`, falls along no edge, such as the longest path to each op.
        instead: `[N]`, see `Fallbacks`: where ops go that may not run where their piece does.
        buckets: into which the depth is divided, at least 1.
    """
    part = _parts(problem, piece, instead)
    deepest = float(depth.max(initial=0.0)) or 1.0
    bucket = np.minimum((depth / deepest * buckets).astype(np.int32), buckets - 1)
    level = _levels(problem.read_begin, problem.reads, problem.producer, part, bucket)
    group = in_order(_numbered(part, bucket, level))
    return _drawn_together(problem, box, part, _places(problem, group)[group])


def _numbered(*keys: Ints) -> Ints:
    """`[n]`, numbers without gaps: equal where all keys are, which are `[n]` and from 0."""
    found = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        found = found * (int(key.max(initial=0)) + 1) + key
        found = np.unique(found, return_inverse=True)[1].astype(np.int64)
    return found.astype(np.int32)


def _parts(problem: StepProblem, piece: Ints, instead: Ints) -> Ints:
    """`[N]`, pieces divided so that all of a part is on one device, wherever its piece is put.

    Variables are apart from what computes: their values are in memory from the beginning.
    """
    barred = np.flatnonzero(~problem.allowed.all(axis=1))
    rights = np.zeros((2, problem.num_ops), np.int32)
    if len(barred):
        kinds = np.unique(problem.allowed[barred], axis=0, return_inverse=True)[1]
        rights[0, barred], rights[1, barred] = kinds.ravel() + 1, instead[barred]
    variable = np.array([kind == VARIABLE for kind in problem.op_types], np.int32)
    return _numbered(piece, *rights, variable)


@entry_njit
def _levels(begin: Longs, reads: Ints, producer: Ints, part: Ints, bucket: Ints) -> Ints:
    """`[N]`, how often the part changes, at most, on a way to each op within its bucket."""
    level = np.zeros(len(part), np.int32)
    for n in range(len(part)):
        for r in range(begin[n], begin[n + 1]):
            maker = producer[reads[r]]
            if maker >= 0 and bucket[maker] == bucket[n]:
                level[n] = max(level[n], level[maker] + (1 if part[maker] != part[n] else 0))
    return level


def _places(problem: StepProblem, group: Ints) -> Ints:
    """`[G]`, the place of each group in a topological order; lower numbers first where they may.

    So groups of one op each stay in the order of their ops, which decides between equals.
    """
    count = int(group.max(initial=-1)) + 1
    pairs = group[problem.edges]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    rows = distinct_rows(pairs[:, 0], pairs[:, 1], count)
    place = np.empty(count, np.int32)
    place[topological([rows.row(g).tolist() for g in range(count)])] = np.arange(count)
    return place


def _drawn_together(problem: StepProblem, box: Box, part: Ints, group: Ints) -> CoarseStep:
    """The problem of groups, whose numbers are in a topological order."""
    count = int(group.max(initial=-1)) + 1
    first = np.unique(group, return_index=True)[1]
    reader = group[problem.reader].astype(np.int64)
    kept, drawn = _values(problem, part, group)
    lead = kept[np.unique(drawn, return_index=True)[1]]
    made = problem.producer[lead]
    producer = np.where(made >= 0, group[np.maximum(made, 0)], -1).astype(np.int32)
    size = np.bincount(drawn, problem.value_bytes[kept], len(lead)).astype(np.int64)
    # One copy stands for several: bytes take as long as the latencies that are left out.
    copies = np.bincount(drawn, minlength=len(lead))
    moves = (producer >= 0) & ~problem.stays[lead]
    size[moves] += ((copies[moves] - 1) * _latency_bytes(box)).astype(np.int64)
    value = np.full(problem.num_values, -1, np.int64)
    value[kept] = drawn
    read = value[problem.reads]
    known = np.flatnonzero(read >= 0)
    known = known[producer[read[known]] != reader[known]]
    reads = distinct_rows(reader[known], read[known], count)
    coarse = StepProblem(
        names=tuple(problem.names[n] for n in first),
        op_types=tuple(problem.op_types[n] for n in first),
        time_s=np.stack([sums_of(group, one, count) for one in problem.time_s.T], axis=1),
        value_names=tuple(problem.value_names[v] for v in lead),
        value_bytes=size,
        producer=producer,
        view_of=np.full(len(lead), -1, np.int32),
        stays=problem.stays[lead],
        kept=problem.kept[lead],
        read_begin=reads.ptr,
        reads=reads.entries.astype(np.int32),
        together=_numbered(part[first]),
        allowed=problem.allowed[first],
        layer=problem.layer[first],
    )
    return CoarseStep(coarse, group, first)


def _values(problem: StepProblem, part: Ints, group: Ints) -> tuple[Longs, Ints]:
    """Values that coarse ones are made of, ascending, and the number of the coarse one of each.

    In every placement those of one number are sent to the same devices: they have the same maker,
    and the same parts read them elsewhere. Numbers are in the order of first values, as copies are.
    """
    home = np.where(problem.producer >= 0, group[np.maximum(problem.producer, 0)], -1)
    reader = problem.reader
    outside = home[problem.reads] != group[reader]
    readers = _sets(
        distinct_rows(problem.reads[outside], part[reader[outside]], problem.num_values)
    )
    kept = np.flatnonzero((readers > 0) | problem.stays | problem.kept)
    marks = problem.stays[kept] * 2 + problem.kept[kept]
    return kept, in_order(_numbered(home[kept] + 1, readers[kept], marks.astype(np.int32)))


def _sets(sets: Rows) -> Ints:
    """`[R]`, numbers of sets: equal where the sets are, and 0 for the empty one.

    Args:
        sets: a row of ascending members, from 0, for each.
    """
    found = np.zeros(sets.size, np.int64)
    begin, member = sets
    size = np.diff(begin)
    # By and by, as in a tree of prefixes: a set is what it was before, and one more member.
    some, known = np.flatnonzero(size > 0), 0
    for k in range(int(size.max(initial=0))):
        some = some[size[some] > k]
        keys = found[some] * (int(member.max()) + 1) + member[begin[some] + k]
        found[some] = np.unique(keys, return_inverse=True)[1] + known + 1
        known = int(found[some].max())
    return found.astype(np.int32)


def _latency_bytes(box: Box) -> float:
    """Bytes that take as long as the latency of a copy, in the mean over pairs of devices."""
    apart = ~np.eye(box.num_devices, dtype=np.bool_)
    spent = box.copy_latency_s[apart] * box.copy_bytes_per_s[apart]
    return float(spent[np.isfinite(spent)].sum()) / max(len(spent), 1)


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
        """Clusters divided by slack, and by depth into this many parts at most."""
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
        reader = problem.reader
        counts = is_weight(problem)[problem.reads] & (self.duration[reader] > 0.0)
        latest = self.depth + self.slack
        found = np.full(int(self.clusters.max()) + 1, float(latest.max(initial=0.0)))
        np.minimum.at(found, self.clusters[reader[counts]], latest[reader[counts]])
        return found


def prepared(problem: StepProblem, box: Box) -> PreparedStep:
    """Looks at a step; near linear in its size."""
    duration = fastest_times(problem, box)
    depth, rest = heads_and_tails(problem.edges, duration)
    through = depth + (duration + rest)
    return PreparedStep(
        problem,
        box,
        duration,
        depth,
        through.max(initial=0.0) - through,
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
