"""Partial decisions: which classes are partitioned, and what that leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem


class ConflictMasks:
    """The conflicts of a problem as Python's whole numbers, bit k for class k.

    Arithmetic on them is the fastest that Python has for sets of up to some thousand classes.

    Args:
        problem: not changed while this lives.
    """

    def __init__(self, problem: DecisionProblem) -> None:
        self.num_classes = problem.num_classes
        words = np.packbits(problem.conflicts, axis=1, bitorder="little")
        self.conflicts = [int.from_bytes(row.tobytes(), "little") for row in words]
        self.blocked = _mask(problem.blocked)

    @cached_property
    def everything(self) -> int:
        """All classes."""
        return (1 << self.num_classes) - 1


class PartialDecision:
    """Which classes are partitioned, and which may still be.

    Args:
        masks: of the problem.

    Attributes:
        partitioned: classes that are partitioned, bit k for class k.
        forbidden: classes that may not be: blocked ones and what conflicts with a partitioned one.
    """

    __slots__ = ("_masks", "forbidden", "partitioned")

    def __init__(self, masks: ConflictMasks) -> None:
        self._masks = masks
        self.partitioned = 0
        self.forbidden = masks.blocked

    def partition(self, index: int) -> int | None:
        """Partitions a class.

        Returns:
            The classes that this forbids and that were not forbidden before, as a mask; None if
            the class is forbidden itself, and then nothing changes.
        """
        if self.forbidden >> index & 1:
            return None
        conflicts = self._masks.conflicts[index]
        fresh = conflicts & ~self.forbidden
        self.forbidden |= conflicts
        self.partitioned |= 1 << index
        return fresh

    def copy(self) -> PartialDecision:
        """An independent state of the same decision."""
        other = PartialDecision(self._masks)
        other.partitioned, other.forbidden = self.partitioned, self.forbidden
        return other

    def decision(self) -> NDArray[np.bool_]:
        """The partitioned classes, `[K]` bool."""
        flags = np.zeros(self._masks.num_classes, dtype=bool)
        flags[list(bits(self.partitioned))] = True
        return flags


def bits(mask: int) -> Iterator[int]:
    """The classes in a mask, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _mask(flags: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
