"""A gradient held against central differences along random directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gradient_checks.engines import Run

Array = np.ndarray[Any, Any]

STEP = 1e-5
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """What one direction showed.

    Attributes:
        source: the input that was changed, or `all`.
        measured: central difference.
        computed: gradient times direction.
        error: their distance over the larger, or over what the loss can resolve.
    """

    source: str
    measured: float
    computed: float
    error: float


def differences(
    run: Run,
    loss: str,
    gradients: Mapping[str, str],
    feeds: Mapping[str, Array],
    sources: Sequence[str],
    *,
    seed: int,
    step: float = STEP,
) -> list[Difference]:
    """Changes each source alone along a random direction, then all at once.

    Args:
        run: runs the model with its gradients.
        loss: name of the loss.
        gradients: by source the output that is its gradient; what is missing counts as zeros.
        feeds: where to differentiate, in double.
        sources: inputs of floating point.
        seed: of the directions.
        step: of the differences, relative to each source's root mean square, or to 1.
    """
    rng = np.random.default_rng(seed)
    directions = {name: rng.normal(size=feeds[name].shape) for name in sources}
    values = run(feeds)
    together = [list(sources)] if len(sources) > 1 else []
    return [
        _one(run, loss, gradients, feeds, changed, (directions, values, step))
        for changed in [*([name] for name in sources), *together]
    ]


def _one(
    run: Run,
    loss: str,
    gradients: Mapping[str, str],
    feeds: Mapping[str, Array],
    changed: Sequence[str],
    more: tuple[Mapping[str, Array], Mapping[str, Any], float],
) -> Difference:
    directions, values, step = more
    computed, slopes = 0.0, 0.0
    for name in changed:
        if name in gradients:
            slope = np.asarray(values[gradients[name]], np.float64)
            computed += float((slope * directions[name]).sum())
            slopes += float(np.abs(slope).sum())
    ends: list[float] = []
    for sign in (1.0, -1.0):
        moved = {name: feeds[name] + sign * step * directions[name] for name in changed}
        ends.append(float(np.asarray(run({**feeds, **moved})[loss]).reshape(())))
    measured = (ends[0] - ends[1]) / (2.0 * step)
    # Differences cannot tell less than what the loss is rounded to.
    rounding = 1e-15 * max(abs(ends[0]), abs(ends[1]), 1.0) / step
    scale = max(abs(measured), abs(computed), 1e-3 * slopes, rounding / TOLERANCE)
    source = changed[0] if len(changed) == 1 else "all"
    return Difference(source, measured, computed, abs(measured - computed) / scale)
