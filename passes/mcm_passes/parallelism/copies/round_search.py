"""The round with the most throughput: how many inferences, in how many pipelines, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.mapping.machine.device_order import along, first_order
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.parallelism.copies.copied_stages import CopiedStages, StageTimes
from mcm_passes.parallelism.copies.stage_windows import heavy_from, stage_windows
from mcm_passes.parallelism.replicas.replicas import on_share

LEAST_GAIN = 0.005
"""Share by which a longer round, or more pipelines, must be faster: both make graph or memory of a
package larger."""

MOST_STAGGERED = 3
"""Inferences of a round up to which stages without copies are staggered."""

FINE_BLOCKS = 640
"""Blocks of such an order, whose tables are few."""

MOST_UNITS = 6000
"""Units of a round at most: all that follows takes time for each of them."""


@dataclass(frozen=True, eq=False)
class Round:
    """Pipelines that compute several inferences together.

    Attributes:
        replicas: pipelines side by side.
        chips_each: chips of each.
        classes: L, inferences of a round of one pipeline.
        chip_of: `[L * N]`, a placement of the problem `unrolled` for one pipeline.
        seconds: per inference of the package, under the analytic model.
    """

    replicas: int
    chips_each: int
    classes: int
    chip_of: Ints
    seconds: float


def least_s(problem: PartitionProblem) -> float:
    """Seconds per inference that no round undercuts: all chips share its work."""
    return float(problem.compute_s.sum() / problem.chip_speed.sum()) * (1.0 - 1e-12)


def fastest_round(
    problem: PartitionProblem,
    numbers: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    below_s: float,
) -> Round | None:
    """The fastest round that is found along one order of the units.

    Its stages are copied unequally, or *staggered*: without copies, each class has bounds of its
    own, so that heavy units of some of them are on the chip before.

    Of rounds within `LEAST_GAIN` of each other the shortest is taken, then the one of fewest
    pipelines. No graph is looked at.

    Args:
        problem: of one inference on all chips.
        numbers: of pipelines that may be, each with the chips of one.
        sizes: numbers of inferences in a round that may be, ascending.
        below_s: seconds per inference of the package that it has to undercut.

    Returns:
        None where no round is found to be faster.
    """
    best: Round | None = None
    sizes = [size for size in sizes if size * problem.num_units <= MOST_UNITS]
    if not sizes or least_s(problem) >= below_s:
        return None
    line = along(problem, first_order(problem))
    units = topological_orders(line, 1)[0].units
    windows = stage_windows(line, units)
    times = StageTimes(line, windows)
    numbers = [(count, each) for count, each in numbers if times.fits(each, below_s * count)]

    def better(best: Round | None, stages: CopiedStages, classes: int) -> Round | None:
        for replicas, each in numbers:
            at_once = replicas * classes
            limit_s = below_s if best is None else best.seconds * (1.0 - LEAST_GAIN)
            found = stages.fastest(each, limit_s * at_once)
            if found is None:
                continue
            share = on_share(problem, each, replicas)
            chip_of = first_order(share).devices(found.chip_of.ravel())
            placed = evaluate(unrolled(share, classes), chip_of)
            seconds = placed.period_s / at_once
            if placed.valid and seconds <= limit_s:
                best = Round(replicas, each, classes, np.array(chip_of, np.int32), seconds)
        return best

    for classes in sizes if numbers else ():
        best = better(best, CopiedStages(times, classes), classes)
        if classes <= MOST_STAGGERED:
            best = better(best, _in_turns(line, units, classes, 0), classes)
    if best is not None and (heavy := heavy_from(windows.busy_s[0], windows.weights[0])):
        shared = int(np.searchsorted(windows.block_of[units], heavy))
        best = better(best, _in_turns(line, units, best.classes, shared), best.classes)
    return best


def _in_turns(line: PartitionProblem, units: Ints, classes: int, shared: int) -> CopiedStages:
    """Chains without copies along the units of one class after the other.

    From position `shared` on, classes take turns at each unit.
    """
    first = np.arange(classes)[:, np.newaxis] * line.num_units
    own, last = first + units[:shared], first + units[shared:]
    order = np.concatenate([own.ravel(), last.T.ravel()]).astype(np.int32)
    together = unrolled(line, classes)
    windows = stage_windows(together, order, FINE_BLOCKS)
    return CopiedStages(StageTimes(together, windows), 1)
