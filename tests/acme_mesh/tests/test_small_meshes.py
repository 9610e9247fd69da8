"""Small meshes against all of their placements, by code that shares nothing with the compiler."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.models import evaluate, periods_of
from mcm_passes.mapping.search.named import strategy_of
from tests.acme_mesh.tests.plain_mesh import all_placements, is_valid, optimum_s, period_s
from tests.acme_mesh.tests.random_meshes import mesh_case
from tests.generators.chip_kinds import with_kinds
from tests.oracles.shown_bounds import verify_bound


@pytest.mark.parametrize("first", range(0, 300, 30))
def test_no_bound_is_above_the_best_of_all_placements(first: int) -> None:
    for seed in range(first, first + 30):
        case = mesh_case(seed)
        bound = lower_bound(case.problem)
        best_s = optimum_s(case.problem, case.mesh)
        assert bound.seconds <= best_s * (1 + 1e-9), f"seed {seed}: {bound.argument}"
        assert verify_bound(case.problem, bound), f"seed {seed}: {bound.proof}"


@pytest.mark.parametrize("seed", range(12))
def test_placements_on_chips_of_several_kinds_cost_what_is_added_up_by_hand(seed: int) -> None:
    case = mesh_case(seed, units=4)
    problem = with_kinds(case.problem, seed, lacking=0.2)
    rng, periods = np.random.default_rng(seed), periods_of(problem)
    rows = list(all_placements(problem))
    for k in rng.choice(len(rows), min(len(rows), 25), replace=False).tolist():
        row = np.array(rows[k], np.int32)
        by_hand = period_s(problem, case.mesh, rows[k])
        lacks = "unsupported" in {v.rule for v in evaluate(problem, row).violations}
        assert lacks == math.isinf(by_hand)
        if not lacks:
            assert evaluate(problem, row).period_s == pytest.approx(by_hand)
    found = strategy_of("local_search").solve(problem, periods, rng, Budget(evaluations=4_000))
    best_s = min(map(periods, (np.array(row, np.int32) for row in rows)), default=math.inf)
    assert found.chip_of is not None
    assert periods(found.chip_of) == pytest.approx(best_s)


@pytest.mark.parametrize("seed", range(40))
def test_every_placement_costs_what_is_added_up_by_hand(seed: int) -> None:
    case = mesh_case(seed, units=4)
    rng = np.random.default_rng(seed)
    rows = list(all_placements(case.problem))
    for k in rng.choice(len(rows), min(len(rows), 25), replace=False).tolist():
        found = evaluate(case.problem, np.array(rows[k], np.int32))
        assert found.period_s == pytest.approx(period_s(case.problem, case.mesh, rows[k]))
        broken = {v.rule for v in found.violations} - {"memory"}
        roomy = find_placement_violations(case.problem, np.array(rows[k], np.int32))
        assert broken == {v.rule for v in roomy}
        if is_valid(case.problem, rows[k]):
            assert not broken
        elif "memory" not in {v.rule for v in found.violations}:
            assert broken == {"acyclic"}


@pytest.mark.parametrize("seed", range(30))
def test_the_search_finds_the_best_placement_of_a_small_problem(seed: int) -> None:
    case = mesh_case(seed, units=4)
    rng = np.random.default_rng(seed)
    periods = periods_of(case.problem)
    found = strategy_of("local_search").solve(case.problem, periods, rng, Budget(evaluations=4_000))
    valid = [
        periods(np.array(row, np.int32))
        for row in all_placements(case.problem)
        if is_valid(case.problem, row)
    ]
    best_s = min(valid, default=float("inf"))
    if found.chip_of is None:
        assert best_s == float("inf")
        return
    assert is_valid(case.problem, found.chip_of.tolist())
    assert periods(found.chip_of) == pytest.approx(best_s)


def test_a_placement_on_a_circle_of_chips_is_refused() -> None:
    case = mesh_case(3, shape=(2, 2), units=5)
    refused = [
        row
        for row in all_placements(case.problem)
        if "acyclic" in {v.rule for v in evaluate(case.problem, np.array(row)).violations}
    ]
    assert refused
    assert not any(is_valid(case.problem, row) for row in refused)


def test_units_that_no_chip_in_use_runs_are_refused_and_so_are_pins_to_chips_that_lack_them() -> (
    None
):
    problem = with_kinds(mesh_case(4, shape=(2, 2), units=4).problem, 4)
    assert problem.kinds is not None
    assert not impossible(problem)
    kinds = problem.kinds
    runs = kinds.can_run.copy()
    runs[:, 1] = False
    nowhere = replace(problem, kinds=replace(kinds, runs=runs.ravel()))
    assert [fault.code for fault in impossible(nowhere)] == ["MCM-P041"]
    runs[:, 1] = True
    chip = int(np.flatnonzero(problem.kind_of == 1)[0])
    runs[1, 2] = False
    pinned = problem.pinned_chip.copy()
    pinned[2] = chip
    lacking = replace(problem, kinds=replace(kinds, runs=runs.ravel()), pinned_chip=pinned)
    (fault,) = impossible(lacking)
    assert fault.code == "MCM-P041"
    assert f"pinned to chip {chip}" in fault.message
