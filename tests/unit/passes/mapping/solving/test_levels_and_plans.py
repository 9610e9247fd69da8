"""Levels of effort, and limits of memory that follow the plans."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import Budget
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text import spec_text
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.solving import planned_memory
from mcm_passes.mapping.solving.lowered_evaluator import LazyEvaluator
from mcm_passes.mapping.solving.planned_memory import TIGHT, solve_with_plans
from mcm_passes.mapping.solving.solve import solve


@pytest.mark.parametrize("level", range(4))
def test_levels_name_registered_strategies(level):
    spec = spec_text.parse_one(load_level(level).strategy)
    strategy = spec_text.instantiate(STRATEGIES.get(spec.name), spec)
    for member in getattr(strategy, "members", ()):
        part = spec_text.parse_one(member)
        spec_text.instantiate(STRATEGIES.get(part.name), part)


@pytest.mark.parametrize(("value", "fits"), [("0", True), ("0.05", True), ("1.5", False)])
def test_the_gap_that_ends_a_search_is_a_key_of_levels(tmp_path, value, fits):
    path = tmp_path / "own.toml"
    path.write_text(f"strategy = 'dp'\ngap = {value}\n", encoding="utf-8")
    if fits:
        assert load_level(path).gap == float(value)
    else:
        with pytest.raises(CompileError, match=r"gap is 1\.5"):
            load_level(path)
    assert load_level(2).gap == 5e-4
    assert load_level(3).gap == 0.0


def test_large_problems_get_fewer_evaluations(branches):
    small, large = branches(), branches(chains=100, length=100)
    for level in range(4):
        few, many = _evaluations(level, large), _evaluations(level, small)
        assert 200 <= few <= many
    assert _evaluations(2, large) < _evaluations(2, small)


def _evaluations(level, problem):
    return load_level(level).evaluations(problem.num_units)


class Planner:
    """An evaluator whose plans take `share` of the estimate on each chip."""

    name = "planner"

    def __init__(self, problem, share):
        self.problem = problem
        self.share = share
        self.asked = 0

    def evaluate(self, partitions):
        self.asked += len(partitions)
        limits = np.array(self.problem.limits.sram_bytes)
        need = np.array(
            [evaluate(self.problem, row).memory_bytes * self.share for row in partitions]
        ).astype(np.int64)
        kind = np.where((need > limits).any(1), ResultKind.OVERFLOWS, ResultKind.RUNS).astype(
            np.int32
        )
        zeros = np.zeros(need.shape)
        return BatchResults(kind, zeros[:, 0], zeros[:, 0], need, zeros, zeros)


def solver(one, budget=None):
    return solve(
        one, ContiguousDp(), np.random.default_rng(0), budget or Budget(), strategy_text="dp"
    )


def test_estimates_far_from_the_limit_need_no_evaluator(branches):
    problem = branches()
    evaluator = Planner(problem, 2.0)
    solve_with_plans(problem, solver, Budget(evaluator=evaluator))
    assert evaluator.asked == 0


def tight(branches):
    """The problem on chips that its best partition just fits."""
    roomy = branches()
    most = int(evaluate(roomy, solver(roomy).chip_of).memory_bytes.max())
    return branches(sram=int(most / (TIGHT + 0.05)))


def test_plans_that_overflow_tighten_the_limits(branches):
    problem = tight(branches)
    evaluator = Planner(problem, 1.15)
    trusted, planned = (
        solver(problem),
        solve_with_plans(problem, solver, Budget(evaluator=evaluator)),
    )
    assert evaluator.evaluate(trusted.chip_of[None]).kind[0] == ResultKind.OVERFLOWS
    assert evaluator.evaluate(planned.chip_of[None]).kind[0] == ResultKind.RUNS
    assert planned.bound == trusted.bound
    assert planned.period_s == evaluate(problem, planned.chip_of).period_s


def test_the_only_placement_on_one_chip_is_planned_without_a_search(branches):
    roomy = branches(chips=1)
    only = np.zeros(roomy.num_units, np.int32)
    need = int(evaluate(roomy, only).memory_bytes.max())
    problem = branches(chips=1, sram=need // 2)

    def search(*_):
        raise AssertionError("nothing is sought")

    def planned(share):
        budget = Budget(evaluator=Planner(problem, share))
        return solve_with_plans(problem, search, budget, given=lambda _problem, row, _bound: row)

    assert planned(0.4).tolist() == only.tolist()
    with pytest.raises(CompileError, match="the memory of all 1 placement"):
        planned(0.9)


def test_without_an_evaluator_estimates_are_trusted(branches):
    problem = tight(branches)
    first = solver(problem)
    assert solve_with_plans(problem, solver, Budget()).chip_of.tolist() == first.chip_of.tolist()


def test_where_no_plan_fits_the_first_answer_stays_for_lowering_to_explain(branches):
    problem = tight(branches)
    found = solve_with_plans(problem, solver, Budget(evaluator=Planner(problem, 50.0)))
    assert found.chip_of.tolist() == solver(problem).chip_of.tolist()


@pytest.mark.parametrize(("chips", "percent"), [(4, 85), (7, 90)])
def test_a_faster_partition_that_the_planner_alone_accepts_is_taken(branches, chips, percent):
    """The estimate keeps room for gaps that plans do without."""
    roomy = branches(chips=chips)
    most = int(evaluate(roomy, solver(roomy).chip_of).memory_bytes.max())
    problem = branches(chips=chips, sram=most * percent // 100)
    limits = dataclasses.replace(problem.limits, activation_packing=1.2)
    problem = dataclasses.replace(problem, limits=limits)
    trusted = solver(problem)
    found = solve_with_plans(problem, solver, Budget(evaluator=Planner(problem, 0.5)))
    assert found.bound.seconds <= found.period_s < 0.99 * trusted.period_s
    # What overflows by its plan is not taken.
    most, other = (evaluate(problem, one.chip_of).memory_bytes.max() for one in (trusted, found))
    assert most < other
    planner = Planner(problem, limits.sram_bytes[0] / (0.5 * (most + other)))
    same = solve_with_plans(problem, solver, Budget(evaluator=planner))
    assert same.chip_of.tolist() == trusted.chip_of.tolist()


@pytest.mark.parametrize(("percent", "packing"), [(100, None), (76, 1.0)])
def test_large_problems_skip_estimates_that_leave_nothing(branches, monkeypatch, percent, packing):
    """Searches for any partition take minutes there, and the next estimate has one."""
    monkeypatch.setattr(planned_memory, "searches_cost_minutes", lambda _problem: True)
    roomy = branches()
    most = int(evaluate(roomy, solver(roomy).chip_of).memory_bytes.max())
    problem, asked = branches(sram=most * percent // 100), []

    def asking(one, budget):
        asked.append(one.limits.activation_packing)
        return solver(one, budget)

    found = solve_with_plans(problem, asking, Budget(evaluator=Planner(problem, 0.9)))
    assert asked[0] == (packing or problem.limits.activation_packing)
    assert problem.limits.activation_packing != 1.0
    assert np.isfinite(found.period_s)


def test_all_rounds_share_the_time(branches):
    problem = tight(branches)
    given = []

    def slow(one, budget):
        given.append(budget.seconds)
        time.sleep(0.02)
        return solver(one, budget)

    solve_with_plans(problem, slow, Budget(seconds=0.03, evaluator=Planner(problem, 1.15)))
    first, second, *others = given
    assert first == 0.03
    assert 0.0 <= second <= 0.01
    assert others == [0.0] * len(others)


def test_a_problem_without_a_solution_stays_an_error(branches):
    def fails(_problem, _budget):
        raise CompileError(Diagnostic("MCM-P008", "nothing", at="here"))

    with pytest.raises(CompileError):
        solve_with_plans(branches(), fails, Budget())


def test_a_lazy_evaluator_is_built_once_and_late(branches):
    problem = branches()
    built = []

    def build():
        built.append(1)
        return Planner(problem, 1.0)

    evaluator = LazyEvaluator(build)
    assert not built
    rows = np.zeros((2, problem.num_units), np.int32)
    assert len(evaluator.evaluate(rows).kind) == 2
    assert (evaluator.name, evaluator.evaluate(rows).kind.tolist()) == ("planner", [0, 0])
    assert len(built) == 1
