"""Updates of a policy: their gradient, and what they make of it."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product

import jax
import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_models.policy import ppo
from mcm_models.policy.features import graph_features, pad_graph, pad_rows
from mcm_models.policy.layout import initial_weights
from mcm_models.policy.network import Chips, softmax
from mcm_models.ppo import adam
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.ring.learning.learner import PolicyLearner
from mcm_passes.families.ring.learning.recipes import PUBLISHED, RECIPES, Recipe
from mcm_passes.families.ring.learning.rollouts import FORBIDDEN
from mcm_passes.families.ring.learning.tasks import Task, fast_rewards

FAST = PpoSettings(epochs=2, minibatches=2, learning_rate=3e-3, node_scores=100.0)
SHARED = dataclasses.replace(FAST, node_scores=0.0)
"""Without scores of single nodes."""


def task_of(problem, recipe, rewards=None, start=None):
    return Task.of(problem, recipe, rewards or fast_rewards(problem, 3e-5), start)


def recipe_with(layout, base=None, **changes):
    recipe = dataclasses.replace(base or Recipe(), layout=layout, rollouts=8, ppo=FAST)
    return dataclasses.replace(recipe, **changes)


def one_step(problem, layout, weights, actions, log_base, advantage):
    """What the scores of single nodes become after one step of gradient descent (no Adam)."""
    features = graph_features(problem)
    padded = pad_graph(features)
    nodes, n = padded.real.size, features.num_nodes
    settings = PpoSettings(epochs=1, minibatches=1, entropy=0.0, node_scores=1.0)
    params = ppo.Trained(
        {n: jax.numpy.asarray(w) for n, w in weights.items()},
        jax.numpy.zeros((nodes, features.num_chips)),
    )
    state = adam(settings.max_gradient, settings.learning_rate).init(params)
    count = len(actions)
    trained, state, metrics = ppo.update(
        layout,
        settings,
        params,
        state,
        ppo.Inputs(
            padded,
            Chips.of(layout, features.num_chips),
            np.zeros((nodes, features.num_chips), np.float32),
        ),
        ppo.Batch(
            pad_rows(actions, nodes, 1),
            pad_rows(log_base, nodes, 1),
            pad_rows(advantage, nodes, 1),
            None,
        ),
        np.arange(count, dtype=np.int32)[None],
    )
    # Adam keeps a tenth of the first gradient as its momentum; its norm was cut to at most 1.
    momentum = next(leaf.mu for leaf in jax.tree.leaves(state, is_leaf=lambda s: hasattr(s, "mu")))
    cut = max(float(metrics.gradient), 1.0)
    gradient = np.asarray(momentum.node_scores)[:n] * 10 * cut
    return gradient, trained, metrics


def test_the_gradient_is_that_of_the_likelihood_of_whole_partitions(problem_of, small_layout):
    """Of a tiny chain: all its monotone paths, each weighted by an advantage, by enumeration."""
    problem = problem_of(3, n=4, chips=3, density=1.0)
    layout = small_layout(knots=3)
    weights = initial_weights(layout, 0)
    none = np.zeros((4, 3), np.float32)
    from mcm_models.policy.network import PolicyOfGraph

    scores = PolicyOfGraph(layout, weights, graph_features(problem), none).scores()
    log_p = np.log(softmax(scores.astype(np.float64)))
    stairs = [
        f
        for f in product(range(3), repeat=4)
        if f[0] == 0 and all(b - a in (0, 1) for a, b in pairwise(f))
    ]
    weight = np.exp([log_p[np.arange(4), f].sum() for f in stairs])
    marginal = np.zeros((4, 3))
    for f, w in zip(stairs, weight / weight.sum(), strict=True):
        marginal[np.arange(4), f] += w
    actions = np.array(stairs, np.int32)
    value = np.random.default_rng(0).standard_normal(len(stairs)).astype(np.float32)
    with np.errstate(divide="ignore"):
        log_base = np.maximum(np.log(marginal) - log_p, FORBIDDEN)[None].astype(np.float32)
    advantage = np.repeat(value[:, None], 4, axis=1)
    gradient, _, _ = one_step(problem, layout, weights, actions, log_base, advantage)
    chosen = (actions[:, :, None] == np.arange(3)).astype(float)
    expected = -(value[:, None, None] * (chosen - marginal)).mean(axis=0) / 4
    assert gradient == pytest.approx(expected, abs=1e-6)


def test_forced_nodes_and_padding_get_no_gradient(problem_of, small_layout):
    problem = problem_of(3, n=4, chips=3)
    layout = small_layout(knots=3)
    actions = np.zeros((7, 4), np.int32)
    log_base = np.zeros((1, 4, 3), np.float32)
    log_base[:, 1, 1:] = FORBIDDEN
    advantage = np.ones((7, 4), np.float32)
    weights = initial_weights(layout, 0)
    gradient, trained, _ = one_step(problem, layout, weights, actions, log_base, advantage)
    own = np.asarray(trained.node_scores)
    assert (gradient[1] == 0).all()
    assert (own[1] == 0).all()
    assert (gradient[[0, 2, 3]] != 0).all()
    assert (own[4:] == 0).all()


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (None, {}),
        (None, {"prior": 0.0, "ppo": SHARED}),
        (PUBLISHED, {"gradient": "repaired", "credit": 2.0}),
        (PUBLISHED, {"gradient": "repaired", "mode": "sample", "credit": 2.0}),
    ],
)
def test_rewards_rise(problem_of, small_layout, base, changes):
    problem = problem_of(1, n=24, density=0.05)
    recipe = recipe_with(small_layout(), base, **changes)
    task = task_of(problem, recipe)
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    rng = np.random.default_rng(0)
    iterations = 80 if recipe.ppo == SHARED else 25
    means = [learner.iterate(task, rng).rewards.mean() for _ in range(iterations)]
    assert np.mean(means[-5:]) > 1.1 * np.mean(means[:5])


@pytest.mark.parametrize("rounds", [1, 2])
def test_learning_is_the_same_for_the_same_seed(problem_of, small_layout, rounds):
    recipe = recipe_with(small_layout(iterations=rounds))
    problem = problem_of(2)

    def learned():
        learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
        task, rng = task_of(problem, recipe), np.random.default_rng(3)
        seen = [learner.iterate(task, rng) for _ in range(3)]
        return learner.weights, [s.partitions.tobytes() for s in seen], seen[-1].metrics

    first, second = learned(), learned()
    assert {k: v.tobytes() for k, v in first[0].items()} == {
        k: v.tobytes() for k, v in second[0].items()
    }
    assert first[1:] == second[1:]


def test_a_learner_goes_on_where_another_stopped(problem_of, small_layout):
    recipe = recipe_with(small_layout(), ppo=SHARED)
    task = task_of(problem_of(2), recipe)
    whole = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    rng = np.random.default_rng(3)
    whole.iterate(task, rng)
    other = PolicyLearner(recipe, whole.weights, whole.optimizer_arrays())
    again = np.random.default_rng(3)
    again.bit_generator.state = rng.bit_generator.state
    whole.iterate(task, rng)
    other.iterate(task, again)
    assert all(v.tobytes() == other.weights[k].tobytes() for k, v in whole.weights.items())


def test_states_number_the_weights_in_the_order_of_layers(small_layout):
    recipe = recipe_with(dataclasses.replace(small_layout(), layers=11), ppo=SHARED)
    weights = initial_weights(recipe.layout, 3)
    numbered = {name: np.full((), k) for k, name in enumerate(sorted(weights, key=natural))}
    leaves = jax.tree.leaves(PolicyLearner(recipe, numbered)._params.network)
    assert [int(leaf) for leaf in leaves] == list(range(len(weights)))


def natural(name):
    return [int(part) if part.isdigit() else part for part in name.split("/")]


def test_scores_of_nodes_stay_with_their_graph(problem_of, small_layout):
    recipe = recipe_with(small_layout())
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    learner.iterate(task_of(problem_of(2), recipe), np.random.default_rng(0))
    with pytest.raises(ValueError, match="another task"):
        learner.iterate(task_of(problem_of(3), recipe), np.random.default_rng(0))
    with pytest.raises(ValueError, match="cannot go on"):
        PolicyLearner(recipe, learner.weights, learner.optimizer_arrays())


def test_a_search_around_a_partition_can_draw_it(problem_of, small_layout):
    problem = problem_of(1, n=16, density=0.1)
    recipe = recipe_with(small_layout(), start_prior=0.2)
    start = np.random.default_rng(0)
    rows = task_of(problem, recipe)
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    first = rows.sampler.draw(start, learner.policy(rows).decode(start, 8)).partitions[0]
    task = task_of(problem, recipe, start=first)
    around = PolicyLearner(recipe, initial_weights(recipe.layout, 0)).iterate(
        task, np.random.default_rng(1)
    )
    assert any((row == first).all() for row in around.partitions)


@pytest.mark.parametrize("reward", [np.nan, np.inf, -1.0])
def test_rewards_that_are_no_numbers_are_diagnosed(problem_of, small_layout, reward):
    recipe = recipe_with(small_layout())
    task = task_of(problem_of(2), recipe, lambda rows: np.full(len(rows), reward))
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    with pytest.raises(CompileError, match="MCM-L004"):
        learner.iterate(task, np.random.default_rng(0))


def test_nothing_is_learned_where_nothing_is_found(problem_of, small_layout):
    problem = problem_of(1, density=0.9, pins=[(0, 3), (11, 0)])
    recipe = recipe_with(small_layout(), ppo=dataclasses.replace(FAST, entropy=0.0))
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    before = learner.weights
    seen = learner.iterate(task_of(problem, recipe), np.random.default_rng(0))
    assert (seen.rewards == 0).all()
    assert all(v.tobytes() == learner.weights[k].tobytes() for k, v in before.items())


@pytest.mark.parametrize(
    "changes",
    [
        {"rollouts": 1},
        {"rollouts": 21},
        {"sampler": "none"},
        {"credit": -1.0},
        {"start_prior": 0},
        {"sharpness": 0},
        {"patience": -1},
    ],
)
def test_recipes_are_checked(changes):
    with pytest.raises(ValueError):
        dataclasses.replace(Recipe(), **changes)


@pytest.mark.parametrize(
    "changes",
    [{"epochs": 0}, {"learning_rate": -1}, {"entropy": -1}, {"node_scores": float("nan")}],
)
def test_settings_are_checked(changes):
    with pytest.raises(ValueError):
        dataclasses.replace(PpoSettings(), **changes)


def test_the_published_recipe_has_the_numbers_of_the_paper():
    recipe = RECIPES["published"]
    assert (recipe.rollouts, recipe.ppo.minibatches, recipe.ppo.epochs) == (20, 4, 10)
    assert (recipe.layout.layers, recipe.layout.width, recipe.layout.head_width) == (8, 128, 128)
    assert (recipe.sampler, recipe.mode, recipe.gradient) == ("engine", "fix", "proposed")
    assert recipe.prior == recipe.credit == recipe.ppo.node_scores == 0


def test_where_nothing_runs_credit_still_teaches(problem_of, small_layout):
    problem = problem_of(3, 20, 4)
    layout = small_layout()
    changed = {}
    for stuck in (0.0, 2.0):
        settings = dataclasses.replace(FAST, entropy=0.0)
        recipe = recipe_with(layout, credit=0.0, stuck_credit=stuck, ppo=settings)
        before = initial_weights(layout, 0)
        learner = PolicyLearner(recipe, before)
        task = task_of(problem, recipe, lambda rows: np.zeros(len(rows)))
        learner.iterate(task, np.random.default_rng(0))
        after = learner.weights
        changed[stuck] = max(float(np.abs(after[name] - before[name]).max()) for name in before)
    assert changed[0.0] == 0.0
    assert changed[2.0] > 1e-3
