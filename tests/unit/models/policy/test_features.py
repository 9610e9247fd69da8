"""Features of graphs, their padding, and priors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcm_models.policy.features import COLUMNS, NUM_OP_CLASSES, graph_features, pad_graph
from mcm_models.policy.layout import knot_mixture, knot_of_chip
from mcm_models.policy.network import balanced_prior, prior_around
from mcm_passes.families.ring.learning.rollouts import (
    order_of_partition,
    orders_of_least_span,
    share_before,
)

REUSED = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.integers(0, 10**6), st.integers(1, 25), st.floats(0, 0.8), st.integers(1, 9))
@REUSED
def test_features_are_finite_and_orders_topological(problem_of, seed, n, density, chips):
    problem = problem_of(seed, n, chips, density=density, clones=min(1, n - 1))
    features = graph_features(problem)
    assert features.values.shape == (features.num_nodes, len(COLUMNS))
    assert features.values.dtype == np.float32
    assert np.isfinite(features.values).all()
    assert (np.abs(features.values) <= 20).all()
    assert (features.op_class < NUM_OP_CLASSES).all()
    for order in (features.late_order, orders_of_least_span(problem, features)[0]):
        position = np.empty(order.size, int)
        position[order] = np.arange(order.size)
        assert sorted(order) == list(range(features.num_nodes))
        assert (position[features.source] < position[features.target]).all()
    share = share_before(problem, features, features.late_order)
    assert ((share > 0) & (share < 1)).all()
    assert (np.diff(share[features.late_order]) > 0).all()


def test_features_do_not_depend_on_the_types_of_numbers(problem_of):
    problem = problem_of(3)
    same = dataclasses.replace(
        problem,
        tensor_bytes=problem.tensor_bytes.astype(np.int32),
        weight_bytes=problem.weight_bytes.astype(np.float64),
        weight_users=problem.weight_users.astype(np.int64),
        tensor_consumers=problem.tensor_consumers.astype(np.int64),
    )
    assert graph_features(same).values.tobytes() == graph_features(problem).values.tobytes()


def test_features_are_relative(problem_of):
    """All times twice as long, on links half as fast: the same problem to the policy."""
    problem = problem_of(3)
    limits = dataclasses.replace(
        problem.limits, link_bytes_per_s=problem.limits.link_bytes_per_s / 2
    )
    slow = dataclasses.replace(problem, compute_s=problem.compute_s * 2, limits=limits)
    assert graph_features(slow).values == pytest.approx(graph_features(problem).values)


def test_edges_come_sorted_by_target_and_clonable_units_are_left_out(problem_of):
    features = graph_features(problem_of(1, clones=3))
    assert features.units.tolist() == list(range(3, 12))
    assert (np.diff(features.target) >= 0).all()
    assert features.source.size
    assert (features.source < features.target).all()


def test_padding_leaves_edges_and_degrees_as_they_are(problem_of):
    features = graph_features(problem_of(2))
    padded = pad_graph(features)
    n, e = features.num_nodes, features.source.size
    assert padded.real.sum() == n
    assert padded.source[:e].tolist() == features.source.tolist()
    assert (padded.source[e:] == padded.real.size - 1).all()
    by_source = padded.source[padded.by_source]
    assert (np.diff(by_source) >= 0).all()
    degrees = np.bincount(features.target, minlength=n)
    assert padded.in_share[:n] * degrees == pytest.approx((degrees > 0).astype(float))


def test_the_order_around_a_partition_follows_its_chips(problem_of):
    problem = problem_of(4)
    features = graph_features(problem)
    chips = np.sort(np.random.default_rng(0).integers(0, 4, features.num_nodes)).astype(np.int32)
    order = order_of_partition(features, features.late_order, chips)
    position = np.empty(order.size, int)
    position[order] = np.arange(order.size)
    assert (np.diff(chips[order]) >= 0).all()
    assert (position[features.source] < position[features.target]).all()


def test_a_table_that_fills_a_chip_leaves_no_room_for_work(problem_of):
    """The first node has next to no work, but the weights of a whole chip of four."""
    problem = problem_of(5)
    weights = np.zeros(12, np.int64)
    weights[0] = 1 << 20
    problem = dataclasses.replace(
        problem, compute_s=np.where(np.arange(12) == 0, 1e-9, 1e-6), weight_bytes=weights
    )
    share = share_before(problem, graph_features(problem), np.arange(12, dtype=np.int32))
    assert share[1] > 0.2


def test_priors_peak_where_they_should():
    prior = balanced_prior(np.array([0.05, 0.5, 0.99]), 4, 1.0)
    assert prior.argmax(axis=1).tolist() == [0, 1, 3]
    assert prior[1, 1] == prior[1, 2]
    chips = np.array([2, 0, 3], np.int32)
    assert prior_around(chips, 4, 0.5).argmax(axis=1).tolist() == chips.tolist()
    assert prior_around(chips, 4, 0.5)[0, 1] == pytest.approx(-2.0)


@pytest.mark.parametrize(("knots", "chips"), [(36, 36), (36, 16), (4, 9), (2, 1)])
def test_scores_of_chips_are_interpolated_between_knots(knots, chips):
    mixture = knot_mixture(knots, chips)
    assert mixture.sum(axis=0) == pytest.approx(np.ones(chips))
    nearest = knot_of_chip(knots, chips)
    assert ((nearest >= 0) & (nearest < knots)).all()
    if knots == chips:
        assert (mixture == np.eye(knots)).all()
        assert nearest.tolist() == list(range(knots))
