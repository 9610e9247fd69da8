"""Which points no other one beats: the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mcm_compiler.arrays.types import Bools
from mcm_compiler.exploration.records import Measure

_ROWS = 256
"""Points that are compared with all others at once."""

MEASURES: Final[Mapping[Measure, Callable[[Mapping[str, Any]], float | None]]] = {
    "throughput": lambda point: (
        None if point["throughput_per_s"] is None else -point["throughput_per_s"]
    ),
    "latency": lambda point: point["latency_s"],
    "chips": lambda point: point["chips"],
    "sram": lambda point: point["sram_bytes"],
    "area": lambda point: point.get("package_mm2"),
    "energy": lambda point: point.get("energy_j"),
}
"""What a point is judged by, less being better; None where nothing is known of it."""


def known_measures(points: Sequence[Mapping[str, Any]]) -> tuple[Measure, ...]:
    """Measures that all points that ran know, in the order of `MEASURES`."""
    ran = [point for point in points if not point["faults"]]
    return tuple(
        name for name, of in MEASURES.items() if all(of(point) is not None for point in ran)
    )


def on_front(points: Sequence[Mapping[str, Any]], measures: Sequence[Measure]) -> list[bool]:
    """Whether each point is on the front: none is as good in all measures and better in one.

    Of points that are equal in all of them each is. Those that did not run are not.

    Args:
        points: as `PointFacts`.
        measures: names from `MEASURES`, which all points that ran know.
    """
    ran = [at for at, point in enumerate(points) if not point["faults"]]
    values = np.array(
        [[MEASURES[name](points[at]) for name in measures] for at in ran], np.float64
    ).reshape(len(ran), len(measures))
    beaten = _beaten(values)
    front = {at for at, lost in zip(ran, beaten.tolist(), strict=True) if not lost}
    return [at in front for at in range(len(points))]


def _beaten(values: np.ndarray[Any, np.dtype[np.float64]]) -> Bools:
    """`[points]`, whether another row is nowhere greater and somewhere less."""
    beaten = np.zeros(len(values), np.bool_)
    for begin in range(0, len(values), _ROWS):
        rows = values[begin : begin + _ROWS, None, :]
        as_good = (values[None] <= rows).all(axis=2)
        better = (values[None] < rows).any(axis=2)
        beaten[begin : begin + _ROWS] = (as_good & better).any(axis=-1)
    return beaten
