"""The policy in onnxruntime and in JAX, and a plain reading of its formula."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from mcm_models.policy import ppo
from mcm_models.policy.features import COLUMNS, graph_features, pad_graph, pad_rows
from mcm_models.policy.layout import PolicyLayout, initial_weights
from mcm_models.policy.network import Chips, Choices, PolicyOfGraph, choices_by_inverse, softmax


def both(problem, layout, weights, choices=None):
    """Scores in onnxruntime and in JAX, for choices `[R, n]`."""
    features = graph_features(problem)
    n, chips = features.num_nodes, features.num_chips
    padded = pad_graph(features)
    found = PolicyOfGraph(layout, weights, features, np.zeros((n, chips), np.float32))
    seen = None
    if choices is not None:
        parts = Choices.of(layout, choices, chips)
        seen = Choices(*(pad_rows(part, padded.real.size, 1) for part in parts))
    of_jax = jax.jit(ppo.scores_of, static_argnums=0)
    scores = of_jax(layout, weights, padded, Chips.of(layout, chips), seen)
    return found.scores(choices), np.asarray(scores)[..., :n, :]


def mean_of(rows, none):
    return np.mean(rows, axis=0) if len(rows) else np.full_like(none, 0.0)


def by_hand(layout, weights, features, choice=None):
    """Scores of one rollout, node by node in float64."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    n, chips = features.num_nodes, features.num_chips
    producers = [features.source[features.target == v] for v in range(n)]
    consumers = [features.target[features.source == v] for v in range(n)]
    joined = np.concatenate([w["embed/op"][features.op_class], features.values], axis=1)
    embedded = nodes = np.maximum(joined @ w["embed/kernel"] + w["embed/bias"], 0)
    for k in range(layout.layers):
        mixed = []
        for v in range(n):
            message = nodes[v] @ w[f"sage/{k}/own"] + w[f"sage/{k}/bias"]
            message += mean_of(nodes[producers[v]], nodes[v]) @ w[f"sage/{k}/producers"]
            message += mean_of(nodes[consumers[v]], nodes[v]) @ w[f"sage/{k}/consumers"]
            mixed.append(nodes[v] + np.maximum(message, 0))
        mixed = np.array(mixed) - np.mean(mixed, axis=0)
        nodes = mixed / np.sqrt((mixed**2).mean(axis=1, keepdims=True) + 1e-6)
        nodes = nodes * w[f"sage/{k}/scale"]
    found = np.zeros((n, chips))
    middles = (np.arange(layout.knots) + 0.5) / layout.knots
    for v in range(n):
        first = nodes[v] @ w["head/node"] + embedded[v] @ w["head/embedded"] + w["head/bias0"]
        if choice is None:
            first += w["head/own_choice"][-1]
        else:
            place = (choice + 0.5) / chips
            first += w["head/own_choice"][int(place[v] * layout.knots)]
            above, below = place[producers[v]], place[consumers[v]]
            seen = [above.max(initial=0), mean_of(above, 0.0)]
            seen += [below.min(initial=1), mean_of(below, 0.0), 1.0]
            first += np.array(seen) @ w["head/neighbors"]
        second = np.where(first > 0, first, 0.1 * first) @ w["head/hidden"] + w["head/bias1"]
        second = np.where(second > 0, second, 0.1 * second)
        by_knot = second @ w["head/scores"] + w["head/bias2"]
        found[v] = np.interp((np.arange(chips) + 0.5) / chips, middles, by_knot)
        if layout.around:
            by_distance = second @ w["head/around"] + w["head/bias3"]
            away = np.arange(chips) + 0.5 - chips * features.values[v, COLUMNS.index("place")]
            found[v] += np.interp(away, np.arange(-layout.around, layout.around + 1), by_distance)
    return found


@pytest.mark.parametrize(
    ("seed", "n", "chips", "around"), [(0, 1, 4, 3), (1, 12, 4, 3), (2, 30, 16, 0), (3, 20, 36, 2)]
)
def test_the_formula_equals_a_plain_reading(
    problem_of, small_layout, restless, seed, n, chips, around
):
    layout = small_layout(knots=36, around=around)
    features = graph_features(problem_of(seed, n, chips, density=0.2))
    weights = restless(layout, seed)
    policy = PolicyOfGraph(layout, weights, features, np.zeros((n, chips), np.float32))
    assert policy.scores() == pytest.approx(by_hand(layout, weights, features), abs=2e-5)
    choices = np.random.default_rng(seed).integers(0, chips, (3, n)).astype(np.int32)
    for choice, scores in zip(choices, policy.scores(choices), strict=True):
        assert scores == pytest.approx(by_hand(layout, weights, features, choice), abs=2e-5)


@pytest.mark.parametrize(
    ("seed", "n", "chips", "rounds"), [(0, 1, 4, 1), (1, 12, 4, 3), (2, 70, 16, 3), (3, 40, 36, 1)]
)
def test_onnxruntime_gives_the_scores_of_jax(
    problem_of, small_layout, restless, seed, n, chips, rounds
):
    layout = small_layout(knots=36, iterations=rounds)
    problem = problem_of(seed, n, chips, density=0.1)
    choices = None
    if rounds > 1:
        choices = np.random.default_rng(seed).integers(0, chips, (3, n)).astype(np.int32)
    found, scores = both(problem, layout, restless(layout, seed), choices)
    assert found == pytest.approx(scores, abs=1e-5, rel=1e-5)
    assert (found.argmax(axis=-1) == scores.argmax(axis=-1)).all()
    assert found.std() > 0.1


def test_the_published_head_scores_places_alone(problem_of, small_layout, restless):
    layout = small_layout(around=0)
    weights = restless(layout)
    assert not {"head/around", "head/bias3"} & weights.keys()
    found, scores = both(problem_of(1, 30, 4), layout, weights)
    assert found == pytest.approx(scores, abs=1e-5, rel=1e-5)


def test_scores_around_a_place_move_with_it(problem_of, small_layout, restless):
    layout = small_layout(around=3)
    weights = restless(layout)
    for name in ("head/scores", "head/bias2", "embed/kernel"):
        weights[name] = np.zeros_like(weights[name])
    features = graph_features(problem_of(1, 9, 12))
    none = np.zeros((9, 12), np.float32)

    def at(place):
        policy = PolicyOfGraph(layout, weights, features.along(np.full(9, place)), none)
        return policy.scores()

    here, one_on, between = at(4.5 / 12), at(5.5 / 12), at(5.0 / 12)
    assert here.std() > 0.1
    assert one_on[:, 2:9] == pytest.approx(here[:, 1:8], abs=1e-4)
    assert between[:, 3:7] == pytest.approx((here[:, 3:7] + here[:, 2:6]) / 2, abs=1e-4)
    # What is farther away scores as the last.
    assert here[:, 8:] == pytest.approx(np.repeat(here[:, 7:8], 4, axis=1), abs=1e-4)


def test_what_all_nodes_share_does_not_drown_what_tells_them_apart(problem_of):
    layout = dataclasses.replace(PolicyLayout(), around=0, head_width=128)
    features = graph_features(problem_of(2, 60, 36, density=0.05))
    weights = initial_weights(layout, 0) | {"head/node": np.eye(128, dtype=np.float32)}
    weights["head/embedded"] = np.zeros((128, 128), np.float32)
    nodes, _ = PolicyOfGraph(layout, weights, features, np.zeros((60, 36), np.float32)).first
    assert np.linalg.norm(nodes - nodes.mean(axis=0)) > 0.9 * np.linalg.norm(nodes)


def test_onnxruntime_gives_the_scores_of_jax_at_full_width(problem_of, restless):
    layout = PolicyLayout()
    found, scores = both(problem_of(7, 60, 36, density=0.05), layout, restless(layout))
    assert np.abs(softmax(found) - softmax(scores)).max() < 1e-5
    assert (found.argmax(axis=-1) == scores.argmax(axis=-1)).all()


def test_choices_of_neighbours_change_scores(problem_of, small_layout, restless):
    layout = small_layout(iterations=2)
    problem = problem_of(1)
    features = graph_features(problem)
    policy = PolicyOfGraph(layout, restless(layout), features, np.zeros((12, 4), np.float32))
    source, target = features.source[0], features.target[0]
    low, high = np.zeros((1, 12), np.int32), np.zeros((1, 12), np.int32)
    high[0, source] = 3
    changed = np.abs(policy.scores(low) - policy.scores(high)).max(axis=-1)[0] > 1e-6
    assert changed[target]


def test_draws_follow_the_probabilities():
    probabilities = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], np.float32)
    uniforms = np.random.default_rng(0).random((4000, 2), np.float32)
    drawn = choices_by_inverse(probabilities, uniforms)
    assert np.bincount(drawn[:, 0], minlength=3) / 4000 == pytest.approx([0.5, 0, 0.5], abs=0.03)
    assert (drawn[:, 1] == 1).all()


def test_decoding_is_the_same_for_the_same_seed(problem_of, small_layout, restless):
    layout = small_layout(iterations=3)
    policy = PolicyOfGraph(
        layout, restless(layout), graph_features(problem_of(1)), np.zeros((12, 4), np.float32)
    )
    first, second = (policy.decode(np.random.default_rng(5), 4) for _ in range(2))
    assert first.probabilities.tobytes() == second.probabilities.tobytes()
    assert first.proposals.tobytes() == second.proposals.tobytes()
    assert first.probabilities.shape == (4, 12, 4)
    assert first.before is not None
