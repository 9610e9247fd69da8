"""How good a model is: errors, order among all mappings, and order within a graph.

What a mapper needs is order within a graph, near the optimum; errors and order over all graphs are
mostly about which graph it is (85 % of the variance is between graphs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Floats, Longs

FEWEST = 4
"""Mappings that an order has."""


APART = 0.01
"""Periods that differ by a smaller share are as good as each other."""


@dataclass(frozen=True)
class Figures:
    """Of guesses for mappings of graphs that a model has not learned from; shares, not percent.

    Attributes:
        error: mean of `|guess - measured| / measured`.
        spearman: rank correlation of normalised throughputs over all mappings.
        within: mean of the rank correlations of single graphs.
        better_half: likewise, among the better half of the mappings of each graph.
        regret: mean by which the mapping that is guessed to be best is slower than the best; where
            several are, by which they are on average.
        pairs: share of the pairs of mappings of a graph in the right order, of those whose periods
            differ by more than `APART`; pairs with equal guesses count half.
    """

    error: float
    spearman: float
    within: float
    better_half: float
    regret: float
    pairs: float


def figures_of(
    guessed: Sequence[Floats], measured: Sequence[Floats], bounds: Sequence[float]
) -> Figures:
    """Figures of some graphs.

    Args:
        guessed: of each graph, periods of its mappings.
        measured: likewise.
        bounds: of each graph.
    """
    errors = np.concatenate([np.abs(g / m - 1) for g, m in zip(guessed, measured, strict=True)])
    speeds = [
        np.concatenate([bound / p for bound, p in zip(bounds, periods, strict=True)])
        for periods in (guessed, measured)
    ]
    within, half, regret, pairs = [], [], [], []
    for g, m in zip(guessed, measured, strict=True):
        regret.append(float(m[g == g.min()].mean() / m.min() - 1))
        pairs.append(_ordered_pairs(g, m))
        if len(m) < FEWEST or m.max() <= m.min() * (1 + 1e-9):
            continue
        within.append(spearman(g, m))
        best = np.argsort(m, kind="stable")[: -(-len(m) // 2)]
        if m[best].max() > m[best].min() * (1 + 1e-9):
            half.append(spearman(g[best], m[best]))
    return Figures(
        float(errors.mean()),
        spearman(speeds[0], speeds[1]),
        float(np.mean(within)) if within else 0.0,
        float(np.mean(half)) if half else 0.0,
        float(np.mean(regret)),
        float(np.mean(np.concatenate(pairs))) if sum(map(len, pairs)) else 0.5,
    )


def _ordered_pairs(guessed: Floats, measured: Floats) -> Floats:
    """`[P]`, of each pair that is apart 1 where its order is right, 0 where wrong, 1/2 if equal."""
    faster, slower = np.nonzero(measured[:, None] * (1 + APART) < measured[None, :])
    return 0.5 + 0.5 * np.sign(guessed[slower] - guessed[faster])


def spearman(left: Floats, right: Floats) -> float:
    """Correlation of ranks; 0 where one side is all the same."""
    a, b = _ranks(left), _ranks(right)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


def folds(graphs: int, count: int, seed: int) -> list[Longs]:
    """The graphs of each part, drawn without regard to what they are."""
    order = np.random.default_rng(seed).permutation(graphs)
    return [np.sort(part) for part in np.array_split(order, count)]


def _ranks(values: Floats) -> Floats:
    """Equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]
