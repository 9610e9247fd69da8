"""Draws along an order in which no chip holds more than a better partition could."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_passes.families.ring.contiguous.contiguous_kernels import window_limits
from mcm_passes.families.ring.contiguous.contiguous_windows import Windows, windows_along
from mcm_passes.families.ring.solver.monotone_paths import (
    fewest_windows,
    monotone_path_marginals,
    sample_monotone_paths,
    sample_windowed,
)

RELAXED = (1.0 - 1e-6, 1.02, 1.1)
"""Multiples of the best period that are tried in turn, until some monotone path keeps them: where
an
order holds nothing better, what is nearly as good may lead to one that does."""


@dataclass(frozen=True, eq=False)
class ImprovingWindows:
    """The objective as a constraint of the sampler (ours).

    In constraint solvers a solution tightens what is searched next. Here the best period so far,
    with the memory of the chips, limits the window of positions that a chip may hold: by its work,
    its weights and what it passes on, never by more than the fast model counts, so that no better
    partition along the order is ruled out. Which of the rest is drawn the policy decides.

    Attributes:
        windows: of the problem along the order, without live activations.
        best_s: the best period so far, infinite where there is none.
    """

    windows: Windows
    best_s: Callable[[], float]

    @classmethod
    def of(
        cls, problem: PartitionProblem, order: Ints, best_s: Callable[[], float]
    ) -> ImprovingWindows:
        """Prepares the limits along `order[n]`, all units that are not clonable."""
        return cls(windows_along(problem, order, count_live=False), best_s)

    def improvable(self) -> bool:
        """Whether anything along the order may be better than the best so far."""
        earliest, possible = window_limits(self.windows, self.best_s() * RELAXED[0])
        return fewest_windows(earliest, possible) <= self.windows.chips.sram_bytes.size

    def draw(self, log_p: Floats, streams: np.ndarray) -> tuple[Ints, Floats]:
        """Exact draws and the marginals of their distribution.

        Args:
            log_p: `[n, C]` by position, as for `sample_windowed`.
            streams: `[R]`, states of random streams.

        Returns:
            `[R, n]` chips by position and `[n, C]` log-marginals, of the smallest of `RELAXED`
            that leaves any monotone path; without limits where none does.
        """
        best_s = self.best_s()
        for multiple in RELAXED:
            earliest, possible = window_limits(self.windows, best_s * multiple)
            drawn, marginals = sample_windowed(log_p, earliest, possible, streams.size, streams)
            if drawn[0, 0] >= 0:
                return drawn, marginals
        return sample_monotone_paths(log_p, streams.size, streams), monotone_path_marginals(log_p)


def may_improve(problem: PartitionProblem, order: Ints, best_s: float) -> bool:
    """Whether a partition along `order[n]` may have a shorter period than `best_s`."""
    return ImprovingWindows.of(problem, order, lambda: best_s).improvable()
