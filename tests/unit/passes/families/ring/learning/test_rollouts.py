"""How proposals become partitions, and what is learned of each decision."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product

import numpy as np
import pytest

from mcm_models.policy.features import graph_features
from mcm_models.policy.network import Decoded, softmax
from mcm_passes.families.ring.learning.learner import node_credit
from mcm_passes.families.ring.learning.recipes import PUBLISHED, Recipe
from mcm_passes.families.ring.learning.rollouts import (
    FORBIDDEN,
    EngineSampler,
    OrderSampler,
    orders_of_least_span,
    sampler_of,
)
from mcm_passes.families.ring.solver.adjacent_domains import cut_marginals, reach_of_cuts
from mcm_passes.families.ring.solver.monotone_paths import monotone_path_marginals
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.rule_graph import rule_graph


def decoded_of(problem, count, seed=0, rounds=1):
    """Random probabilities, and proposals drawn from nothing in particular."""
    rng = np.random.default_rng(seed)
    n, chips = int((~problem.clonable).sum()), problem.num_chips
    shape = (n, chips) if rounds == 1 else (count, n, chips)
    probabilities = softmax(2 * rng.standard_normal(shape)).astype(np.float32)
    return Decoded(probabilities, rng.integers(0, chips, (count, n)).astype(np.int32), None)


def sampler(problem, recipe):
    features = graph_features(problem)
    return sampler_of(problem, features, recipe, orders_of_least_span(problem, features)[0])


def enumerated(log_p, valid):
    """Marginals by summing over all assignments of chips to positions that are valid."""
    n, chips = log_p.shape
    total = np.zeros((n, chips))
    for f in product(range(chips), repeat=n):
        if f[0] == 0 and all(b - a in (0, 1) for a, b in pairwise(f)) and valid(f):
            total[np.arange(n), f] += np.exp(log_p[np.arange(n), f].sum())
    return total / total[0].sum()


@pytest.mark.parametrize("seed", range(4))
def test_marginals_along_an_order_are_those_of_an_enumeration(seed):
    log_p = np.random.default_rng(seed).standard_normal((6, 4))
    expected = enumerated(log_p, lambda f: True)
    assert np.exp(monotone_path_marginals(log_p)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_marginals_of_cuts_are_those_of_an_enumeration(problem_of, seed):
    problem = problem_of(seed, n=6, density=0.25, routing="strict")
    graph = rule_graph(problem)
    order = np.arange(6, dtype=np.int32)
    edges = [(u, int(v)) for u in range(6) for v in graph.after.row(u)]
    log_p = np.random.default_rng(seed).standard_normal((6, 4))
    expected = enumerated(log_p, lambda f: all(f[v] - f[u] <= 1 for u, v in edges))
    found = np.exp(cut_marginals(log_p, reach_of_cuts(graph, order)))
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_an_order_sampler_draws_valid_partitions_with_their_marginals(problem_of, routing, rounds):
    problem = problem_of(1, routing=routing, density=0.15, clones=1)
    decoded = decoded_of(problem, 400, rounds=rounds)
    drawn = sampler(problem, Recipe()).draw(np.random.default_rng(0), decoded)
    assert drawn.found.all()
    assert all(evaluate(problem, row).valid for row in drawn.partitions[::40])
    assert (drawn.partitions[:, 1:] == drawn.actions).all()
    q = np.log(decoded.probabilities) + drawn.log_base
    # What is learned is the marginal: it sums to 1 over chips, and it is what was drawn.
    assert np.exp(q).sum(axis=-1) == pytest.approx(np.ones(q.shape[:-1]), rel=1e-4)
    if rounds == 1:
        shares = (drawn.actions[:, :, None] == np.arange(4)).mean(axis=0)
        assert shares == pytest.approx(np.exp(q[0]), abs=0.1)
    taken = np.take_along_axis(
        np.broadcast_to(q, (400, *q.shape[1:])), drawn.actions[..., None], axis=-1
    )
    assert (taken > np.log(1e-12)).all()


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_pins_hold_along_an_order(problem_of, routing):
    problem = problem_of(1, routing=routing, density=0.1, pins=[(4, 1)])
    recipe = Recipe()
    drawn = sampler(problem, recipe).draw(np.random.default_rng(0), decoded_of(problem, 40))
    assert drawn.found.any()
    assert (drawn.partitions[drawn.found, 4] == 1).all()


def test_rows_without_a_partition_say_so(problem_of):
    """The first unit on the last chip and the last on the first: nothing is valid."""
    problem = problem_of(1, density=0.9, pins=[(0, 3), (11, 0)])
    for recipe in (Recipe(), dataclasses.replace(PUBLISHED, gradient="repaired")):
        drawn = sampler(problem, recipe).draw(np.random.default_rng(0), decoded_of(problem, 4))
        assert not drawn.found.any()
        assert (drawn.partitions == -1).all()
        assert ((drawn.actions >= 0) & (drawn.actions < 4)).all()
        assert np.isfinite(drawn.log_base).all()
        assert (node_credit(problem, graph_features(problem), drawn.partitions) == 0).all()


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("mode", ["fix", "sample"])
def test_the_engine_chooses_from_the_domains_that_it_reports(problem_of, routing, mode):
    problem = problem_of(2, n=20, routing=routing, density=0.1, clones=1)
    recipe = dataclasses.replace(PUBLISHED, mode=mode, gradient="repaired")
    drawn = sampler(problem, recipe).draw(np.random.default_rng(0), decoded_of(problem, 60))
    assert all(evaluate(problem, row).valid for row in drawn.partitions)
    chosen = np.take_along_axis(drawn.log_base, drawn.actions[..., None], axis=-1)
    assert (chosen == 0).all()
    choices = (drawn.log_base == 0).sum(axis=-1)
    assert set(np.unique(drawn.log_base)) == {0.0, FORBIDDEN}
    # Some nodes are decided freely, and what follows from them is forced.
    assert (choices.max(axis=1) == 4).any()
    assert (choices.min(axis=1) == 1).any()


def test_published_learns_the_proposals(problem_of):
    problem = problem_of(2)
    decoded = decoded_of(problem, 8)
    drawn = sampler(problem, PUBLISHED).draw(np.random.default_rng(0), decoded)
    assert drawn.actions.tobytes() == decoded.proposals.tobytes()
    assert (drawn.log_base == 0).all()
    assert (drawn.partitions != decoded.proposals).any()


def test_recipes_choose_their_sampler(problem_of):
    problem = problem_of(2)
    assert isinstance(sampler(problem, PUBLISHED), EngineSampler)
    assert isinstance(sampler(problem, Recipe()), OrderSampler)


def test_credit_blames_nodes_on_busy_chips(problem_of):
    problem = problem_of(1, n=4, chips=2, density=0.0)
    features = graph_features(problem)
    rows = np.array([[0, 0, 0, 1], [0, 0, 1, 1], [-1, -1, -1, -1]], np.int32)
    credit = node_credit(problem, features, rows)
    assert credit[2].tolist() == [0, 0, 0, 0]
    assert credit[0, 0] < credit[1, 0]
    assert credit[:2].mean(axis=0) == pytest.approx(np.zeros(4))


def test_sharp_credit_blames_the_busiest_chip_most(problem_of):
    """Of two chips above the mean the busier one's node gets more of the blame."""
    problem = dataclasses.replace(
        problem_of(1, n=4, chips=4, density=0.0), compute_s=np.array([4e-6, 3e-6, 1e-6, 1e-6])
    )
    rows = np.array([[0, 1, 2, 3], [0, 0, 1, 1]], np.int32)
    plain, sharp = (
        node_credit(problem, graph_features(problem), rows, sharpness)[0]
        for sharpness in (1.0, 4.0)
    )
    assert sharp[0] > sharp[2] > 0
    assert sharp[0] / sharp[2] > plain[0] / plain[2]


def test_credit_blames_nodes_on_chips_whose_weights_do_not_fit(problem_of):
    """Work is in balance either way; two weights of 0.6 MiB share a chip of 1 MiB or do not."""
    problem = dataclasses.replace(
        problem_of(1, n=4, chips=2, density=0.0),
        compute_s=np.full(4, 1e-6),
        weight_bytes=np.array([600_000, 600_000, 0, 0]),
    )
    rows = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.int32)
    credit = node_credit(problem, graph_features(problem), rows)
    assert credit[0, 0] < credit[1, 0]


def test_a_weight_with_two_users_on_a_chip_is_there_once(problem_of):
    """One weight of 0.6 MiB with two users: it fits where both are."""
    problem = dataclasses.replace(
        problem_of(1, n=4, chips=2, density=0.0),
        compute_s=np.full(4, 1e-6),
        weight_names=("w",),
        weight_bytes=np.array([600_000]),
        weight_ptr=np.array([0, 2]),
        weight_users=np.array([0, 1], np.int32),
    )
    rows = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.int32)
    assert node_credit(problem, graph_features(problem), rows) == pytest.approx(np.zeros((2, 4)))
