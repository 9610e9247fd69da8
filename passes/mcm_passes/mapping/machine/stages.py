"""The strategy `stages`: a search for machines of any family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.rows import distinct_rows
from mcm_compiler.contracts import partition
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.mapping.machine.device_order import walk_over_devices
from mcm_passes.mapping.machine.evaluation import MachineModel
from mcm_passes.mapping.machine.stage_kernels import (
    BUSIEST,
    COST,
    PERIOD,
    DeviceLimits,
    Graph,
    Standing,
    cost_of,
    cut_order,
    placement,
    search_stages,
)
from mcm_passes.mapping.problem.resident_sizes import weight_sizes
from mcm_passes.mapping.problem.topological_orders import Order, topological_orders
from mcm_passes.mapping.search.search import Search

CHUNK = 512
"""Moves between two looks at the clock."""

HEATS = (1.0, 8.0, 2.0, 30.0)
"""How much of `worse` holds in the rounds of a search, in turn: rounds that only polish, and rounds
that leave the surroundings of the best."""

STEPS = 50
"""Halvings of the period that an order is cut for."""


@dataclass(frozen=True)
@checked(orders=at_least(1), rounds=at_least(1))
class Stages:
    """Cuts orders of the units into stages on neighbouring devices, then moves units and stages.

    Moves that make a placement a little worse are taken as well, less and less of them (threshold
    accepting, Dueck and Scheuer 1990). A period that cannot be beaten ends the search with the
    order that it was found for: until then the load of the other devices and channels is spread,
    which a simulator rewards.

    Attributes:
        orders: topological orders that searches begin with, at least 1; each has its share of the
            evaluations.
        worse: share by which a move may be worse at the beginning of a round that polishes, at
            least 0; other rounds begin with several times as much.
        rounds: how often a search goes back to the best and begins with bad moves again, at
            least 1.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "stages"
    summary: ClassVar[str] = "stages of an order, moved over the devices of any machine"
    any_machine: ClassVar[bool] = True

    orders: int = 4
    worse: float = 0.02
    rounds: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.worse < 1:
            raise ValueError(f"worse is {self.worse}, not from 0 to below 1")

    def solve(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        rng: np.random.Generator,
        budget: partition.Budget,
    ) -> partition.Outcome:
        """Searches until the budget is spent; MCM-P040 for a ring."""
        if problem.on_ring:
            raise CompileError.of(
                "MCM-P040",
                f"strategy '{self.name}' places ops on packages that are no rings, and the "
                "target is a ring",
                at="option partitioner",
                hint="leave the choice to the level, or take a strategy for rings, such as "
                "local_search",
            )
        search = Search(problem, evaluate, budget)
        for known in budget.known:
            search.offer(known, evaluate(known))
        stages = [_stages_along(problem, one) for one in topological_orders(problem, self.orders)]
        return self.improve(search, rng, budget, stages)

    def improve(
        self,
        search: Search,
        rng: np.random.Generator,
        budget: partition.Budget,
        stages: Sequence[partition.Ints | partition.Longs],
    ) -> partition.Outcome:
        """Searches from given stages instead of cuts of orders.

        Args:
            search: of the problem, with what is known of it.
            rng: source of randomness.
            budget: what may be spent.
            stages: `[N]` each, the stage of each unit, which never falls along a dependency.
                Stage k is on device k of `walk_over_devices`.
        """
        run = _Run(search.problem)
        each = max(budget.evaluations // len(stages), 1)
        least: tuple[float, float] | None = None
        best: partition.Ints | None = None
        for stage_of in stages:
            if not search.left:
                break
            run.begin(stage_of)
            self._from_here(run, search, rng, min(each, search.left))
            if run.period_s < float("inf") and (least is None or run.least < least):
                least, best = run.least, run.placement
        found = search.outcome("no placement of its stages fits the memory")
        if least is not None and least[0] <= search.best_period_s:
            # Of those that are as fast the one with the least load elsewhere.
            found = replace(found, chip_of=best)
        return found

    def _from_here(
        self, run: _Run, search: Search, rng: np.random.Generator, evaluations: int
    ) -> None:
        tried = 0
        while True:
            best_of = run.placement
            if run.period_s < search.best_period_s:
                search.offer(best_of, search.period_of(best_of))
            if tried >= evaluations or not search.awaited:
                return
            done = tried / evaluations * self.rounds
            if done >= run.rounds:
                run.return_to_best()
            heat = HEATS[run.rounds % len(HEATS)] * self.worse
            falling = 1.0 - (done - run.rounds + 1.0)
            made = run.step(rng.random((CHUNK, 5)), np.full(CHUNK, heat * max(falling, 0.0)))
            # A chunk of moves that change no load counts as one, so that every search ends.
            tried += max(made, 1)
            search.spend(max(made, 1))


class _Run:
    """One problem, and the search that stands at some placement of it."""

    def __init__(self, problem: partition.PartitionProblem) -> None:
        model = MachineModel.of(problem)
        limits = problem.limits
        source, target = dependency_edges(problem)
        count = problem.num_units
        self._problem = problem
        self._graph = Graph(
            units=np.flatnonzero(~problem.clonable),
            source=source.astype(np.int64),
            target=target.astype(np.int64),
            before=distinct_rows(target, source, count),
            after=distinct_rows(source, target, count),
            pinned=problem.pinned_chip.astype(np.int64),
        )
        package = DeviceLimits(
            speed=problem.chip_speed,
            memory_bytes=np.array(limits.sram_bytes, np.int64),
            bytes_per_s=np.array(problem.machine.channel_bytes_per_s),
            packing=limits.activation_packing,
            alignment=limits.buffer_alignment_bytes,
            stream_bytes_per_s=limits.stream_bytes_per_s,
            stream_buffers=limits.stream_buffers,
        )
        self._devices = walk_over_devices(problem.machine, problem.num_chips)
        self._machine = model.arrays, model.routes, package
        self._current, self._best = (
            Standing(np.zeros(count, np.int64), self._devices.copy(), np.full(3, np.inf))
            for _ in range(2)
        )
        self.rounds = 0

    @property
    def placement(self) -> partition.Ints:
        """`[N]`, the best placement since `begin`."""
        return placement(self._best.stage_of, self._best.device_of)

    @property
    def period_s(self) -> float:
        """Of the best placement since `begin`; infinite where none fits."""
        return float(self._best.score[PERIOD])

    @property
    def least(self) -> tuple[float, float]:
        """Period and cost of the best placement since `begin`."""
        return float(self._best.score[PERIOD]), float(self._best.score[COST])

    def begin(self, stage_of: partition.Ints | partition.Longs) -> None:
        """Stands at given stages, on devices beside each other."""
        best = self._best
        best.device_of[:], best.stage_of[:] = self._devices, stage_of
        self.rounds = 0
        chip_of = self.placement
        cost, period_s, _ = self._cost(chip_of)
        pinned = self._problem.pinned_chip
        misplaced = int(((pinned >= 0) & (pinned != chip_of)).sum())
        best.score[COST] = cost * (1.0 + misplaced)
        best.score[PERIOD] = np.inf if misplaced else period_s

    def return_to_best(self) -> None:
        """Goes back to the best placement, for another round."""
        current, best = self._current, self._best
        current.stage_of[:], current.device_of[:] = best.stage_of, best.device_of
        cost, _, busiest = self._cost(self.placement)
        current.score[COST], current.score[BUSIEST] = max(cost, float(best.score[COST])), busiest
        self.rounds += 1

    def step(self, draws: partition.Floats, worse: partition.Floats) -> int:
        """Tries moves; see `search_stages`."""
        return search_stages(*self._machine, self._graph, self._current, self._best, draws, worse)

    def _cost(self, chip_of: partition.Ints) -> tuple[float, float, int]:
        return cost_of(*self._machine, chip_of)


def _stages_along(problem: partition.PartitionProblem, order: Order) -> partition.Longs:
    """`[N]`, the stage of each unit where an order is cut into stages as equal as can be.

    A unit that is heavier than the others' share has a stage for itself. Each weight counts with
    its first user; where memory leaves nothing, it is not looked at.
    """
    work = problem.compute_s[order.units]
    brought = np.zeros(problem.num_units, np.int64)
    sizes = weight_sizes(problem)
    place = np.full(problem.num_units, problem.num_units)
    place[order.units] = np.arange(order.units.size)
    for w in range(sizes.size):
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        if users.size:
            brought[users[place[users].argmin()]] += sizes[w]
    memory = brought[order.units]
    stages = problem.num_chips
    stage_at = np.zeros(order.units.size, np.int64)
    total = float(work.sum())
    room = int(min(problem.limits.sram_bytes))
    if not cut_order(work, memory, stages, room, total, stage_at):
        memory = np.zeros_like(memory)
    low, high = 0.0, total
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if cut_order(work, memory, stages, room, middle, stage_at):
            high = middle
        else:
            low = middle
    cut_order(work, memory, stages, room, high, stage_at)
    stage_of = np.zeros(problem.num_units, np.int64)
    stage_of[order.units] = stage_at
    return stage_of
