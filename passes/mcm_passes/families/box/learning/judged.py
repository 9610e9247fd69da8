"""What placers that learn decide about, ask and credit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator, StepResults
from mcm_compiler.diagnostics import CompileError, quote

Singles = npt.NDArray[np.float32]


def standardised(values: Floats) -> Floats:
    """Values minus their mean, in standard deviations; 0 where all are equal."""
    deviation = float(values.std())
    if deviation <= 1e-12 * max(1e-300, float(np.abs(values).max(initial=0.0))):
        return np.zeros_like(values)
    return (values - values.mean()) / deviation


def local_credit(devices: Ints, results: StepResults) -> Singles:
    """`[K, M]`, how little the device is loaded that each group went to, against other samples.

    A step's signal is one number for all choices. What a device has to do, its ops and the copies
    that leave it, is known per device; its negative, standardised, minus its mean over the samples
    of each group says which of their choices put too much on one device (as for packages of
    chips, our derivation).

    Args:
        devices: `[K, M]`.
        results: of the same K placements.
    """
    load = np.take_along_axis(results.busy_s + results.copy_s, devices.astype(np.int64), axis=1)
    relief = standardised(-load)
    return (relief - relief.mean(axis=0)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class PlacementUnits:
    """Sets of ops that run together, with the devices that they may have.

    Attributes:
        of_op: `[N]`, unit of each op.
        first: `[U]`, the first op of each.
        allowed: `[U, D]`.
        instead: `[U]`, the device of a unit that may not have the one it is given: of those
            allowed the fastest, of equals the first.
    """

    of_op: Ints
    first: Longs
    allowed: Bools
    instead: Ints

    @property
    def count(self) -> int:
        """U."""
        return len(self.first)

    def placements(self, devices: Ints) -> Ints:
        """`[K, N]` of devices for units `[K, U]`, moved where they are not allowed."""
        may = self.allowed[np.arange(self.count), devices]
        return np.where(may, devices, self.instead)[:, self.of_op].astype(np.int32)


def placement_units(problem: StepProblem, box: Box) -> PlacementUnits:
    """The units of a problem."""
    first = np.unique(problem.together, return_index=True)[1]
    allowed = problem.allowed[first]
    times = np.where(problem.allowed, problem.time_s[:, box.kind_of], 0.0)
    sums = np.zeros(allowed.shape)
    np.add.at(sums, problem.together, times)
    instead = np.where(allowed, sums, np.inf).argmin(axis=1).astype(np.int32)
    return PlacementUnits(problem.together, first, allowed, instead)


@dataclass(eq=False)
class Judged:
    """Asks the evaluator, and remembers.

    Attributes:
        evaluator: of the problem.
        evaluations: placements that were simulated.
        best_score: of the best, infinite before the first.
        best: `[N]`, empty before the first.
        history: evaluations and the best score by then, where it fell.
        any_fits: whether one fitted.
    """

    evaluator: StepEvaluator
    evaluations: int = 0
    best_score: float = np.inf
    best: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    history: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    any_fits: bool = False

    def judge(self, placements: Ints) -> StepResults:
        """Results of placements `[K, N]`.

        Raises:
            CompileError: MCM-D060 for scores that are no positive numbers.
        """
        results = self.evaluator.evaluate(placements)
        scores = results.score
        wrong = int(len(scores) - (np.isfinite(scores) & (scores >= 0.0)).sum())
        if wrong:
            raise CompileError.of(
                "MCM-D060",
                f"{wrong} of {len(scores)} scores are no numbers from 0 up",
                at=f"evaluator {quote(self.evaluator.name)}",
            )
        for place, score in zip(placements, scores.tolist(), strict=True):
            self.evaluations += 1
            if score < self.best_score:
                self.best_score, self.best = score, place.copy()
                self.history.append((self.evaluations, score))
        self.any_fits |= bool(results.fits.any())
        return results
