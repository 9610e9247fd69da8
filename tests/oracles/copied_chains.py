"""The least period of stages copied unequally, by trying every chain of stages and groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil, inf


def least_chain_s(
    work: Sequence[float], weights: Sequence[int], chips: int, classes: int, sram: int
) -> float:
    """Seconds of a round of units in a row, whose tensors take neither time nor memory.

    Args:
        work: seconds of each unit.
        weights: bytes of each, its own.
        chips: that there are.
        classes: inferences of a round.
        sram: bytes of a chip.
    """

    @cache
    def chain(begin: int, end: int, level: int, left: int) -> float:
        if begin == end:
            return 0.0
        best = inf
        for cut in range(begin + 1, end + 1):
            for copies in range(1, min(level, left) + 1):
                inner = ceil(level / copies)
                fits = sum(weights[begin:cut]) <= sram
                options = [(1, inner * sum(work[begin:cut]) if fits else inf)]
                options += [
                    (each, chain(begin, cut, inner, each))
                    for each in range(2, left // copies + 1)
                    if copies > 1
                ]
                for each, seconds in options:
                    if seconds < best:
                        rest = chain(cut, end, level, left - copies * each)
                        best = min(best, max(seconds, rest))
        return best

    return chain(0, len(work), classes, chips)
