"""Local search from the best contiguous cuts: moves of units, and new cuts of what they lead to.

`reorder` cuts random orders near that of the best partition, and refines them by moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem
from mcm_compiler.processes.side_by_side import side_by_side
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.families.ring.contiguous.contiguous_dp import SLACK, dp_outcome
from mcm_passes.families.ring.contiguous.contiguous_kernels import chain_windows
from mcm_passes.families.ring.contiguous.contiguous_windows import chips_from_cuts, windows_along
from mcm_passes.families.ring.moves.walks import Walk, Walker
from mcm_passes.families.ring.solver.random_stream import order_near, streams
from mcm_passes.mapping.machine.device_order import (
    DeviceOrder,
    along,
    first_line,
    first_order,
    order_of,
)
from mcm_passes.mapping.models import adapted
from mcm_passes.mapping.models import evaluate as evaluation_of
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.search.named import answer_of
from mcm_passes.mapping.search.search import Search, SearchStrategy
from mcm_passes.mapping.solving.planned_memory import searches_cost_minutes

KNOWN = "known"
"""As a start: the partitions that the caller already knows."""

DRAWS = 1024
"""Random partitions that are tried where cuts of an order do not fit."""

BATCH = 64

REPAIR_STEPS = 20
"""Steps for each unit from a draw to a placement that fits."""

NOTHING_DRAWN = "no partition keeps the pins and the rules"

COMPLETION_S = 5.0
"""Deterministic seconds of CP-SAT where no draw fits either."""


def find_start(search: Search, rng: np.random.Generator) -> str:
    """Gives `search` its first partition: of `dp`, known, at random, or by CP-SAT.

    Returns:
        Why none was found; empty where one was.
    """
    if not search.left:
        return "the budget allows no evaluation"
    budget = search.share(search.left)
    outcome = dp_outcome(search.problem, search.evaluate, rng, budget)
    search.spend(outcome.evaluations)
    # Another member of a portfolio may have got further than cuts of an order.
    for found in budget.known if outcome.chip_of is None else (outcome.chip_of,):
        search.offer(found, search.period_of(found))
        if search.best is not None:
            return ""
    if searches_cost_minutes(search.problem):
        return outcome.reason
    # Imported late: most problems have an answer by now.
    from mcm_passes.families.ring.solver.batch import ProblemSampler

    sampler, order = ProblemSampler.of(first_line(search.problem)), first_order(search.problem)
    for _ in range(DRAWS // BATCH):
        if not (count := min(BATCH, search.left)):
            break
        rows = sampler.sample(rng, count)
        rows = rows[rows[:, 0] >= 0]
        if not len(rows):
            break
        search.periods(order.devices(rows))
        if search.best is None and not search.problem.on_ring:
            _repair(search, order.devices(rows[0]), rng)
        if search.best is not None:
            return ""
    return ask_authority(search, outcome.reason) if search.left else outcome.reason


def named_start(search: Search, name: str, rng: np.random.Generator) -> str:
    """Gives `search` its first partitions: those that are known, or a strategy's answer.

    Args:
        search: the search.
        name: the text of a strategy, or `known`: then that of `dp` where nothing is known.
        rng: source of randomness.

    Returns:
        As `find_start`.
    """
    if name == KNOWN:
        search.recall(*search.share(search.left).known)
    if search.best is not None:
        return ""
    if name in ("dp", KNOWN):
        return find_start(search, rng)
    part = search.share(search.left, time_share=0.5)
    strategy = adapted(search.problem, name)
    outcome = answer_of(name, strategy, search.problem, search.evaluate, rng, part)
    # What it spent is not taken from here: the two count their work otherwise.
    search.recall(outcome.chip_of, *outcome.runners_up)
    return outcome.reason


def _repair(search: Search, device_of: Ints, rng: np.random.Generator) -> None:
    """Walks from a placement that lacks memory or routes to one that is valid."""
    walker = Walker(search.problem, evaluation_of(search.problem, device_of).period_s)
    walk = walker.walk(device_of, streams(rng, 1))
    walker.advance(walk, REPAIR_STEPS * search.problem.num_units)
    search.spend(REPAIR_STEPS)
    if np.isfinite(walk.best_s[0]):
        search.period(walker.best(walk))


def ask_authority(search: Search, reason: str) -> str:
    """Gives `search` a partition by CP-SAT, near an even split, where no draw fits.

    Returns:
        Why none was found: `reason`, or that there is none; empty where one was.
    """
    problem = first_line(search.problem)
    share = np.cumsum(problem.compute_s) / max(float(problem.compute_s.sum()), 1e-300)
    even = np.minimum(share * problem.num_chips, problem.num_chips - 1).astype(np.int32)
    from mcm_passes.families.ring.placement_constraints.nearest import nearest_partition
    from mcm_passes.families.ring.solver.batch import fill_clonable

    answer = nearest_partition(problem, even, None, COMPLETION_S)
    if answer.chip_of is not None:
        fill_clonable(problem, answer.chip_of[None])
        search.period(first_order(search.problem).devices(answer.chip_of))
    elif answer.proven and search.problem.on_ring:
        return "CP-SAT proves that no partition keeps the pins, the rules and the memory"
    return "" if search.best is not None else reason


ORDER_EVALUATIONS = 10
"""Evaluations in the time of which an order is drawn and cut."""

LEAST_TOLERANCE = 1.0 / 16.0
"""Of the tolerance, the share that an order gets at least; its logarithm is uniform."""

DRIFT = 0.01
"""Share by which what is gone on from may be worse than the best, at most: a random part of it."""

STEPS_PER_EVALUATION = 1.0 / 25.0
"""Steps of a walk in the time of an evaluation, for each unit."""


@dataclass(frozen=True)
@checked(
    tolerance=at_least(0),
    steps=at_least(0),
    max_units=at_least(0),
    memory=at_least(1),
    patience=at_least(1),
)
class Reorder(SearchStrategy):
    """Iterated local search on orders: strays from the order of a partition, and cuts it again.

    Every partition is cuts of some topological order: by chip, and within a chip as one likes. A
    random order near that one is cut by dynamic programming into something hardly worse, which is
    far from the partition in moves of units. A short walk brings it down to where it is often
    better. The search goes on from what is no worse, or hardly worse than the best. Under the
    triangle rule cuts are few, as dependencies may span one chip then, and so are gains.
    (Lourenço, Martin and Stützle 2003, *Iterated Local Search*; orders as what is disturbed, and
    cuts as the repair, are ours.)

    Attributes:
        start: the strategy whose answer it starts from; `known`: the best that the caller knows,
            such as the members of a portfolio before it found, and `dp` where there is none.
        tolerance: share by which cuts may be worse than what their order is near to, at most; each
            order draws its own. Where periods are dense, a small one finds more, where a few heavy
            units leave gaps between them, a large one does.
        steps: steps of each walk for each unit, at least 0.
        memory: steps that late acceptance looks back in a walk, at least 1.
        patience: walks without a better partition after which it ends, at least 1; an order that
            cannot be cut well enough counts when it is drawn again, as small graphs have few.
        max_units: most units of a problem that is searched, at least 0; walks on larger ones take
            so long that few orders are tried.
    """

    name: ClassVar[str] = "reorder"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "random orders near the best partition's, cut again and refined"

    start: str = "local_search"
    tolerance: float = 0.08
    steps: int = 20
    memory: int = 200
    patience: int = 100
    max_units: int = 1_000

    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Searches until the budget or the patience is spent; never worse than the start."""
        reason = named_start(search, self.start, rng)
        large = search.problem.num_units > self.max_units
        if search.best is None or search.best_period_s <= 0.0 or large:
            # Nothing is better than 0, and scores would be relative to it.
            return reason
        problem, graph = search.problem, rule_graph(search.problem)
        walker = Walker(problem, search.best_period_s, self.memory)
        here, here_s = search.best, search.best_period_s
        walk = walker.walk(here, streams(rng, 1))
        steps = self.steps * graph.num_nodes
        walk_evaluations = int(self.steps / STEPS_PER_EVALUATION) if steps else 0
        without_improvement = 0
        failed: set[bytes] = set()
        while (
            search.left > ORDER_EVALUATIONS + walk_evaluations
            and without_improvement < self.patience
        ):
            best_s = search.best_period_s
            worse = self.tolerance * LEAST_TOLERANCE ** rng.random()
            devices = order_of(problem, here)
            units = _order_near(graph, devices.chips(here), rng)
            search.spend(ORDER_EVALUATIONS)
            drawn = blake2b(units.tobytes(), digest_size=16).digest()
            found = None
            if drawn not in failed:
                found = _cut(problem, devices, units, here_s * (1.0 + worse))
            if found is None:
                without_improvement += drawn in failed
                failed.add(drawn)
                continue
            without_improvement += 1
            if steps:
                walker.begin(walk, found)
                walker.advance(walk, steps)
                search.spend(walk_evaluations)
                found = walker.best(walk)
            found_s = search.period(found)
            if found_s <= max(here_s, search.best_period_s * (1.0 + DRIFT * rng.random())):
                here, here_s = found, found_s
            if search.best_period_s < best_s:
                without_improvement = 0
        return reason


def _order_near(graph: RuleGraph, chip_of: Ints, rng: np.random.Generator) -> Ints:
    """Units in an order near that of their chips."""
    by_chip = np.argsort(chip_of[graph.units], kind="stable")
    return graph.units[order_near(graph, by_chip.astype(np.int32), rng)]


def _cut(
    problem: PartitionProblem, devices: DeviceOrder, units: Ints, limit_s: float
) -> Ints | None:
    """The partition along an order of units and of devices, if its period is at most `limit_s`."""
    cuts = chain_windows(windows_along(along(problem, devices), units), limit_s)
    return devices.devices(chips_from_cuts(problem, units, cuts)) if cuts.size else None


HALVINGS = 12
"""Periods that are tried at most."""


def resegment(search: Search, walk: Walk, position: Ints) -> None:
    """Looks for better cuts of an order by chip, then by `position`; offers them to `search`.

    Local search changes which units are neighbours, the dynamic programme of `dp` where they are
    divided; where dependencies are kept, the order by chip is topological.

    Args:
        search: its best period is what is to be beaten.
        walk: its best partition, which is valid, has the chips, and their devices.
        position: `[N]`, places of the units in a topological order.
    """
    problem, order = search.problem, DeviceOrder(walk.best_device)
    units = np.flatnonzero(~problem.clonable)
    along_units = units[np.lexsort((position[units], walk.best[units]))].astype(np.int32)
    windows = windows_along(along(problem, order), along_units)
    low = float(problem.compute_s.sum()) / float(problem.chip_speed.sum())
    high = search.best_period_s
    for _ in range(HALVINGS):
        if high - low <= 1e-6 * high or not search.left:
            return
        # Optima lie close to what is known, so guesses lean towards it.
        middle = high - 0.25 * (high - low)
        cuts = chain_windows(windows, middle * (1.0 + SLACK))
        if not cuts.size:
            low = middle
            continue
        found = search.period(order.devices(chips_from_cuts(problem, along_units, cuts)))
        if not found < high:
            return
        high = found


def late_position(problem: PartitionProblem) -> Ints:
    """`[N]`, places of the units in the order in which each stands as late as it can."""
    order = topological_orders(problem, 2)[-1].units
    position = np.zeros(problem.num_units, np.int32)
    position[order] = np.arange(order.size)
    return position


UNITS_PER_STEP = 100
"""Units that an evaluation looks at in the time of one step, which looks at what it changes."""

LEAST_STEPS = 4
"""Steps that an evaluation stands for at least: on small graphs calls and records cost as much."""

MANY_UNITS = 10_000
"""Units above which only the best walk's order is cut again, because that takes seconds."""


@dataclass(frozen=True)
@checked(walks=at_least(1), round=at_least(1), memory=at_least(1), patience=at_least(1))
class LocalSearch(SearchStrategy):
    """Walks of late-accepted moves from the solution of `dp`, under the analytic model.

    After each round the order that the best partition of each walk implies is cut again by dynamic
    programming, which shifts all cuts at once; walks that fall behind go on from the best one.

    Attributes:
        walks: independent walks, at least 1.
        round: evaluations that each walk is worth in a round, at least 1. On larger graphs they
            stand for several steps each.
        memory: steps that late acceptance looks back, at least 1.
        patience: rounds without a better partition after which it ends, at least 1.
        simulated: whether the simulator chooses among the best partitions. Then a period that
            cannot be beaten does not end the search: of many such partitions some simulate faster.
    """

    name: ClassVar[str] = "local_search"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "moves of units and cuts, from the best contiguous cuts"

    walks: int = 4
    round: int = 500
    memory: int = 500
    patience: int = 5
    simulated: bool = False

    @property
    def asks_evaluator(self) -> bool:
        """True if the simulator chooses the answer."""
        return self.simulated

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """As for every `SearchStrategy`; then the simulator chooses, if it is asked."""
        evaluator = budget.evaluator if self.simulated else None
        if evaluator is not None:
            budget = replace(budget, enough_s=0.0)
        found = super().solve(problem, evaluate, rng, budget)
        if evaluator is None or found.chip_of is None:
            return found
        rows = [found.chip_of, *found.runners_up]
        periods = evaluator.evaluate(np.stack(rows)).period_s
        first = rows.pop(int(periods.argmin()))
        return replace(found, chip_of=first, runners_up=tuple(rows))

    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Searches until budget or patience is spent; never worse than `dp` at the same budget."""
        reason = find_start(search, rng)
        if search.best is None or search.best_period_s <= 0.0:
            # Nothing is better than 0, and scores would be relative to it.
            return reason
        problem, position = search.problem, late_position(search.problem)
        walker = Walker(problem, search.best_period_s, self.memory)
        walks = [walker.walk(search.best, streams(rng, 1)) for _ in range(self.walks)]
        steps_each = max(problem.num_units // UNITS_PER_STEP, LEAST_STEPS)
        without_improvement = 0
        while search.left >= self.walks and without_improvement < self.patience:
            before_s = search.best_period_s
            worth = min(self.round, search.left // self.walks)
            rows = side_by_side(partial(walker.advance, steps=worth * steps_each), walks)
            search.spend((worth - 1) * self.walks)
            for row in rows:
                search.period(row)
            by_period = sorted(walks, key=_best_s)
            for walk in by_period[: 1 if problem.num_units > MANY_UNITS else None]:
                resegment(search, walk, position)
            worst = max(walks, key=_best_s)
            if search.best_period_s < _best_s(worst):
                walker.begin(worst, search.best)
            better = search.best_period_s < before_s
            without_improvement = 0 if better else without_improvement + 1
        return reason


def _best_s(walk: Walk) -> float:
    return float(walk.best_s[0])
