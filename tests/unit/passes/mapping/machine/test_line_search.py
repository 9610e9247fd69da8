"""Strategies for rings on small machines of every topology, against all placements by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_passes.mapping.machine.any_machine import ANY_MACHINE
from mcm_passes.mapping.models import periods_of
from mcm_passes.mapping.search.named import strategy_of
from tests.acme_mesh.tests.plain_mesh import period_s
from tests.generators.small_machines import machine_case
from tests.oracles.machine_bounds import wrong_bounds


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_no_bound_is_above_the_best_of_all_placements(first: int) -> None:
    """`tools/machine_bounds.py` does the same on 600 machines."""
    for seed in range(first, first + 20):
        assert not wrong_bounds(seed, Counter()), f"seed {seed}"


@pytest.mark.parametrize("text", ["local_search", "multilevel", "reorder", "portfolio"])
def test_strategies_find_valid_placements_near_the_best(text: str) -> None:
    ratios = []
    for seed in range(10):
        found = machine_case(seed)
        problem, periods = found.problem, periods_of(found.problem)
        along = ANY_MACHINE.adapted(text, strategy_of(text))
        assert along is not None
        rng, budget = np.random.default_rng(0), Budget(evaluations=2_000)
        outcome = along.solve(problem, periods, rng, budget)
        if outcome.chip_of is None:
            continue
        row = outcome.chip_of.tolist()
        assert found.holds(row)
        assert periods(outcome.chip_of) == pytest.approx(period_s(problem, found.machine, row))
        ratios.append(periods(outcome.chip_of) / found.best_s)
        if outcome.bound is not None:
            assert outcome.bound.seconds <= found.best_s * (1 + 1e-9)
    assert len(ratios) >= 5
    assert np.median(ratios) < 1.0 + 1e-9
    assert max(ratios) < 1.3


@pytest.mark.parametrize("seed", [3, 5])
def test_where_the_first_order_of_devices_has_no_room_others_are_searched(seed: int) -> None:
    found = machine_case(seed)
    problem, periods = found.problem, periods_of(found.problem)
    assert np.isfinite(found.best_s)
    search = strategy_of("local_search")
    outcome = search.solve(problem, periods, np.random.default_rng(0), Budget(evaluations=2_000))
    assert outcome.chip_of is not None
    assert found.holds(outcome.chip_of.tolist())
