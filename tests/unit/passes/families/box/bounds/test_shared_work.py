"""Prices of classes: the best of two are those of the linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcm_passes.families.box.bounds.box_bound import best_prices, priced


def _least(times: np.ndarray, counts: np.ndarray) -> float:
    """The linear program itself: shares of ops on classes."""
    from ortools.linear_solver import pywraplp

    solver: Any = pywraplp.Solver.CreateSolver("GLOP")
    longest = solver.NumVar(0, solver.infinity(), "")
    share = [
        [solver.NumVar(0, 1 if np.isfinite(t) else 0, "") for t in row] for row in times.tolist()
    ]
    for row in share:
        solver.Add(sum(row) == 1)
    for c, count in enumerate(counts.tolist()):
        used = [(row[c], t) for row, t in zip(share, times[:, c].tolist(), strict=True)]
        solver.Add(sum(x * t for x, t in used if np.isfinite(t)) <= count * longest)
    solver.Minimize(longest)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(solver.Objective().Value())


@pytest.mark.parametrize("seed", range(24))
def test_the_dual_is_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = 1 + seed % 4
    times = rng.choice([0.5, 1.0, 2.0, 3.0, 7.0, np.inf], (int(rng.integers(1, 12)), classes))
    times[np.isinf(times).all(axis=1), int(rng.integers(classes))] = 1.0
    counts = rng.integers(1, 5, classes).astype(np.float64)
    prices = best_prices(times, counts)
    assert (prices * counts).sum() == pytest.approx(1.0)
    bound, _ = priced(times, prices)
    least = _least(times, counts)
    assert bound <= least * (1 + 1e-9)
    assert bound == pytest.approx(least, rel=1e-9 if classes <= 2 else 2e-4)
