"""METIS and KaHIP: the graph they get, what becomes of their parts, what if they are missing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import STRATEGIES
from mcm_passes.families.ring.analytic.fast_model import period
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods
from mcm_passes.families.ring.strategies.graph_baselines import CLIQUE, Kahip, Metis, weighted_graph

BOTH = [Metis(), Kahip()]
NAMES = [strategy.name for strategy in BOTH]
MODULES = {"metis": "pymetis", "kahip": "kahip"}


def run(strategy, problem, seed=0, **budget):
    rng = np.random.default_rng(seed)
    return strategy.solve(problem, FastPeriods(problem), rng, Budget(**budget))


def fake_modules(monkeypatch, parts_of):
    """Both libraries as functions of `(number of units, number of parts, seed)`."""
    seen = []

    def part_graph(count, *, adjacency, vweights, eweights, options):
        seen.append((adjacency, vweights, eweights))
        return 0, parts_of(len(vweights), count, options.seed)

    def kaffpa(vweights, ptr, eweights, neighbours, count, *settings):
        imbalance, quiet, seed, mode = settings
        assert imbalance == 0.03
        assert quiet
        assert mode == 3
        seen.append(((ptr, neighbours), vweights, eweights))
        return 0, parts_of(len(vweights), count, seed)

    metis = SimpleNamespace(
        Options=lambda seed: SimpleNamespace(seed=seed),
        CSRAdjacency=lambda ptr, neighbours: (ptr, neighbours),
        part_graph=part_graph,
    )
    monkeypatch.setitem(sys.modules, "pymetis", metis)
    monkeypatch.setitem(sys.modules, "kahip", SimpleNamespace(kaffpa=kaffpa, ECO=3))
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_each_is_registered_under_its_name(name):
    assert STRATEGIES.get(name).name == name


@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_a_missing_package_is_a_diagnostic_with_what_to_install(branches, monkeypatch, strategy):
    monkeypatch.setitem(sys.modules, MODULES[strategy.name], None)
    with pytest.raises(CompileError) as caught:
        run(strategy, branches())
    found = caught.value.diagnostics[0]
    assert found.code == "MCM-P017"
    assert MODULES[strategy.name] in found.message
    assert "mcm-compiler[baselines]" in str(found.hint)


@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_parts_become_chips_in_the_order_of_the_graph(branches, monkeypatch, strategy):
    problem = branches(chips=3, chains=1, length=10)
    # Parts of a chain, numbered backwards.
    fake_modules(monkeypatch, lambda n, count, _: [count - 1 - v * count // n for v in range(n)])
    outcome = run(strategy, problem)
    n = problem.num_units
    assert outcome.chip_of.tolist() == [v * 3 // n for v in range(n)]


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_parts_that_break_every_rule_are_repaired(branches, monkeypatch, strategy, routing):
    problem = branches(routing, pins=((5, 1),))
    fake_modules(
        monkeypatch, lambda n, k, seed: np.random.default_rng(seed).integers(0, k, n).tolist()
    )
    outcome = run(strategy, problem)
    assert np.isfinite(period(problem, outcome.chip_of))
    assert outcome.chip_of[5] == 1


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_the_real_libraries_give_valid_partitions(branches, strategy, routing):
    pytest.importorskip(MODULES[strategy.name])
    problem = branches(routing, chips=4)
    outcome = run(strategy, problem)
    assert np.isfinite(period(problem, outcome.chip_of))
    assert outcome.chip_of.max() >= 1
    assert run(strategy, problem).chip_of.tolist() == outcome.chip_of.tolist()


@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_what_does_not_fit_has_a_reason(branches, monkeypatch, strategy):
    fake_modules(monkeypatch, lambda n, k, _: [v % k for v in range(n)])
    outcome = run(strategy, branches(sram=5000))
    assert outcome.chip_of is None
    assert "memory" in outcome.reason


@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_one_chip_needs_no_partitioner(branches, monkeypatch, strategy):
    seen = fake_modules(monkeypatch, lambda n, *_: [0] * n)
    assert run(strategy, branches(chips=1)).chip_of.max() == 0
    assert not seen


@pytest.mark.parametrize("strategy", BOTH, ids=NAMES)
def test_the_budget_limits_the_tries(branches, monkeypatch, strategy):
    seen = fake_modules(monkeypatch, lambda n, k, _: [v * k // n for v in range(n)])
    assert run(strategy, branches(), evaluations=1).evaluations == 1
    assert len(seen) == 1


def test_the_graph_is_symmetric_with_positive_whole_weights(branches):
    problem = branches(chains=CLIQUE + 2, length=2)
    graph = weighted_graph(problem)
    n = graph.units.size
    rows = np.repeat(np.arange(n), np.diff(graph.ptr))
    pairs = zip(rows.tolist(), graph.neighbours.tolist(), strict=True)
    weight = dict(zip(pairs, graph.edge_weight.tolist(), strict=True))
    assert all(weight[b, a] == w for (a, b), w in weight.items())
    assert min(weight.values()) >= 1
    assert graph.unit_weight.min() >= 1
    order = np.argsort(problem.compute_s, kind="stable")
    assert (np.diff(graph.unit_weight[order]) >= 0).all()
    # The source's tensor has too many readers for a clique: they are no neighbours.
    readers = problem.tensor_consumers[problem.tensor_ptr[1] : problem.tensor_ptr[2]].tolist()
    assert len(readers) > CLIQUE
    assert all((0, reader) in weight for reader in readers)
    assert (readers[0], readers[1]) not in weight


@pytest.mark.parametrize("make", [lambda: Metis(tries=0), lambda: Kahip(imbalance=-1.0)])
def test_options_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match="not at least"):
        make()
