"""What a planner decides: devices of sets of ops, and what happens where one may not be had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Bools, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem


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
