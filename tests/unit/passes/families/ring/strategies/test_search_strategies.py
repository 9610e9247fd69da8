"""What all searching strategies promise: valid, deterministic, within budget, never worse."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, Outcome, SearchMonitor
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text import spec_text
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.strategies import local_search
from mcm_passes.families.ring.strategies.local_search import LocalSearch, Reorder
from mcm_passes.families.ring.strategies.multilevel import Multilevel
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.search import Search
from tests.generators.partition_problems import make_problem

FROM_DP = [
    LocalSearch(),
    Multilevel(coarsest=8),
    Multilevel(coarsest=8, tries=3),
    Reorder(),
    Portfolio(("dp", "local_search")),
    LocalSearch(simulated=True),
]
NAMES = [strategy.name for strategy in FROM_DP]


def run(strategy, problem, evaluations=3000, seed=0, **budget):
    return strategy.solve(
        problem,
        AnalyticPeriods(problem),
        np.random.default_rng(seed),
        Budget(evaluations, effort_s=0.5, **budget),
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_is_registered_under_its_name(name):
    strategy = STRATEGIES.get(name)
    assert strategy.name == name
    assert strategy.summary


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_answers_are_valid_and_no_better_than_the_bound(branches, strategy, routing):
    problem = branches(routing, pins=((0, 0), (5, 1)))
    outcome = run(strategy, problem)
    assert outcome.chip_of is not None, outcome.reason
    assert lower_bound(problem).seconds <= period(problem, outcome.chip_of) < np.inf
    assert outcome.chip_of[[0, 5]].tolist() == [0, 1]
    for row in outcome.runners_up:
        assert np.isfinite(period(problem, row))


@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_the_same_seed_gives_the_same_bytes(branches, true_times, strategy):
    problem = branches()
    evaluator = true_times(problem, 1.0 + 0.1 * np.sin(np.arange(problem.num_units)))
    first, second = (run(strategy, problem, 700, seed=3, evaluator=evaluator) for _ in range(2))
    assert first.chip_of.tobytes() == second.chip_of.tobytes()
    assert [r.tobytes() for r in first.runners_up] == [r.tobytes() for r in second.runners_up]
    assert first.evaluations == second.evaluations


@pytest.mark.parametrize("evaluations", [1, 2, 300])
@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_the_budget_of_evaluations_is_kept(branches, strategy, evaluations):
    problem = branches()
    fast = AnalyticPeriods(problem)
    asked = 0

    def evaluate(chip_of):
        nonlocal asked
        asked += 1
        return fast(chip_of)

    outcome = strategy.solve(
        problem, evaluate, np.random.default_rng(0), Budget(evaluations, effort_s=0.1)
    )
    # A portfolio gives as many to each member.
    assert outcome.evaluations <= evaluations * len(getattr(strategy, "members", "1"))
    assert asked <= outcome.evaluations + 40  # known partitions are looked up again


@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_without_time_the_first_partitions_are_the_answer(branches, strategy):
    outcome = run(strategy, branches(), 100_000, seconds=1e-9)
    assert outcome.evaluations <= 256
    assert outcome.chip_of is not None


@pytest.mark.parametrize("strategy", FROM_DP[:4], ids=NAMES[:4])
def test_a_search_that_is_cancelled_keeps_its_best(branches, strategy):
    problem = branches()
    seen = []

    def note(chip_of, period_s):
        seen.append((chip_of.copy(), period_s))
        monitor.cancel()

    monitor = SearchMonitor(note)
    outcome = run(strategy, problem, 1_000_000, monitor=monitor)
    assert outcome.evaluations < 1_000_000
    assert seen
    assert period(problem, outcome.chip_of) == min(period_s for _, period_s in seen)


@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_progress_tells_of_ever_better_partitions(branches, strategy):
    problem = branches()
    seen = []
    outcome = run(
        strategy,
        problem,
        monitor=SearchMonitor(lambda chip_of, seconds: seen.append((seconds, chip_of.copy()))),
    )
    assert seen
    periods = [seconds for seconds, _ in seen]
    assert periods == [period(problem, chip_of) for _, chip_of in seen]
    # Of equals, fewer chips are better.
    assert periods == sorted(periods, reverse=True)
    assert min(periods) == period(problem, outcome.chip_of)


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_never_worse_than_the_start(branches, strategy, routing):
    problem = branches(routing)
    start = period(problem, run(ContiguousDp(), problem).chip_of)
    assert period(problem, run(strategy, problem).chip_of) <= start


def test_local_search_beats_contiguous_cuts_where_chains_are_parallel(branches):
    problem = branches(chips=7)
    start = period(problem, run(ContiguousDp(), problem).chip_of)
    assert period(problem, run(LocalSearch(), problem, 10_000).chip_of) < start


def test_walks_that_find_nothing_better_end_before_the_budget(branches):
    problem = branches(chips=7)
    few = run(LocalSearch(patience=2), problem, 60_000)
    many = run(LocalSearch(patience=5), problem, 60_000)
    assert few.evaluations <= many.evaluations < 60_000
    assert period(problem, many.chip_of) <= period(problem, few.chip_of)


def test_reorder_improves_on_contiguous_cuts_with_and_without_walks(branches):
    problem = branches(chips=7)
    start = period(problem, run(ContiguousDp(), problem).chip_of)
    for strategy in (Reorder(start="dp"), Reorder(start="dp", steps=0, patience=1000)):
        found = run(strategy, problem, 10_000)
        assert period(problem, found.chip_of) < start


def test_reorder_goes_on_from_what_is_known(branches):
    problem = branches(chips=7)
    known = run(Reorder(), problem).chip_of
    few = run(Reorder(start="known"), problem, 1, known=(np.zeros_like(known), known))
    assert few.chip_of.tobytes() == known.tobytes()
    large = run(Reorder(start="known", max_units=3), problem, known=(np.zeros_like(known),))
    assert not large.chip_of.any()


@pytest.mark.parametrize("seed", [6, 8])
def test_reorder_ends_where_a_small_graph_has_no_further_orders(seed):
    rng = np.random.default_rng(seed)
    pairs = [(u, v) for u in range(8) for v in range(u + 1, 8)]
    edges = [pair for pair in pairs if rng.random() < 0.35]
    times = rng.integers(1, 9, 8).tolist()
    problem = make_problem(times, edges, chips=4, tensor_bytes=int(rng.choice([64, 100_000])))
    found = run(Reorder(tolerance=0.0, steps=0), problem, 200_000)
    assert found.evaluations < 5_000


def test_tries_share_the_budget_and_the_first_is_that_of_one_alone(branches):
    problem = branches(chips=7)
    both = run(Multilevel(coarsest=8, tries=2), problem, 4000)
    assert both.evaluations <= 4000
    alone = run(Multilevel(coarsest=8), problem, 2000)
    assert period(problem, both.chip_of) <= period(problem, alone.chip_of)


@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_a_period_that_cannot_be_beaten_ends_the_search(branches, strategy):
    outcome = run(strategy, branches(), 100_000, enough_s=1.0)
    assert outcome.evaluations <= 256


@pytest.mark.parametrize(
    "strategy", [LocalSearch(), Multilevel(), Portfolio(("dp", "local_search"), slack=0.0)]
)
def test_a_period_within_the_gap_of_the_budget_ends_the_search(branches, strategy):
    problem = branches(chips=7)
    long = run(strategy, problem, 5000)
    best_s = period(problem, long.chip_of)
    # A proven period that the best is 0.04 % above.
    short = run(strategy, problem, 5000, enough_s=best_s / 1.0004, gap=5e-4)
    assert period(problem, short.chip_of) <= best_s * (1 + 5e-4)
    assert short.evaluations < long.evaluations
    strict = run(strategy, problem, 5000, enough_s=best_s / 1.0004, gap=3e-4)
    assert strict.evaluations == long.evaluations


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_the_default_portfolio_is_as_good_as_exact_search(branches, routing):
    problem = branches(routing)
    exact = run(STRATEGIES.get("cpsat")(), problem)
    assert period(problem, run(Portfolio(), problem).chip_of) <= period(problem, exact.chip_of)


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_portfolio_is_never_worse_than_a_member(branches, routing, seed):
    problem = branches(routing, chips=7)
    members = ("dp", "multilevel", "local_search")
    found = period(problem, run(Portfolio(members), problem, 2000, seed).chip_of)
    for name in members:
        outcome = run(STRATEGIES.get(name)(), problem, 2000, seed)
        assert found <= period(problem, outcome.chip_of), name


@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_what_does_not_fit_has_a_reason(branches, strategy):
    outcome = run(strategy, branches(sram=5000), 200)
    assert outcome.chip_of is None
    assert outcome.reason


@pytest.mark.parametrize(
    "text",
    [
        "local_search{walks=0}",
        "local_search{round=0}",
        "portfolio{slack=-1}",
        'portfolio{members=""}',
        "multilevel{coarsest=0}",
        "multilevel{heat=-1}",
        "multilevel{tries=0}",
        "reorder{steps=-1}",
        "reorder{tolerance=-0.1}",
        "reorder{memory=0}",
        "local_search{patience=0}",
    ],
)
def test_options_out_of_range_are_refused(text):
    spec = spec_text.parse_one(text)
    with pytest.raises(CompileError) as caught:
        spec_text.instantiate(STRATEGIES.get(spec.name), spec)
    assert caught.value.diagnostics[0].code == "MCM-U002"


def test_members_begin_with_what_is_known_where_cuts_of_orders_do_not_fit(branches, monkeypatch):
    problem = branches()
    found = run(Portfolio(("cpsat",)), problem).chip_of
    nothing = Outcome(None, 0, reason="no cuts fit")
    monkeypatch.setattr(local_search, "dp_outcome", lambda *_: nothing)
    search = Search(problem, AnalyticPeriods(problem), Budget(known=(found,)))
    assert local_search.find_start(search, np.random.default_rng(0)) == ""
    assert np.array_equal(search.best, found)
    alone = Search(problem, AnalyticPeriods(problem), Budget())
    local_search.find_start(alone, np.random.default_rng(0))
    assert not np.array_equal(alone.best, found)


def test_what_is_known_but_breaks_rules_is_no_start(branches, monkeypatch):
    monkeypatch.setattr(
        local_search, "dp_outcome", lambda *_: Outcome(None, 0, reason="no cuts fit")
    )

    def started(problem, *known):
        search = Search(problem, AnalyticPeriods(problem), Budget(known=known))
        return local_search.find_start(search, np.random.default_rng(0)), search.best

    problem = branches()
    _, drawn = started(problem)
    valid = run(Portfolio(("cpsat",)), problem).chip_of
    backwards = (problem.num_chips - 1 - valid).astype(np.int32)
    assert np.isinf(AnalyticPeriods(problem)(backwards))
    reason, found = started(problem, backwards)
    assert reason == ""
    assert np.array_equal(found, drawn)
    reason, found = started(problem, backwards, valid)
    assert reason == ""
    assert np.array_equal(found, valid)
    reason, found = started(branches(sram=5000), backwards)
    assert found is None
    assert reason


def test_large_problems_that_no_cuts_fit_are_refused_at_once(branches, monkeypatch):
    monkeypatch.setattr(
        local_search, "dp_outcome", lambda *_: Outcome(None, 0, reason="no cuts fit")
    )
    monkeypatch.setattr(local_search, "searches_cost_minutes", lambda _problem: True)
    problem = branches()
    search = Search(problem, AnalyticPeriods(problem), Budget())
    assert local_search.find_start(search, np.random.default_rng(0)) == "no cuts fit"
    assert search.best is None


@pytest.mark.parametrize("strategy", FROM_DP, ids=NAMES)
def test_what_takes_no_time_is_placed(strategy):
    problem = make_problem([0.0, 0.0], [(0, 1)], tensor_bytes=0, relay_us=0.0)
    assert period(problem, run(strategy, problem).chip_of) == 0.0
