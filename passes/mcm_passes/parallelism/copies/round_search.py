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
from mcm_passes.parallelism.copies.stage_windows import stage_windows
from mcm_passes.parallelism.replicas.replicas import on_share

LEAST_GAIN = 0.005
"""Share by which a longer round, or more pipelines, must be faster: both make graph or memory of a
package larger."""

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
    """The fastest round that is found with stages copied unequally, along one order of the units.

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
    windows = stage_windows(line, topological_orders(line, 1)[0].units)
    times = StageTimes(line, windows)
    for classes in sizes:
        stages = CopiedStages(times, classes)
        for replicas, each in numbers:
            if not times.fits(each, below_s * replicas):
                continue
            at_once = replicas * classes
            found = stages.fastest(each, below_s * at_once)
            if found is None:
                continue
            share = on_share(problem, each, replicas)
            chip_of = first_order(share).devices(found.chip_of.ravel())
            placed = evaluate(unrolled(share, classes), chip_of)
            seconds = placed.period_s / at_once
            if placed.valid and seconds <= below_s:
                best = Round(replicas, each, classes, np.array(chip_of, np.int32), seconds)
                below_s = seconds * (1.0 - LEAST_GAIN)
    return best
