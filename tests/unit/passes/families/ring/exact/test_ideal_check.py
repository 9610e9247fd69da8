"""The check of order ideals weighs few of them where periods leave chips little time."""

from __future__ import annotations

import dataclasses
import math
import operator

import pytest

from mcm_passes.families.ring.exact.ideal_check import IdealCheck, front
from mcm_passes.families.ring.objectives.label_check import EnergyCheck, LabelCheck
from mcm_passes.families.ring.proof_checkers import no_chain_is_faster
from tests.generators.branching_problems import branching_problem
from tests.generators.objective_problems import objective_problem
from tests.generators.partition_problems import make_problem

FEW = 6_000


@pytest.mark.parametrize("speeds", [(1.0,) * 4, (1.0, 2.0, 1.0, 0.5)])
@pytest.mark.parametrize("asked", [{}, {"routing": "strict"}, {"pins": [(0, 0)]}])
def test_few_ideals_decide_periods_near_the_total_work(asked, speeds):
    """The last chips have no time for more than a period each, which decides what others do."""
    problem = branching_problem(chips=4, chains=3, **asked)
    limits = dataclasses.replace(problem.limits, chip_speed=speeds)
    problem = dataclasses.replace(problem, limits=limits)
    shared_s = problem.compute_s.sum() / sum(speeds)
    assert no_chain_is_faster(problem, 1.0001 * shared_s, FEW) is True
    assert no_chain_is_faster(problem, 1.02 * shared_s, FEW) is False


@pytest.mark.parametrize(("routing", "none"), [("strict", True), ("relay", False)])
@pytest.mark.parametrize("above", [1.1, 1.9])
def test_a_dependency_beside_a_path_over_another_chip_bars_a_window(routing, none, above):
    """No chip has time for two of three units that each wait for the one before."""
    problem = make_problem([1.0] * 3, [(0, 1), (0, 2), (1, 2)], relay_us=0.0, routing=routing)
    period_s = above * 1e-6
    check = IdealCheck(problem, FEW)
    assert check.none_below(period_s) is none
    assert not none or check.windows <= 5
    labels = LabelCheck(problem, FEW)
    assert labels.none_within(math.inf, period_s, strictly=False) is none


@pytest.mark.parametrize(("alike", "kept"), [(True, {2: [4.0]}), (False, {2: [4.0], 3: [5.0]})])
def test_chains_of_more_chips_are_dropped_once_fewer_are_as_good(alike, kept):
    known = {}
    for chips, value in ((3, 5.0), (2, 4.0), (2, 6.0)):
        front(operator.le, alike)(known, chips, value)
    assert {chips: states for chips, states in known.items() if states} == kept


def test_a_chain_with_times_counts_each_window_once():
    problem = make_problem([2, 3, 2, 3, 2], [(u, u + 1) for u in range(4)], chips=3)
    periods, times = IdealCheck(problem, FEW), LabelCheck(problem, FEW)
    assert periods.none_below(6e-6) is False
    assert times.none_within(math.inf, 6e-6, strictly=False) is False
    assert times.windows == periods.windows


@pytest.mark.parametrize("seed", [0, 4, 6])
def test_energies_are_weighed_alike_on_chips_of_all_speeds(seed):
    problem = objective_problem(seed)
    checks = []
    for speeds in ((), tuple(1.0 + c for c in range(problem.num_chips))):
        limits = dataclasses.replace(problem.limits, chip_speed=speeds)
        checks.append(EnergyCheck(dataclasses.replace(problem, limits=limits), problem.energy, FEW))
        checks[-1].none_takes_less(1.0001 * float(problem.energy.unit_j.sum()))
    assert checks[0].alike == checks[1].alike
    assert checks[0].windows == checks[1].windows
