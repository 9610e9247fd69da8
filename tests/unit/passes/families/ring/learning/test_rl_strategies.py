"""Strategies that learn, and what they add to a portfolio."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, SearchMonitor
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text import spec_text
from mcm_models.policy.layout import POLICIES, PolicyCard, PolicyLayout, initial_weights
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.learning import recipes
from mcm_passes.families.ring.learning.rl import SHOTS, TEMPERATURES, Rl, RlFinetune, RlZeroshot
from mcm_passes.families.ring.learning.tasks import Task
from mcm_passes.families.ring.solver.batch import ProblemSampler
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.generators.partition_problems import make_problem

LAYOUT = PolicyLayout(2, 16, 16, 6, 1, 4)


@pytest.fixture(autouse=True)
def small_policies(monkeypatch):
    """Recipes with a policy that compiles fast."""
    small = dataclasses.replace(
        recipes.Recipe(),
        layout=LAYOUT,
        ppo=PpoSettings(epochs=2, learning_rate=1e-3, node_scores=100.0),
    )
    monkeypatch.setitem(recipes.RECIPES, "default", small)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "policy.safetensors"
    POLICIES.save(path, initial_weights(LAYOUT, 0), PolicyCard(LAYOUT, "pretraining", 1.0))
    return str(path)


@pytest.fixture
def case(branches, true_times):
    """A problem whose evaluator finds the units at odd places twice as slow."""
    problem = branches()
    return problem, true_times(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))


def run(strategy, problem, evaluations=400, seed=0, **changes):
    budget = Budget(evaluations, effort_s=0.5, **changes)
    return strategy.solve(problem, AnalyticPeriods(problem), np.random.default_rng(seed), budget)


def evaluated(evaluator, chip_of):
    return float(evaluator.evaluate(chip_of[None]).period_s[0])


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_learning_beats_as_many_random_draws(branches, routing):
    problem = branches(routing)
    fast = AnalyticPeriods(problem)
    learned = run(Rl(), problem)
    assert learned.evaluations == 400
    drawn = ProblemSampler.of(problem).sample(np.random.default_rng(0), 400)
    assert fast(learned.chip_of) < fast.periods(drawn).min()


@pytest.mark.parametrize("name", ["rl", "rl-zeroshot", "rl-finetune"])
def test_the_same_seed_gives_the_same_answer(branches, checkpoint, name):
    text = name if name == "rl" else f'{name}{{policy="{checkpoint}"}}'
    spec = spec_text.parse_one(text)
    strategy = spec_text.instantiate(STRATEGIES.get(name), spec)
    assert spec_text.print_one(name, strategy) == text.replace('"', "")
    problem = branches()
    first, second = run(strategy, problem, 60), run(strategy, problem, 60)
    assert first.chip_of.tobytes() == second.chip_of.tobytes()
    assert [r.tobytes() for r in first.runners_up] == [r.tobytes() for r in second.runners_up]
    other = run(strategy, problem, 60, seed=1)
    assert [r.tobytes() for r in other.runners_up] != [r.tobytes() for r in first.runners_up]


@pytest.mark.parametrize("learned", [Rl(), Rl(reward="judge"), Rl(samples=30)])
def test_budgets_are_kept(case, learned):
    problem, evaluator = case
    outcome = run(learned, problem, 50, evaluator=evaluator)
    assert outcome.evaluations == (30 if learned.samples else 50)
    assert evaluator.asked == (50 if learned.reward == "judge" else 0)


def test_a_search_ends_when_it_is_cancelled_or_cannot_get_better(branches):
    problem = branches()
    monitor = SearchMonitor(on_best=lambda row, period_s: monitor.cancel())
    assert run(Rl(), problem, monitor=monitor).evaluations == 20
    assert run(Rl(), problem, enough_s=1.0).evaluations == 20


@pytest.fixture
def tasks(monkeypatch):
    """Starts and orders of all tasks that are made."""
    made = []
    of = Task.of

    def noted(problem, recipe, rewards, start=None, order=None, best_s=None):
        made.append((start, order))
        return of(problem, recipe, rewards, start, order, best_s)

    monkeypatch.setattr(Task, "of", noted)
    return made


def with_patience(monkeypatch, patience):
    changed = dataclasses.replace(recipes.RECIPES["default"], patience=patience)
    monkeypatch.setitem(recipes.RECIPES, "default", changed)


def test_a_search_that_stands_still_starts_anew_around_the_best(branches, tasks, monkeypatch):
    problem = branches()
    with_patience(monkeypatch, 2)
    outcome = run(Rl(), problem)
    assert len(tasks) > 2
    assert tasks[0][0] is None
    assert len({order.tobytes() for _, order in tasks}) > 1
    fast = AnalyticPeriods(problem)
    # Along random orders of their own there is no start.
    starts = [fast(start) for start, _ in tasks[1:] if start is not None]
    assert len(starts) > 1
    assert starts == sorted(starts, reverse=True)
    assert starts[-1] >= fast(outcome.chip_of)
    tasks.clear()
    with_patience(monkeypatch, 0)
    run(Rl(), problem)
    assert len(tasks) == 1


def test_a_policy_that_does_not_learn_draws_along_every_order(branches, tasks, checkpoint):
    problem = branches()
    each = SHOTS * len(TEMPERATURES)
    outcome = run(RlZeroshot(checkpoint), problem, 4 * each)
    orders = [order.tobytes() for _, order in tasks]
    assert 1 < len(set(orders)) == len(orders)
    assert outcome.evaluations == 4 * each
    tasks.clear()
    run(RlZeroshot(checkpoint), problem, each)
    assert len(tasks) == 1


def test_a_policy_learns_around_the_best_of_its_draws(branches, tasks, checkpoint):
    problem = branches()
    fast = AnalyticPeriods(problem)
    draws = 3 * SHOTS * len(TEMPERATURES)
    drawn = run(RlZeroshot(checkpoint), problem, draws)
    ways = len(tasks)
    tasks.clear()
    outcome = run(RlFinetune(checkpoint, draws=draws), problem, draws + 40)
    assert outcome.evaluations == draws + 40
    assert [start is None for start, _ in tasks[: ways + 1]] == [True] * ways + [False]
    assert fast(tasks[ways][0]) == fast(drawn.chip_of)
    assert fast(outcome.chip_of) <= fast(drawn.chip_of)


def test_effort_bounds_the_updates(branches):
    assert run(Rl(effort_s=1e-9), branches()).evaluations == 0
    few = run(Rl(effort_s=0.02), branches()).evaluations
    assert 0 < few < 400


def test_the_evaluator_decides_what_is_best(case):
    problem, evaluator = case
    outcome = run(Rl(reward="judge"), problem, evaluator=evaluator)
    others = [evaluated(evaluator, row) for row in outcome.runners_up]
    assert evaluated(evaluator, outcome.chip_of) <= min(others)


@pytest.mark.parametrize("start", ["dp", "known"])
def test_a_search_from_a_start_is_never_worse(case, checkpoint, start):
    problem, evaluator = case
    dp = run(ContiguousDp(), problem).chip_of
    for strategy in (Rl(start=start, reward="judge"), RlFinetune(checkpoint, start=start)):
        outcome = run(strategy, problem, 200, evaluator=evaluator, known=(dp,))
        measure = (lambda row: evaluated(evaluator, row)) if strategy.reward == "judge" else None
        measure = measure or AnalyticPeriods(problem)
        assert measure(outcome.chip_of) <= measure(dp)


def test_without_anything_known_there_is_no_start(branches):
    outcome = run(Rl(start="known"), branches())
    assert outcome.chip_of is None
    assert "start from" in outcome.reason


def test_what_cannot_be_placed_is_told(branches):
    problem = branches(pins=[(0, 5), (33, 0)])
    outcome = run(Rl(), problem)
    assert outcome.chip_of is None
    assert "pins" in outcome.reason
    tight = run(Rl(), branches(sram=2000), 40)
    assert tight.chip_of is None
    assert "none of 40" in tight.reason


def test_a_missing_policy_is_diagnosed(branches, tmp_path):
    with pytest.raises(CompileError, match="MCM-L001"):
        run(RlZeroshot(policy=str(tmp_path / "none")), branches())


@pytest.mark.parametrize(
    "text",
    ["rl{recipe=best}", "rl{reward=money}", "rl{samples=-1}", "rl-finetune{effort_s=-1}",
     "rl-zeroshot{samples=-1}"],
)  # fmt: skip
def test_options_are_checked(text):
    spec = spec_text.parse_one(text)
    with pytest.raises(CompileError, match="MCM-U002"):
        spec_text.instantiate(STRATEGIES.get(spec.name), spec)


def test_a_portfolio_tells_what_learning_gained(case):
    problem, evaluator = case
    rl = "rl{start=known,reward=judge,samples=200}"
    outcome = run(Portfolio(("dp", rl), slack=1.0), problem, evaluator=evaluator)
    classical = evaluated(evaluator, run(ContiguousDp(), problem).chip_of)
    best = evaluated(evaluator, outcome.chip_of)
    assert outcome.found_by == rl
    assert outcome.learned.share == pytest.approx(classical / best - 1.0)
    assert outcome.learned.share > 0


def test_a_portfolio_without_learning_tells_no_gain(case):
    problem, evaluator = case
    assert run(Portfolio(("dp",)), problem, evaluator=evaluator).learned is None


def test_learning_that_brings_nothing_is_not_kept():
    problem = make_problem([1.0, 1.0], [(0, 1)], chips=6)
    outcome = run(Portfolio(("dp", "rl{start=known,samples=20}")), problem)
    assert outcome.found_by == "dp"
    assert outcome.learned.share == 0.0


NO_JAX = """
import sys
from mcm_compiler import CompileOptions, compile_model, load_target
compile_model("zoo:plain-cnn{stages=2,blocks=2,width=8,image_size=8}", load_target("mcm4"),
              CompileOptions(level=LEVEL, partitioner=PARTITIONER, samples=50))
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"jax", "flax", "optax", "torch"}, loaded
"""


@pytest.mark.parametrize("partitioner", ["auto", "rl-zeroshot"])
def test_compiles_that_do_not_learn_load_no_jax(tmp_path, checkpoint, partitioner):
    if partitioner != "auto":
        partitioner = f'{partitioner}{{policy="{checkpoint}"}}'
    code = NO_JAX.replace("LEVEL", "2").replace("PARTITIONER", repr(partitioner))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["rl", "rl-zeroshot", "rl-finetune"])
def test_what_takes_no_time_has_finite_rewards(checkpoint, name):
    strategy = {
        "rl": Rl(),
        "rl-zeroshot": RlZeroshot(policy=checkpoint),
        "rl-finetune": RlFinetune(policy=checkpoint),
    }[name]
    problem = make_problem([0.0, 0.0], [(0, 1)], tensor_bytes=0, relay_us=0.0, chips=6)
    outcome = run(strategy, problem, evaluations=20)
    assert AnalyticPeriods(problem)(outcome.chip_of) == 0.0
