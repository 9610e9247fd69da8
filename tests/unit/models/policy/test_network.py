"""The network in Flax and its twin in NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from flax import nnx

from mcm_models.policy import network
from mcm_models.policy.features import graph_features
from mcm_models.policy.inference import PolicyOfGraph, choices_by_inverse, softmax
from mcm_models.policy.layout import PolicyLayout, initial_weights, knot_mixture, knot_of_chip
from mcm_models.policy.padding import pad_graph, pad_rows


def both(problem, layout, weights, choices=None):
    """Scores of the twin and of the network, for choices `[R, n]`."""
    features = graph_features(problem)
    n, chips = features.num_nodes, features.num_chips
    padded = pad_graph(features)
    none = np.zeros((n, chips), np.float32)
    twin = PolicyOfGraph.of(layout, weights, features, none).scores(choices)
    seen = None
    if choices is not None:
        nodes = padded.real.size
        places = ((choices + 0.5) / chips).astype(np.float32)
        seen = network.Choices(
            pad_rows(knot_of_chip(layout.knots, chips)[choices], nodes, 1),
            pad_rows(places, nodes, 1),
        )
    policy = nnx.merge(network.definition(layout), network.params_of(weights))
    scores = jax.jit(lambda seen: policy(padded, knot_mixture(layout.knots, chips), seen))(seen)
    return twin, np.asarray(scores)[..., :n, :]


@pytest.mark.parametrize(
    ("seed", "n", "chips", "rounds"), [(0, 1, 4, 1), (1, 12, 4, 3), (2, 70, 16, 3), (3, 40, 36, 1)]
)
def test_the_twin_equals_the_network(problem_of, small_layout, restless, seed, n, chips, rounds):
    layout = small_layout(knots=36, iterations=rounds)
    problem = problem_of(seed, n, chips, density=0.1)
    choices = None
    if rounds > 1:
        choices = np.random.default_rng(seed).integers(0, chips, (3, n)).astype(np.int32)
    twin, scores = both(problem, layout, restless(layout, seed), choices)
    assert twin == pytest.approx(scores, abs=1e-5, rel=1e-5)
    assert (twin.argmax(axis=-1) == scores.argmax(axis=-1)).all()
    assert twin.std() > 0.1


def test_the_published_head_scores_places_alone(problem_of, small_layout, restless):
    layout = small_layout(around=0)
    weights = restless(layout)
    assert not {"head/around", "head/bias3"} & weights.keys()
    twin, scores = both(problem_of(1, 30, 4), layout, weights)
    assert twin == pytest.approx(scores, abs=1e-5, rel=1e-5)


def test_scores_around_a_place_move_with_it(problem_of, small_layout, restless):
    layout = small_layout(around=3)
    weights = restless(layout)
    for name in ("head/scores", "head/bias2", "embed/kernel"):
        weights[name] = np.zeros_like(weights[name])
    features = graph_features(problem_of(1, 9, 12))
    none = np.zeros((9, 12), np.float32)

    def at(place):
        policy = PolicyOfGraph.of(layout, weights, features.along(np.full(9, place)), none)
        return policy.scores()

    here, one_on, between = at(4.5 / 12), at(5.5 / 12), at(5.0 / 12)
    assert here.std() > 0.1
    assert one_on[:, 2:9] == pytest.approx(here[:, 1:8], abs=1e-4)
    assert between[:, 3:7] == pytest.approx((here[:, 3:7] + here[:, 2:6]) / 2, abs=1e-4)
    # What is farther away scores as the last.
    assert here[:, 8:] == pytest.approx(np.repeat(here[:, 7:8], 4, axis=1), abs=1e-4)


def test_what_all_nodes_share_does_not_drown_what_tells_them_apart(problem_of):
    layout = PolicyLayout()
    features = graph_features(problem_of(2, 60, 36, density=0.05))
    policy = nnx.merge(network.definition(layout), network.params_of(initial_weights(layout, 0)))
    padded = pad_graph(features)

    @jax.jit
    def embedded(padded):
        nodes = policy.embed(padded)
        for layer in policy.sage:
            nodes = layer(nodes, padded)
        return nodes

    nodes = np.asarray(embedded(padded))[: features.num_nodes]
    assert np.linalg.norm(nodes - nodes.mean(axis=0)) > 0.9 * np.linalg.norm(nodes)


def test_the_twin_equals_the_network_at_full_width(problem_of, restless):
    layout = PolicyLayout()
    twin, scores = both(problem_of(7, 60, 36, density=0.05), layout, restless(layout))
    assert np.abs(softmax(twin) - softmax(scores)).max() < 1e-5
    assert (twin.argmax(axis=-1) == scores.argmax(axis=-1)).all()


def test_choices_of_neighbours_change_scores(problem_of, small_layout, restless):
    layout = small_layout(iterations=2)
    problem = problem_of(1)
    features = graph_features(problem)
    policy = PolicyOfGraph.of(layout, restless(layout), features, np.zeros((12, 4), np.float32))
    source, target = features.source[0], features.target[0]
    low, high = np.zeros((1, 12), np.int32), np.zeros((1, 12), np.int32)
    high[0, source] = 3
    changed = np.abs(policy.scores(low) - policy.scores(high)).max(axis=-1)[0] > 1e-6
    assert changed[target]


def test_weights_survive_flax(small_layout):
    weights = initial_weights(small_layout(), 3)
    back = network.weights_of(network.params_of(weights))
    assert {k: v.tobytes() for k, v in back.items()} == {k: v.tobytes() for k, v in weights.items()}


def test_draws_follow_the_probabilities():
    probabilities = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], np.float32)
    uniforms = np.random.default_rng(0).random((4000, 2), np.float32)
    drawn = choices_by_inverse(probabilities, uniforms)
    assert np.bincount(drawn[:, 0], minlength=3) / 4000 == pytest.approx([0.5, 0, 0.5], abs=0.03)
    assert (drawn[:, 1] == 1).all()


def test_decoding_is_the_same_for_the_same_seed(problem_of, small_layout, restless):
    layout = small_layout(iterations=3)
    policy = PolicyOfGraph.of(
        layout, restless(layout), graph_features(problem_of(1)), np.zeros((12, 4), np.float32)
    )
    first, second = (policy.decode(np.random.default_rng(5), 4) for _ in range(2))
    assert first.probabilities.tobytes() == second.probabilities.tobytes()
    assert first.proposals.tobytes() == second.proposals.tobytes()
    assert first.probabilities.shape == (4, 12, 4)
    assert first.before is not None
