"""Re-segmentation: new cuts of the order that a partition implies."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.families.ring.contiguous.contiguous_kernels import chain_windows
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.families.ring.contiguous.greedy import chips_from_cuts
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.search.search import Search

ROOM = 1e-9
"""Relative room for the rounding of running sums."""

HALVINGS = 12
"""Periods that are tried at most."""


def resegment(search: Search, problem: PartitionProblem, chip_of: Ints, position: Ints) -> None:
    """Looks for better cuts of the order by chip, then by `position`; offers them to `search`.

    Local search changes which units are neighbours, the dynamic programme of `dp` where they are
    divided; where dependencies are kept, the order by chip is topological.

    Args:
        search: its best period is what is to be beaten.
        problem: the problem.
        chip_of: `[N]`, a valid partition.
        position: `[N]`, places of the units in a topological order.
    """
    units = np.flatnonzero(~problem.clonable)
    order = units[np.lexsort((position[units], chip_of[units]))].astype(np.int32)
    windows = windows_along(problem, order)
    low = float(problem.compute_s.sum()) / float(problem.chip_speed.sum())
    high = search.best_period_s
    for _ in range(HALVINGS):
        if high - low <= 1e-6 * high or not search.left:
            return
        # Optima lie close to what is known, so guesses lean towards it.
        middle = high - 0.25 * (high - low)
        cuts = chain_windows(windows, middle * (1.0 + ROOM))
        if not cuts.size:
            low = middle
            continue
        found = search.period(chips_from_cuts(problem, order, cuts))
        if not found < high:
            return
        high = found


def late_position(problem: PartitionProblem) -> Ints:
    """`[N]`, places of the units in the order in which each stands as late as it can."""
    order = topological_orders(problem, 2)[-1].units
    position = np.zeros(problem.num_units, np.int32)
    position[order] = np.arange(order.size)
    return position
