"""How far one method leads others at equal samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts.partition import Floats
from mcm_study.curves import Panel


def common_seeds(panel: Panel, methods: Sequence[str]) -> list[int]:
    """Seeds with which all of the methods were run on all graphs."""
    return sorted(set.intersection(*(set(panel.seeds(name)) for name in methods)))


def empty_seeds(panel: Panel, method: str, seeds: Sequence[int], count: int) -> int:
    """With how many seeds a method has found nothing valid at all after so many samples."""
    return sum(panel.nothing(method, seed, count) for seed in seeds)


def lead_percent(panel: Panel, ours: str, theirs: Sequence[str], count: int) -> Floats | None:
    """`[seeds]`, lead over the better of others after so many samples, in percent.

    A method that takes fewer samples counts with what it ends with. None where someone has found
    nothing valid at all, or was not measured.
    """
    if not {ours, *theirs} <= set(panel.methods):
        return None
    seeds = common_seeds(panel, (ours, *theirs))
    if not seeds or any(empty_seeds(panel, name, seeds, count) for name in (ours, *theirs)):
        return None
    found = np.array([_value(panel, ours, seed, count) for seed in seeds])
    best = np.max([[_value(panel, name, s, count) for s in seeds] for name in theirs], axis=0)
    return 100.0 * (found / best - 1.0)


def _value(panel: Panel, method: str, seed: int, count: int) -> float:
    curve = panel.curve(method, seed)
    return float(curve[min(count, curve.size) - 1])
