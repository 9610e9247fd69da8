"""Random orders near that of the best partition, segmented again and refined by moves."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.contiguous.contiguous_kernels import chain_windows
from mcm_passes.families.ring.contiguous.contiguous_windows import chips_from_cuts, windows_along
from mcm_passes.families.ring.moves.walks import Walker
from mcm_passes.families.ring.solver.linear_extensions import order_near
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.families.ring.strategies.start import named_start
from mcm_passes.mapping.machine.device_order import DeviceOrder, along, order_of
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph
from mcm_passes.mapping.search.search import Search, SearchStrategy

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
