"""The compiled network equals the one in JAX, and its answers are what a mapper may rely on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mapping_network.gnn import NOTED, PreparedGnn, prepared_gnn
from mapping_network.graphs import GraphShape, padded
from mapping_network.layout import MappingLayout, initial_weights

from mcm_compiler.contracts.fabrics.fabric import MappingProblem, Mappings
from mcm_passes.families.fabric.formulas.analytic import HasFormula, RoundTrips
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import legal_mappings, small_fabric

LAYOUT = MappingLayout(width=8, rounds=2, head=8)
FABRIC = small_fabric(6, 8)


def _case(seed: int, count: int, scale: float = 1.0) -> tuple[PreparedGnn, Mappings]:
    weights = initial_weights(LAYOUT, seed)
    for name in ("head_last", "head_linear"):
        weights[name] *= np.float32(scale)
    problem = drawn_problem(seed)
    mappings = legal_mappings(problem, FABRIC, count, np.random.default_rng(seed))
    return prepared_gnn(problem, FABRIC, LAYOUT, weights), mappings


@pytest.mark.parametrize("seed", range(4))
def test_answers_equal_those_of_flax(seed: int) -> None:
    pytest.importorskip("jax")
    from mapping_network.training import answers

    prepared, mappings = _case(seed, 6, 30.0)
    prepared = replace(prepared, noted=0.0)
    graphs = prepared.graphs(mappings)
    weights = initial_weights(LAYOUT, seed)
    for name in ("head_last", "head_linear"):
        weights[name] *= np.float32(30)
    out = np.asarray(answers(LAYOUT, weights, padded(graphs, GraphShape(40, 60, 192, 480))))
    bound = prepared.corrected.facts.bound
    period = bound * np.exp(np.clip(out[:, 0].astype(np.float64), 0, 10))
    latency = bound * np.exp(np.clip(out[:, 1].astype(np.float64), -10, 10))
    assert prepared.period_cycles(mappings) == pytest.approx(period, rel=1e-5)
    assert prepared.latency_cycles(mappings) == pytest.approx(latency, rel=1e-5)


def test_corrections_that_are_smaller_than_errors_keep_the_order_of_the_formula() -> None:
    prepared, mappings = _case(1, 20, 3.0)
    formula = RoundTrips().prepared(prepared.problem, FABRIC).period_cycles(mappings)
    raw = replace(prepared, noted=0.0).period_cycles(mappings)
    kept = np.abs(np.log(raw / formula)) < NOTED
    found = prepared.period_cycles(mappings)
    assert 0 < kept.sum() < 20
    assert found[kept] == pytest.approx(formula[kept], rel=1e-5)
    assert found[~kept].tolist() == raw[~kept].tolist()


def test_no_period_is_below_the_bound_or_infinite() -> None:
    for scale in (-1e6, 1e6):
        prepared, mappings = _case(1, 20, scale)
        for answer in (prepared.period_cycles(mappings), prepared.search_cost(mappings)):
            assert np.isfinite(answer).all()
            assert (answer >= prepared.corrected.facts.bound).all()


def test_answers_do_not_depend_on_the_batch() -> None:
    prepared, mappings = _case(2, 9)
    together = prepared.period_cycles(mappings)
    assert [prepared.period_cycles(mappings[k])[0] for k in range(9)] == together.tolist()
    assert np.unique(together).size > 1


def test_search_has_a_term_for_wires() -> None:
    prepared, mappings = _case(3, 5)
    wired = prepared_gnn(prepared.problem, FABRIC, LAYOUT, initial_weights(LAYOUT, 3), wire=0.5)
    terms = RoundTrips().prepared(prepared.problem, FABRIC).terms(mappings)
    more = wired.search_cost(mappings) - prepared.search_cost(mappings)
    assert more == pytest.approx(0.5 * terms[:, -1])


def test_mappers_do_not_take_it_for_a_formula() -> None:
    assert not isinstance(_case(0, 1)[0], HasFormula)


def test_mappings_that_are_not_legal_are_refused() -> None:
    prepared, mappings = _case(0, 3)
    with pytest.raises(ValueError, match="sites have the shape"):
        prepared.period_cycles(Mappings(mappings.site[:, 1:], mappings.turn))
    mappings.site[1, 0] = FABRIC.num_sites
    with pytest.raises(ValueError, match="lies on site"):
        prepared.search_cost(mappings)


def _lonely() -> MappingProblem:
    return drawn_problem(5, stages=1, widest=1)


def test_features_are_what_their_names_say() -> None:
    problem = _lonely()
    prepared = prepared_gnn(problem, FABRIC, LAYOUT, initial_weights(LAYOUT, 0))
    mappings = legal_mappings(problem, FABRIC, 8, np.random.default_rng(1))
    switch = FABRIC.switch
    for graph, site, turn in zip(
        prepared.graphs(mappings), mappings.site, mappings.turn, strict=True
    ):
        start, end = switch[site[graph.source]], switch[site[graph.target]]
        hops = np.abs(start // 8 - end // 8) + np.abs(start % 8 - end % 8)
        assert graph.branches[:, 8] * 14 == pytest.approx(hops)
        assert np.bincount(graph.pair_branch, minlength=len(hops)).tolist() == hops.tolist()
        stream = np.repeat(np.arange(problem.num_streams), np.diff(problem.leaf_ptr))
        assert graph.branches[:, 17].tolist() == turn[stream].tolist()
        flits = problem.flits[stream] / prepared.corrected.facts.bound
        assert graph.branches[:, 0] == pytest.approx(flits, rel=1e-5)
        # What streams send over a link is the load of the link.
        load = np.zeros(len(graph.links))
        np.add.at(load, graph.pair_link, graph.pair_weight)
        assert graph.links[:, 2] == pytest.approx(load, rel=1e-5)
        assert graph.links[:, :2].sum(axis=1) == pytest.approx(load, rel=1e-5)
        assert graph.whole[12] == pytest.approx(len(load) / (4 * FABRIC.num_switches))
        busiest = np.zeros(len(hops))
        np.maximum.at(busiest, graph.pair_branch, load[graph.pair_link])
        assert graph.branches[:, 12] == pytest.approx(busiest, rel=1e-5)
