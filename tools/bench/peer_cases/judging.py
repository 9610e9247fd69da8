"""Any program's parts under one judge: the ring's rules and the compiler's cost model.

A program says which part each op belongs to. Parts become chips in a topological order of the
graph of parts; where parts wait for each other in a circle there is none, and they are taken in
the order of their ops' mean place. What breaks a rule is judged again after repair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from peer_cases.op_graphs import repaired

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.families.ring.placement_constraints.nearest import moved_units, nearest_valid
from mcm_passes.mapping.machine.evaluation import evaluate

REPAIR_EFFORT_S = 2.0
"""Deterministic seconds of CP-SAT for the valid partition that is nearest."""

MOST_REPAIRED = 6
"""Divisions of one program that are repaired."""

UNKNOWN = -1

Parts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Judged:
    """What some parts come to on the ring.

    Attributes:
        chip_of: `[N]`, chips as the parts say, in their best order.
        period_s: of these chips; None where they break a rule.
        fault: the first rule that is broken, in words; empty where none is.
        circular: parts that wait for each other in a circle.
        repaired: `[N]`, the valid partition that is taken instead; `chip_of` where it is valid
            itself, and None where repair finds nothing.
        repaired_s: its period.
        moved: units that repair moved.
    """

    chip_of: Ints
    period_s: float | None
    fault: str
    circular: int
    repaired: Ints | None
    repaired_s: float | None
    moved: int

    @property
    def value_s(self) -> float:
        """The period that counts: as given, else after repair, else infinity."""
        for seconds in (self.period_s, self.repaired_s):
            if seconds is not None:
                return seconds
        return float("inf")

    @property
    def chips(self) -> int:
        """Chips that the counted partition uses."""
        row = self.chip_of if self.repaired is None else self.repaired
        return np.unique(row).size


def judged(problem: PartitionProblem, parts: Parts, *, repair: bool = True) -> Judged:
    """The parts on the ring, in a topological order of theirs.

    Args:
        problem: what was divided.
        parts: `[N]`, part of each unit; entries of clonable units are not looked at.
        repair: whether to look for a valid partition where they break a rule.
    """
    rank, circular = _ranks(problem, parts)
    wanted = rank[parts].astype(np.int32)
    result = evaluate(problem, wanted)
    if result.valid:
        return Judged(
            result.chip_of, result.period_s, "", circular, result.chip_of, result.period_s, 0
        )
    fault = result.violations[0].message
    best, best_s, moved = _repair(problem, wanted) if repair else (None, None, 0)
    return Judged(wanted, None, fault, circular, best, best_s, moved)


def best_of(problem: PartitionProblem, rows: Sequence[Parts]) -> tuple[Judged, int]:
    """The division with the shortest period among those that are valid as given, and its index.

    Where none is valid, the shortest after repair of the `MOST_REPAIRED` that would take the least
    time if rules did not count.
    """
    found = [judged(problem, row, repair=False) for row in rows]
    valid = [index for index, one in enumerate(found) if one.period_s is not None]
    if valid:
        best = min(valid, key=lambda index: found[index].value_s)
        return found[best], best
    times = [evaluate(problem, one.chip_of).period_s for one in found]
    likely = sorted(range(len(rows)), key=times.__getitem__)[:MOST_REPAIRED]
    repairs = {index: judged(problem, rows[index]) for index in likely}
    best = min(likely, key=lambda index: repairs[index].value_s)
    return repairs[best], best


def parts_of_ops(problem: PartitionProblem, part_of: Mapping[str, int]) -> tuple[Parts, int]:
    """Parts of units from parts of ops, and how many units several parts share.

    A unit that is divided goes where most of its ops are, and of equals to the last. Units that
    no part names go to the part of the unit before them.

    Args:
        problem: what was divided.
        part_of: by name of the op; ops that are no longer there are left out.
    """
    parts = np.full(problem.num_units, UNKNOWN, np.int64)
    divided, last = 0, 0
    for unit, names in enumerate(problem.members):
        told = [part_of[name] for name in names if name in part_of]
        counts = {part: told.count(part) for part in told}
        divided += len(counts) > 1
        if counts:
            last = max(counts, key=lambda part: (counts[part], part))
        parts[unit] = last
    return np.unique(parts, return_inverse=True)[1].astype(np.int64), divided


def _ranks(problem: PartitionProblem, parts: Parts) -> tuple[Parts, int]:
    """The place of each part, and how many parts lie in circles."""
    count = int(parts.max(initial=0)) + 1
    placed = ~problem.clonable
    work = np.where(placed, np.maximum(problem.compute_s, 1e-15), 0.0)
    total = np.bincount(parts, work, minlength=count)
    mean = np.bincount(parts, work * np.arange(parts.size), minlength=count)
    mean = np.where(total > 0.0, mean / np.maximum(total, 1e-300), np.inf)
    before = _quotient(problem, parts, count)
    rank = np.zeros(count, np.int64)
    left = set(np.flatnonzero(total > 0.0).tolist())
    place, opened = 0, False
    while left:
        ready = [p for p in left if not (before[p] & left)]
        # Where none is ready the rest holds a circle, which is opened at its first part.
        opened |= not ready
        first = min(ready or left, key=lambda p: (mean[p], p))
        rank[first] = place
        place += 1
        left.remove(first)
    return rank, _in_circles(before) if opened else 0


def _quotient(problem: PartitionProblem, parts: Parts, count: int) -> list[set[int]]:
    """For each part those that it reads from."""
    before: list[set[int]] = [set() for _ in range(count)]
    for tensor, producer in enumerate(problem.tensor_producer.tolist()):
        if producer < 0 or problem.clonable[producer]:
            continue
        at = int(parts[producer])
        for reader in problem.placed_readers.row(tensor).tolist():
            if parts[reader] != at:
                before[int(parts[reader])].add(at)
    return before


def _in_circles(before: Sequence[set[int]]) -> int:
    """Parts that reach themselves."""

    def reached(part: int) -> set[int]:
        seen: set[int] = set()
        waiting = list(before[part])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += before[one]
        return seen

    return sum(part in reached(part) for part in range(len(before)))


def _repair(problem: PartitionProblem, wanted: Ints) -> tuple[Ints | None, float | None, int]:
    """The shortest period among the nearest valid partition and those that FIX keeps."""
    rng = seeded_generator(0, "repair")
    rows = list(repaired(problem, wanted, rng))
    nearest = nearest_valid(problem, wanted, rng, REPAIR_EFFORT_S).chip_of
    if nearest is not None:
        rows.append(nearest)
    best: Ints | None = None
    best_s: float | None = None
    for row in rows:
        result = evaluate(problem, row)
        if result.valid and (best_s is None or result.period_s < best_s):
            best, best_s = result.chip_of, result.period_s
    moved = 0 if best is None else int(moved_units(problem, wanted, best).size)
    return best, best_s, moved
