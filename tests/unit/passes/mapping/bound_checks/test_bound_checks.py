"""Dual feasible functions as the paper defines them, in fractions."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mcm_passes.mapping.bound_checks.bound_checks import copies_do_not_fit, units_do_not_pack
from tests.generators.branching_problems import branching_problem


def needed_bins(shares):
    """Fekete and Schepers (2001), theorem 5, for k up to 100; None where one has no room."""
    if any(x > 1 for x in shares):
        return None
    totals = []
    for k in range(1, 101):
        images = (
            x if ((k + 1) * x).denominator == 1 else Fraction(int((k + 1) * x), k) for x in shares
        )
        totals.append(sum(images, Fraction(0)))
    return max(totals)


@given(
    st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=3),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(2, 4),
)
def test_units_and_weights_need_as_many_bins_as_in_fractions(sizes, length, part, chips):
    problem = branching_problem(chips=chips, chains=3, length=length)
    units = np.resize([*sizes, 0.5, 0.25], problem.num_units)
    weights = np.resize([64 * round(1 + 50 * size) for size in sizes], problem.num_units)
    limits = dataclasses.replace(
        problem.limits, sram_bytes=(int(weights.sum()) // chips // 64 * 64,) * chips
    )
    problem = dataclasses.replace(
        problem, compute_s=units, weight_bytes=weights.astype(np.int64), limits=limits
    )
    period_s = float(units.sum() / chips if part == 1 else units.max() * part)
    shares = [Fraction(size) / Fraction(period_s) for size in units.tolist()]
    bins = needed_bins(shares)
    assert units_do_not_pack(problem, period_s) == (bins is None or bins > chips)
    if all(share <= 1 for share in shares):
        held = [Fraction(int(size), limits.sram_bytes[0]) for size in weights]
        needed = needed_bins(held)
        too_large = weights.sum() > sum(limits.sram_bytes)
        assert copies_do_not_fit(problem, period_s) == (
            bool(too_large) or needed is None or needed > chips
        )
