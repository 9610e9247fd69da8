"""Multilevel partitioning: merge units, move the merged ones, split them again, move the parts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows, starts
from mcm_compiler.contracts.partition import (
    Bools,
    Floats,
    Ints,
    Longs,
    PartitionProblem,
    SearchMonitor,
)
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.families.ring.moves.walks import Walker
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.families.ring.strategies.local_search import find_start, late_position, resegment
from mcm_passes.mapping.models import adapted, periods_of
from mcm_passes.mapping.problem.resident_sizes import aliases_among
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.search.named import answer_of
from mcm_passes.mapping.search.search import Search, SearchStrategy

ORDERS = 3
"""Topological orders that merging takes in turn."""


@dataclass(frozen=True, eq=False)
class Coarsening:
    """A problem with fewer units.

    Loads are the same as on the finer problem; what is live within a merged unit is left out.

    Attributes:
        problem: the coarser problem.
        unit_of: `[N]`, the unit that each of the finer problem's units became part of.
    """

    problem: PartitionProblem
    unit_of: Ints

    def coarse(self, chip_of: Ints) -> Ints:
        """A partition of the finer problem, whose merged units share a chip, on the coarser one."""
        chips = np.zeros(self.problem.num_units, np.int32)
        chips[self.unit_of] = chip_of
        return chips


def coarsen(problem: PartitionProblem, chip_of: Ints, level: int, least: int) -> Coarsening:
    """Merges pairs of units that are on one chip and have a tensor or a weight in common.

    Pairs with more in common are preferred to those before and after them in the order, and none
    grows beyond the share of a chip that `least` units would have.

    Args:
        problem: the finer problem.
        chip_of: `[N]`, a valid partition of it, which stays one of the coarser problem.
        level: how often the problem was coarsened before; chooses the order.
        least: units below which there is no point in merging.
    """
    orders = topological_orders(problem, ORDERS)
    order = orders[level % len(orders)].units
    most_s = float(problem.compute_s.sum()) / max(least, 1)
    fits = problem.compute_s[order[:-1]] + problem.compute_s[order[1:]] <= most_s
    pinned = problem.pinned_chip[order]
    apart = (pinned[:-1] >= 0) & (pinned[1:] >= 0) & (pinned[:-1] != pinned[1:])
    allowed = (chip_of[order[:-1]] == chip_of[order[1:]]) & fits & ~apart
    merged = _matching(_shared_seconds(problem, order), allowed)
    return _contract(problem, order, merged)


def _shared_seconds(problem: PartitionProblem, order: Ints) -> Floats:
    """`[n - 1]`, seconds on a link of what each unit of the order shares with the next."""
    position = np.full(problem.num_units, -1, np.int64)
    position[order] = np.arange(order.size)
    shared = np.zeros(max(order.size - 1, 0))
    readers = Rows(problem.tensor_ptr, position[problem.tensor_consumers])
    users = Rows(problem.weight_ptr, position[problem.weight_users])
    makers = problem.tensor_producer[readers.owners]
    makers = np.where(makers >= 0, position[makers], -1)
    # What is sent at all costs something, however few its bytes.
    seconds = problem.tensor_bytes / problem.limits.link_bytes_per_s + problem.relay_s
    direct = (makers >= 0) & (readers.entries == makers + 1)
    np.add.at(shared, makers[direct], seconds[readers.owners[direct]])
    weight_s = problem.weight_bytes / problem.limits.link_bytes_per_s
    for rows, price in ((readers, seconds), (users, weight_s)):
        by_place = np.lexsort((rows.entries, rows.owners))
        owner_of, place = rows.owners[by_place], rows.entries[by_place]
        both = (owner_of[1:] == owner_of[:-1]) & (place[1:] == place[:-1] + 1) & (place[:-1] >= 0)
        # Readers of the same are less close than a reader and its producer.
        np.add.at(shared, place[:-1][both], 0.5 * price[owner_of[:-1][both]])
    return shared


@entry_njit
def _matching(shared: Floats, allowed: Bools) -> Bools:
    """`[n - 1]`, the disjoint neighbours that share the most in all, by dynamic programming."""
    m = shared.size
    value = np.zeros(m + 2)
    for p in range(m - 1, -1, -1):
        value[p] = value[p + 1]
        if allowed[p] and shared[p] > 0.0:
            value[p] = max(value[p], shared[p] + value[p + 2])
    taken = np.zeros(m, np.bool_)
    p = 0
    while p < m:
        if allowed[p] and shared[p] > 0.0 and value[p] == shared[p] + value[p + 2]:
            taken[p] = True
            p += 1
        p += 1
    return taken


class Regrouped(NamedTuple):
    """Some of the tensors or weights of a problem, with the new units that read them.

    Attributes:
        kept: which they are.
        ptr: CSR of the new units that read each, ascending, each once.
        units: those units.
        touched: whether one of the units in each touches the memory.
    """

    kept: Longs
    ptr: Longs
    units: Ints
    touched: Bools


def regrouped(
    ptr: Longs, units: Ints | Longs, touched: Bools, counts: Bools, always: Bools, num_units: int
) -> Regrouped:
    """The rows of which some entry counts, or that are kept always.

    Args:
        ptr: `[R + 1]`, CSR of the readers of each tensor, or the users of each weight.
        units: the new unit of each reader.
        touched: as in `PartitionProblem`.
        counts: of each reader, whether it counts.
        always: `[R]`, rows that are kept even if none does.
        num_units: of the new units.
    """
    size = ptr.size - 1
    owner = np.repeat(np.arange(size), np.diff(ptr))[counts]
    kept = np.flatnonzero(always | (np.bincount(owner, minlength=size) > 0))
    width = max(num_units, 1)
    pairs, place = np.unique(owner * width + units[counts], return_inverse=True)
    touches = np.zeros(pairs.size, np.bool_)
    np.logical_or.at(touches, place, touched[counts])
    lengths = np.bincount(pairs // width, minlength=size)[kept]
    return Regrouped(kept, starts(lengths), (pairs % width).astype(np.int32), touches)


def _contract(problem: PartitionProblem, order: Ints, merged: Bools) -> Coarsening:
    """The problem in which each position with `merged` is one with the next."""
    n = problem.num_units
    begins = np.concatenate([[True], ~merged]) if order.size else np.zeros(0, np.bool_)
    group = np.cumsum(begins) - 1
    clonable = np.flatnonzero(problem.clonable)
    # Clonable units read from each other only, so that they may all stand first.
    unit_of = np.empty(n, np.int32)
    unit_of[clonable] = np.arange(clonable.size)
    unit_of[order] = clonable.size + group
    count = int(clonable.size + begins.sum())
    first = np.empty(count, np.int64)
    first[unit_of[order[::-1]]] = order[::-1]
    first[unit_of[clonable]] = clonable
    pinned = np.full(count, -1, np.int32)
    np.maximum.at(pinned, unit_of, problem.pinned_chip)
    made = problem.tensor_producer
    producer = np.where(made >= 0, unit_of[made], -1)
    readers = unit_of[problem.tensor_consumers]
    # Tensors that leave a merged unit, or come from the host or go there.
    outside = readers != np.repeat(producer, np.diff(problem.tensor_ptr))
    tensors = regrouped(
        problem.tensor_ptr, readers, problem.tensor_touched, outside, problem.tensor_to_host, count
    )
    users = unit_of[problem.weight_users]
    every, all_weights = (np.ones(k, np.bool_) for k in (users.size, problem.weight_bytes.size))
    weights = regrouped(
        problem.weight_ptr, users, problem.weight_touched, every, all_weights, count
    )
    coarse = dataclasses.replace(
        problem,
        names=tuple(map(problem.names.__getitem__, first.tolist())),
        members=tuple(map(problem.members.__getitem__, first.tolist())),
        compute_s=np.bincount(unit_of, problem.compute_s, minlength=count),
        deviation_s=None,
        clonable=np.arange(count) < clonable.size,
        pinned_chip=pinned,
        tensor_names=tuple(map(problem.tensor_names.__getitem__, tensors.kept.tolist())),
        tensor_bytes=problem.tensor_bytes[tensors.kept],
        tensor_producer=producer[tensors.kept].astype(np.int32),
        tensor_ptr=tensors.ptr,
        tensor_consumers=tensors.units,
        tensor_touched=tensors.touched,
        tensor_to_host=problem.tensor_to_host[tensors.kept],
        tensor_alias=aliases_among(problem, tensors.kept),
        relay_s=problem.relay_s[tensors.kept],
        kinds=None if problem.kinds is None else problem.kinds.joined(unit_of, count, tensors.kept),
        copies=None if problem.copies is None else problem.copies.joined(unit_of, tensors.kept),
        weight_ptr=weights.ptr,
        weight_users=weights.units,
        weight_touched=weights.touched,
        # What merged units hold at once is not known.
        one_kernel=problem.one_kernel[first] & (np.bincount(unit_of, minlength=count) == 1),
    )
    return Coarsening(coarse, unit_of)


UNITS_PER_STEP = 25
"""Units that an evaluation in full looks at in the time of one step of refinement."""

HOTTER = 10.0
"""Factor to the temperature of walks after a cycle that brought nothing."""

MOST_WITHOUT_IMPROVEMENT = 4
"""Walks on one level without a better score after which they end."""

PARTS = 8
"""Walks that the steps on one level are divided into, where there are enough."""

LEAST_SHRINKAGE = 0.95
"""Share of units left above which merging has ended."""


@dataclass(frozen=True)
@checked(
    coarsest=at_least(1),
    cycles=at_least(1),
    patience=at_least(1),
    tries=at_least(1),
    heat=at_least(0),
)
class Multilevel(SearchStrategy):
    """V-cycles from the partition of `dp`, for graphs that are too large for full evaluations.

    Each cycle merges neighbouring units that are on one chip, level by level, so that the best
    partition so far stays one of every level. The coarsest problem is solved again and refined by
    annealed moves; then units are split again, and each level is refined. Moves cost as much
    as what they change. The scheme is that of Hendrickson and Leland 1995, *A Multilevel
    Algorithm for Partitioning Graphs*, with the repeated cycles of Walshaw 2004, *Multilevel
    Refinement for Combinatorial Optimisation Problems*; loads and rules are ours.

    Attributes:
        coarsest: units at which merging ends, at least 1.
        solver: the strategy for the coarsest problem; empty for none.
        heat: temperature at the first step of a walk, as a share of the mean score of a chip;
            rises after cycles that bring nothing.
        cycles: most cycles, at least 1.
        patience: cycles without a better partition after which a try ends, at least 1.
        tries: how often to begin again with the start, at least 1; each gets an equal part of
            what is left. Where memory is tight, walks end in one of several valleys.
    """

    name: ClassVar[str] = "multilevel"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "merges units, solves, splits and refines them; for huge graphs"

    coarsest: int = 2_000
    solver: str = "dp"
    heat: float = 3e-4
    cycles: int = 20
    patience: int = 4
    tries: int = 1

    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Cycles until the budget is spent; never worse than `dp` at the same budget."""
        reason, start = find_start(search, rng), search.best
        if start is None:
            return reason
        for tries in range(self.tries, 0, -1):
            if not search.left:
                break
            others = search.left - search.left // tries
            quiet = SearchMonitor(parent=search.budget.monitor)
            cycles = _Cycles(self, search, quiet, rng, start, others)
            without_improvement = 0
            for number in range(self.cycles):
                if not cycles.left or without_improvement == self.patience:
                    break
                heat = min(self.heat * HOTTER**without_improvement, max(self.heat, 1.0))
                without_improvement = 0 if cycles.run(number, heat) else without_improvement + 1
        return reason


@dataclass
class _Cycles:
    """The cycles of one try.

    Attributes:
        options: the strategy.
        search: that it belongs to.
        quiet: for partitions of coarser problems, which the caller does not see.
        rng: source of randomness.
        best: its best partition so far, at first the one that it begins with.
        end: evaluations of the search that it leaves to others.
    """

    options: Multilevel
    search: Search
    quiet: SearchMonitor
    rng: np.random.Generator
    best: Ints
    end: int

    def __post_init__(self) -> None:
        self._best_s = self.search.period_of(self.best)
        self._steps_per_evaluation = max(self.search.problem.num_units // UNITS_PER_STEP, 1)

    @property
    def left(self) -> int:
        """Evaluations that the try may still take."""
        return max(self.search.left - self.end, 0)

    def run(self, number: int, heat: float) -> bool:
        """Merges, solves, splits and refines once; whether that is the best of the try so far.

        The result is offered to the search.
        """
        search, options = self.search, self.options
        chip_of, problem = self.best, search.problem
        levels: list[Coarsening] = []
        while problem.num_units > options.coarsest:
            level = coarsen(problem, chip_of, number + len(levels), options.coarsest)
            if level.problem.num_units > LEAST_SHRINKAGE * problem.num_units:
                break
            levels.append(level)
            problem, chip_of = level.problem, level.coarse(chip_of)
        # Half of what is left, so that there is always something for another cycle; and half of
        # that on the coarsest problem, which is what merging is for.
        steps = self.left * self._steps_per_evaluation // 2
        if options.solver and levels and not number:
            chip_of = self._solved(problem, chip_of)
        chip_of = self._refined(problem, chip_of, steps // 2, heat)
        for depth in range(len(levels) - 1, -1, -1):
            problem = levels[depth - 1].problem if depth else search.problem
            chip_of = chip_of[levels[depth].unit_of]
            chip_of = self._refined(problem, chip_of, steps // 2 // len(levels), heat)
        period_s = search.period(chip_of)
        if not period_s < self._best_s:
            return False
        self.best, self._best_s = chip_of, period_s
        return True

    def _solved(self, problem: PartitionProblem, chip_of: Ints) -> Ints:
        """The solver's partition of a coarse problem, or `chip_of` where that is no worse."""
        periods = periods_of(problem)
        budget = self.search.share(self.left, self.quiet)
        name = self.options.solver
        outcome = answer_of(name, adapted(problem, name), problem, periods, self.rng, budget)
        self._spend(outcome.evaluations, problem)
        if outcome.chip_of is None or periods(outcome.chip_of) >= periods(chip_of):
            return chip_of
        return outcome.chip_of

    def _refined(self, problem: PartitionProblem, chip_of: Ints, steps: int, heat: float) -> Ints:
        """The best partition of some walks from one of `problem`, with the cuts of its order."""
        walker = Walker(problem, self._best_s)
        walk = walker.walk(chip_of, streams(self.rng, 1))
        part = max(min(max(steps // PARTS, 2 * problem.num_units), steps), 1)
        without_improvement = 0
        while steps >= part and self.left and without_improvement < MOST_WITHOUT_IMPROVEMENT:
            before = float(walk.best_s[0]), float(walk.best_score[0])
            walker.advance(walk, part, heat)
            steps -= part
            self.search.spend(-(-part // self._steps_per_evaluation))
            without_improvement = (
                0 if (walk.best_s[0], walk.best_score[0]) < before else without_improvement + 1
            )
        # The order that it implies is cut again, as moves lessen loads unevenly.
        inner = Search(problem, periods_of(problem), self.search.share(self.left, self.quiet))
        inner.period(walker.best(walk))
        resegment(inner, walk, late_position(problem))
        self._spend(inner.evaluations, problem)
        return walker.best(walk) if inner.best is None else inner.best

    def _spend(self, evaluations: int, problem: PartitionProblem) -> None:
        """Counts evaluations of a coarser problem."""
        self.search.spend(evaluations * problem.num_units // self.search.problem.num_units)
