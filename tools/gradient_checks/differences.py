"""A gradient held against central differences along random directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gradient_checks.engines import Run

Array = np.ndarray[Any, Any]

STEP = 1e-5
FINE_STEP = 1e-7
"""For many pieces, where a larger step goes over an edge."""

COARSE_STEP = 1e-2
"""For what is rounded to float32 on its way, as parts of onnx's reference are."""
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
    groups: Sequence[Sequence[str]],
    *,
    seed: int,
    step: float = STEP,
) -> list[Difference]:
    """Changes each group of sources along a random direction.

    Args:
        run: runs the model with its gradients.
        loss: name of the loss.
        gradients: by source the output that is its gradient; what is missing counts as zeros.
        feeds: where to differentiate, in double.
        groups: inputs of floating point that move together.
        seed: of the directions.
        step: of the differences, over the root mean square of what is changed, 1 at most; from
            `COARSE_STEP` on they are of the fourth order.
    """
    rng = np.random.default_rng(seed)
    sources = sorted({name for group in groups for name in group})
    directions = {
        name: rng.normal(size=feeds[name].shape) * min(_size(feeds[name]) or 1.0, 1.0)
        for name in sources
    }
    more = (directions, run(feeds), step)
    return [_one(run, loss, gradients, feeds, group, more) for group in groups]


def _size(array: Array) -> float:
    return float(np.sqrt(np.mean(np.square(array)))) if array.size else 0.0


def alone_and_together(sources: Sequence[str]) -> list[list[str]]:
    """Each source as a group of its own, then all of them."""
    return [*([name] for name in sources), *([list(sources)] if len(sources) > 1 else [])]


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
    for steps in (1.0, -1.0, 2.0, -2.0) if step >= COARSE_STEP else (1.0, -1.0):
        moved = {name: feeds[name] + steps * step * directions[name] for name in changed}
        ends.append(float(np.asarray(run({**feeds, **moved})[loss]).reshape(())))
    measured = (ends[0] - ends[1]) / (2.0 * step)
    if len(ends) > 2:
        # Richardson's extrapolation leaves errors of the fourth order.
        measured = (4.0 * measured - (ends[2] - ends[3]) / (4.0 * step)) / 3.0
    # Differences cannot tell less than what the loss is rounded to.
    rounding = 1e-15 * max(abs(ends[0]), abs(ends[1]), 1.0) / step
    scale = max(abs(measured), abs(computed), 1e-3 * slopes, rounding / TOLERANCE)
    source = changed[0] if len(changed) == 1 else "all"
    return Difference(source, measured, computed, abs(measured - computed) / scale)
