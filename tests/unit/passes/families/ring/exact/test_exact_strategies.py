"""Exact search on problems whose answers can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, LowerBound, SearchMonitor
from mcm_passes.families.ring import proof_checkers
from mcm_passes.families.ring.exact import cpsat
from mcm_passes.families.ring.exact.cpsat import CpSat
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.families.ring.order_encoding.chip_windows import chip_windows
from mcm_passes.families.ring.order_encoding.cpsat_model import CpSatModel, SearchResult
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.problem import order_ideals as order_ideals_module
from mcm_passes.mapping.problem.order_ideals import order_ideals
from mcm_passes.mapping.problem.rule_graph import rule_graph
from mcm_passes.mapping.search.search import Search
from tests.generators.partition_problems import make_problem
from tests.oracles.best_period import best_period
from tests.oracles.shown_bounds import verify_bound

CHAIN = [(0, 1), (1, 2), (2, 3)]
WIDE = [(u, 24) for u in range(24)]
"""24 sources: 2^24 order ideals."""

BESIDE = [(0, 1), (0, 3), (1, 2), (2, 3)]
"""A skip connection over two units."""


def solve(strategy, problem, **budget):
    return strategy.solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget(**budget)
    )


@pytest.mark.parametrize("strategy", [Ideals(), CpSat(), CpSat(ideals=0), CpSat(0.01, 0, 2)])
def test_a_chain_is_cut_where_it_must_be(strategy):
    problem = make_problem([3, 3, 3, 9], CHAIN)
    outcome = solve(strategy, problem)
    assert period(problem, outcome.chip_of) == pytest.approx(9e-6)
    assert outcome.bound.seconds == pytest.approx(9e-6, rel=1e-2)


@pytest.mark.parametrize(("routing", "best_us"), [("relay", 6.0), ("strict", 8.0)])
@pytest.mark.parametrize("strategy", [CpSat(), CpSat(ideals=0)])
def test_a_skip_connection_costs_a_chip_under_the_strict_rule(strategy, routing, best_us):
    # Relayed, the four units take three chips; else 1 and 2 must be with 0 or with 3.
    problem = make_problem([4, 4, 4, 4], BESIDE, chips=4, relay_us=2.0, routing=routing)
    outcome = solve(strategy, problem)
    assert period(problem, outcome.chip_of) == pytest.approx(best_us * 1e-6)
    assert outcome.bound.seconds == pytest.approx(best_us * 1e-6, rel=1e-3)


@pytest.mark.parametrize("sram", [3968, 3969, 4000, (4031, 3999)])
@pytest.mark.parametrize("strategy", [Ideals(), CpSat(), CpSat(ideals=0)])
def test_part_of_a_block_of_memory_saves_streamed_bytes(strategy, sram):
    weights = [(1464, [0]), (1459, [0]), (1081, [1]), (2579, [1]), (1149, [0, 1])]
    problem = make_problem(
        [1, 1], [(0, 1)], chips=2, sram=sram, stream=1e8, weights=weights, tensor_bytes=64
    )
    problem = problem.at_need()
    best_s = best_period(problem)
    outcome = solve(strategy, problem)
    assert period(problem, outcome.chip_of) == pytest.approx(best_s, rel=1e-9)
    assert outcome.bound.seconds <= best_s * (1.0 + 1e-9)
    for argument in (proof_checkers.IDEALS, proof_checkers.CPSAT):
        assert not argument.rules_out(problem, best_s * (1.0 + 1e-6))


def test_a_partition_that_is_not_adjacent_is_found_under_the_strict_rule():
    # Branches 0 -> 1 -> 3 and 0 -> 2 -> 3 on chips 0, 1, 2 and 3: no dependency is direct beside
    # a longer path, though two of them span two chips.
    problem = make_problem(
        [4, 4, 4, 4], [(0, 1), (0, 2), (1, 3), (2, 3)], chips=4, routing="strict"
    )
    outcome = solve(CpSat(), problem)
    assert period(problem, outcome.chip_of) == pytest.approx(4e-6)
    assert sorted(outcome.chip_of.tolist()) == [0, 1, 2, 3]
    assert solve(Ideals(), problem).bound.seconds == pytest.approx(4e-6)


def test_the_bound_says_how_it_was_proven():
    problem = make_problem([4, 4, 4, 1], BESIDE, chips=4, relay_us=2.0)
    by_ideals = solve(CpSat(), problem).bound
    assert by_ideals.proof == "ideals"
    assert "order ideals" in by_ideals.argument
    by_solver = solve(CpSat(ideals=0), problem).bound
    assert by_solver.proof == "cpsat"
    assert "CP-SAT" in by_solver.argument
    assert verify_bound(problem, by_ideals)
    assert verify_bound(problem, by_solver)


def test_a_bound_of_cpsat_that_nothing_else_shows_is_not_verified(monkeypatch):
    monkeypatch.setattr(proof_checkers, "FEW_WINDOWS", 1000)
    problem = make_problem([4] * 25, WIDE, chips=25)
    assert not verify_bound(problem, LowerBound(12e-6, "CP-SAT says so", "cpsat"))


def test_units_around_a_heavy_one_leave_it_no_chip():
    problem = make_problem([5, 5, 5, 5], CHAIN)
    bound = lower_bound(problem)
    assert bound.seconds == pytest.approx(10e-6, rel=1e-6)
    assert verify_bound(problem, bound)
    windows = chip_windows(problem, 10e-6)
    assert windows.low.tolist() == [0, 0, 1, 1]
    assert windows.high.tolist() == [1, 1, 2, 2]


def test_weights_alone_leave_a_unit_no_chip():
    weights = [(900, [u]) for u in range(4)]
    problem = make_problem([1, 1, 1, 1], CHAIN, weights=weights, sram=1000)
    assert chip_windows(problem, 1.0).empty


def test_a_link_that_must_carry_too_much_bounds_the_period():
    # Work forces a cut in the middle of the chain, and every tensor takes 20 us on a link.
    problem = make_problem([9, 9, 9, 9], CHAIN, chips=2, tensor_bytes=20_000)
    assert verify_bound(problem, LowerBound(19.99e-6, "", "link_cuts"))
    assert not verify_bound(problem, LowerBound(20.1e-6, "", "link_cuts"))
    assert solve(Ideals(), problem).bound.seconds == pytest.approx(20e-6, rel=1e-6)


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize(("units", "searched"), [(60, True), (330, False)])
def test_cpsat_is_asked_only_for_models_that_it_gets_to_search(
    monkeypatch, routing, units, searched
):
    """330 units that 20 chips each can hold are 6,270 Booleans, which presolve takes 5 s for."""
    asked = []

    def search(self, known, effort_s, **_):
        asked.append(effort_s)
        return SearchResult("unknown", None, 0.0, effort_s)

    monkeypatch.setattr(CpSatModel, "search", search)
    work = np.random.default_rng(0).uniform(3.0, 4.0, units).tolist()
    problem = make_problem(work, [], chips=20, routing=routing)
    outcome = solve(CpSat(ideals=0, tolerance=1e-9), problem, effort_s=5.0)
    assert outcome.chip_of is not None
    assert bool(asked) is searched


@pytest.mark.parametrize("strategy", [Ideals(), CpSat(), CpSat(ideals=0)])
def test_that_no_partition_exists_is_proven(strategy):
    # Both ends are pinned to one chip, so that all is there, and its buffers do not fit.
    problem = make_problem(
        [1, 1, 1], [(0, 1), (1, 2)], chips=2, sram=3000, tensor_bytes=1000, pins=[(2, 0), (0, 0)]
    )
    outcome = solve(strategy, problem)
    assert outcome.chip_of is None
    assert outcome.reason.startswith("none exists")


def test_what_a_limit_leaves_open_is_called_unproven():
    # Eight chips that three weights each fill almost to the brim, in no order that is contiguous.
    sizes = [20 + u for u in range(8)] + [40 + 3 * u % 8 for u in range(8)]
    sizes += [110 - sizes[u] - sizes[8 + u] for u in range(8)]
    weights = [(1000 * size, [u]) for u, size in enumerate(sizes)]
    problem = make_problem([1] * 25, WIDE, chips=8, sram=118_000, weights=weights, tensor_bytes=64)
    outcome = solve(CpSat(max_units=10), problem)
    assert outcome.chip_of is None
    assert "too many to prove" in outcome.reason
    outcome = solve(CpSat(), problem, effort_s=1e-9)
    assert outcome.chip_of is None
    assert "could not prove" in outcome.reason


def test_graphs_with_too_many_ideals_are_given_up_early():
    problem = make_problem([1] * 25, WIDE)
    assert order_ideals(rule_graph(problem), 1000) is None
    outcome = solve(Ideals(1000), problem)
    assert evaluate(problem, outcome.chip_of).valid
    assert outcome.bound.proof != "ideals"


def test_what_bitsets_of_ideals_may_take_is_limited(monkeypatch):
    graph = rule_graph(make_problem([1] * 4, BESIDE, chips=4))
    assert order_ideals(graph, 1000) is not None
    monkeypatch.setattr(order_ideals_module, "MOST_BYTES", 2)
    # Three ideals of four units each are more than two bytes have bits for.
    assert order_ideals(graph, 1000) is None


def test_ideals_prove_a_bound_where_windows_run_out():
    """Periods near the bound take few windows, and each that nothing is below is a new bound."""
    edges = [(u, u + 3) for u in range(12)] + [(u, u + 5) for u in range(10)]
    problem = make_problem([5, 4, 3] * 5, edges, chips=5, relay_us=3.0)
    best = solve(Ideals(), problem).bound
    start = lower_bound(problem).seconds
    assert best.seconds > 1.3 * start
    between = set()
    for windows in range(1, 1500, 50):
        bound = solve(Ideals(windows=windows), problem).bound
        assert start <= bound.seconds <= best.seconds
        assert verify_bound(problem, bound)
        between.add(bound.seconds)
        if "slower are all chains of" in bound.argument:
            assert bound.seconds < best.seconds
    # The first bound, the optimum, and what is in between.
    assert len(between) > 3


def test_ideals_on_alike_chips_find_what_they_find_on_chips_that_are_not():
    """Chips that differ by a speck of memory are searched without the shortcut for alike ones."""
    edges = [(u, u + 3) for u in range(9)]
    alike = make_problem([5, 3, 4] * 4, edges, chips=5, relay_us=1.0, sram=1 << 20)
    other = make_problem(
        [5, 3, 4] * 4, edges, chips=5, relay_us=1.0, sram=(1 << 20,) * 4 + ((1 << 20) + 64,)
    )
    found, expected = (solve(Ideals(), p) for p in (alike, other))
    assert found.chip_of.tolist() == expected.chip_of.tolist()
    assert found.bound == expected.bound


def test_the_same_seed_gives_the_same_partition():
    problem = make_problem([2, 7, 1, 8, 2, 8, 1], [(0, 2), (0, 1), (1, 5), (2, 3), (3, 6), (4, 6)])
    first, second = (solve(CpSat(1e-6, 0, 2), problem).chip_of.tolist() for _ in range(2))
    assert first == second


def test_callers_hear_of_each_best_and_can_stop_the_search():
    problem = make_problem([3, 3, 3, 9], CHAIN)
    heard = []
    monitor = SearchMonitor(lambda chip_of, period_s: heard.append(period_s))
    solve(CpSat(ideals=0), problem, monitor=monitor)
    assert heard == sorted(heard, reverse=True)
    assert heard[-1] == pytest.approx(9e-6)
    monitor.cancel()
    assert solve(CpSat(ideals=0), problem, monitor=monitor).evaluations > 0


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        (lambda: CpSat(tolerance=0.0), "tolerance is 0.0"),
        (lambda: CpSat(ideals=-1), "ideals is -1"),
        (lambda: CpSat(workers=0), "workers is 0"),
        (lambda: CpSat(max_units=0), "max_units is 0"),
        (lambda: CpSat(literals=-1), "literals is -1"),
        (lambda: Ideals(ideals=0), "ideals is 0"),
        (lambda: Ideals(windows=0), "windows is 0"),
    ],
)
def test_options_out_of_range_are_refused(strategy, fault):
    with pytest.raises(ValueError, match=fault):
        strategy()


@pytest.mark.parametrize(("known", "times"), [(True, 1.0), (False, cpsat.UNKNOWN_EFFORT)])
@pytest.mark.parametrize("memory", ["need", "estimate"])
def test_the_first_partition_is_worth_more_effort(monkeypatch, known, times, memory):
    problem = make_problem([4, 4, 4, 4], BESIDE, chips=4, relay_us=2.0)
    if not known:
        monkeypatch.setattr(cpsat, "start_from_dp", lambda *_: "no cuts fit")
    allowed = []
    search = CpSatModel.search

    def recorded(self, known, effort_s, **rest):
        allowed.append(effort_s)
        return search(self, known, effort_s, **rest)

    monkeypatch.setattr(CpSatModel, "search", recorded)
    # Stopped far from the optimum, so that CP-SAT is asked whatever the bounds are.
    monkeypatch.setattr(Search, "closed", lambda *_: False)
    # Where memory is not tight, one model is that of the estimate and of the need.
    monkeypatch.setattr(cpsat, "_memory_is_tight", lambda *_: memory == "estimate")
    if memory == "need":
        problem = problem.at_need()
    assert solve(CpSat(ideals=0), problem, effort_s=0.5).chip_of is not None
    share = cpsat.NEED_SHARE if memory == "estimate" else 1.0
    assert allowed[0] == 0.5 * times * share


@pytest.mark.parametrize(
    ("literals", "known", "asked"), [(0, True, 0), (0, False, 1), (40, True, 0), (100, True, 1)]
)
def test_the_solver_may_be_left_to_small_models_and_first_partitions(
    monkeypatch, literals, known, asked
):
    """Each of 24 sources may be on most of three chips, so that there are some 48 Booleans."""
    problem = make_problem([*range(1, 25), 4], WIDE)
    if not known:
        monkeypatch.setattr(cpsat, "start_from_dp", lambda *_: "no cuts fit")
    searches = []
    search = CpSatModel.search

    def recorded(self, *given, **rest):
        searches.append(given)
        return search(self, *given, **rest)

    monkeypatch.setattr(CpSatModel, "search", recorded)
    # Stopped far from the optimum, so that CP-SAT is asked whatever the bounds are.
    monkeypatch.setattr(Search, "closed", lambda *_: False)
    outcome = solve(CpSat(ideals=0, literals=literals), problem, effort_s=0.25)
    assert min(len(searches), 1) == asked
    assert outcome.chip_of is not None
    assert outcome.bound is not None


def test_what_a_shared_channel_makes_slow_is_not_impossible():
    """All weights are streamed, and the channel of all chips takes most of the time."""
    problem = make_problem(
        [0.0],
        [],
        chips=1,
        routing="strict",
        host_io="ends",
        weights=[(1 << 30, [0]), (0, [0])],
        sram=40_000,
        tensor_bytes=64,
        stream=1e9,
        stream_root=1e8,
    )
    at_need = problem.at_need()
    chip_of = np.zeros(1, np.int32)
    assert period(at_need, chip_of) > 10.0
    for asked in (problem, at_need):
        assert not solve(CpSat(ideals=0), asked).infeasible


def test_more_than_every_period_counts_channels_of_all_chips():
    problem = make_problem(
        [1.0, 1.0, 1.0],
        [(0, 2), (1, 2)],
        weights=[(50_000, [0, 1, 2])],
        sram=20_000,
        stream=1e9,
        stream_root=1e6,
        host_root=1e3,
    )
    slowest_s = cpsat.slowest_s(problem)
    for chips in ([0, 0, 0], [0, 1, 1], [0, 1, 2]):
        assert evaluate(problem, np.array(chips, np.int32)).period_s < slowest_s
