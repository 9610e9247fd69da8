"""Proximal policy optimisation of a partitioning policy (Schulman et al. 2017), in one program.

MCM trains on rollouts whose proposals a solver repairs. What a rollout is simulated by is its
repaired partition, so the sampler reports with every draw how it came about: `log_base`, what the
rules and decisions before left of each chip, as a logarithm. The distribution that is learned is

    q(c) = softmax(scores + log_base),

which covers all variants. At `log_base` 0 and the proposed chips it is the published gradient
(MCM, section 4.2). With minus infinity outside the domain at the time of the decision, it is the
solver's own distribution. With the marginals of an exact sampler over its policy's
probabilities, its gradient at the sampled policy is that of the likelihood of whole partitions:
the choice minus the marginal. A node whose chip was forced gets no gradient.

Next to the network each node of the graph at hand may have scores of its own (ours). A network that
serves all graphs answers much the same for the like layers of a deep one, and learns slowly which
of them a chip begins with. Scores of single nodes learn that at once. They stay with the graph.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mcm_models.arrays import Jax
from mcm_models.policy.features import PaddedGraph
from mcm_models.policy.layout import PolicyLayout
from mcm_models.policy.network import Chips, Choices, chip_scores, node_vectors
from mcm_models.ppo import adam, gains, gradient_steps, taken
from mcm_models.ppo_settings import PpoSettings

Array = jax.Array


def scores_of(
    layout: PolicyLayout,
    weights: dict[str, Array],
    graph: PaddedGraph,
    chips: Chips,
    choices: Choices | None,
) -> Array:
    """Scores of chips without prior; see `mcm_models.policy.network.chip_scores`."""
    o = Jax()
    graph = PaddedGraph(*map(jnp.asarray, graph))
    first = node_vectors(o, layout, weights, graph)
    return chip_scores(o, layout, weights, first, graph, chips, choices)


class Trained(NamedTuple):
    """All that an update changes.

    Attributes:
        network: weights of the policy, by name.
        node_scores: `[P, C]`, scores of the nodes' own, over `PpoSettings.node_scores`, which is
            how they get larger steps; `[0, 0]` where there are none.
    """

    network: dict[str, Array]
    node_scores: Array


class Inputs(NamedTuple):
    """Inputs of one graph's scores.

    Attributes:
        graph: P nodes.
        chips: of the package.
        prior: `[P, C]`, added to the scores.
    """

    graph: PaddedGraph
    chips: Chips
    prior: Array


class Batch(NamedTuple):
    """Rollouts on one graph. R is a multiple of the mini-batches.

    Attributes:
        actions: `[R, P]`, chip that each node went to.
        log_base: `[R, P, C]`, or `[1, P, C]` where all rollouts share it.
        advantage: `[R, P]`.
        choices: of the last round but one, or None where T is 1.
    """

    actions: Array
    log_base: Array
    advantage: Array
    choices: Choices | None


class UpdateMetrics(NamedTuple):
    """Means over the last epoch.

    Attributes:
        loss: what was minimised.
        entropy: mean entropy of p over nodes, in nats.
        clipped: share of decisions whose ratio was out of range.
        gradient: norm of the gradient before it is cut.
    """

    loss: Array
    entropy: Array
    clipped: Array
    gradient: Array


@partial(jax.jit, static_argnames=("layout", "settings"), donate_argnames=("params", "state"))
def update(
    layout: PolicyLayout,
    settings: PpoSettings,
    params: Trained,
    state: Any,
    inputs: Inputs,
    batch: Batch,
    order: Array,
) -> tuple[Trained, Any, UpdateMetrics]:
    """All gradient steps on one batch, in one scan.

    Args:
        layout: of the policy.
        settings: of PPO.
        params: of the policy that sampled the batch.
        state: of the optimizer.
        inputs: of the policy.
        batch: R rollouts.
        order: `[epochs * minibatches, R / minibatches]`, rollouts of each step.

    Returns:
        New parameters and state, and what happened.
    """
    graph = inputs.graph

    def log_q(params: Trained, rows: Array | None) -> tuple[Array, Array]:
        """Log-probability of each decision `[R, P]`, and entropy of p, for some rollouts."""
        choices, base, actions = batch.choices, batch.log_base, batch.actions
        if rows is not None:
            actions = actions[rows]
            base = base[rows] if base.shape[0] > 1 else base
            choices = None if choices is None else Choices(*(part[rows] for part in choices))
        scores = scores_of(layout, params.network, graph, inputs.chips, choices) + inputs.prior
        if settings.node_scores:
            scores += settings.node_scores * params.node_scores
        log_p = jax.nn.log_softmax(scores, axis=-1)
        entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
        entropy = jnp.sum(entropy * graph.real) / (entropy.size / graph.real.size)
        q = jax.nn.log_softmax(log_p + base, axis=-1)
        q = jnp.broadcast_to(q, (actions.shape[0], *q.shape[-2:]))
        return taken(q, actions), entropy / jnp.sum(graph.real)

    before = log_q(params, None)[0]

    def loss_of(params: Trained, rows: Array) -> tuple[Array, tuple[Array, Array]]:
        log_p, entropy = log_q(params, rows)
        gain, outside = gains(log_p, before[rows], batch.advantage[rows], settings.clip)
        nodes = rows.shape[0] * jnp.sum(graph.real)
        clipped = jnp.sum(outside * graph.real) / nodes
        loss = -jnp.sum(gain * graph.real) / nodes - settings.entropy * entropy
        return loss, (entropy, clipped)

    optimizer = adam(settings.max_gradient, settings.learning_rate)
    params, state, metrics = gradient_steps(loss_of, optimizer, params, state, order)
    history = (metrics.loss, *metrics.figures, metrics.gradient)
    return params, state, UpdateMetrics(*(jnp.mean(v[-settings.minibatches :]) for v in history))
