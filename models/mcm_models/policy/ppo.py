"""Proximal policy optimisation of a partitioning policy (Schulman et al. 2017), in one program.

MCM trains on rollouts whose proposals a solver repairs. What a rollout is judged by is its
repaired partition, so the sampler tells with every draw how it came about: `log_base`, what the
rules and decisions before left of each chip, as a logarithm. The distribution that is learned is

    q(c) = softmax(scores + log_base),

which covers all variants. At `log_base` 0 and the proposed chips it is the published gradient
(MCM, section 4.2). With minus infinity outside the domain at the time of the decision, it is the
solver's own distribution. With the marginals of an exact sampler over its policy's
probabilities, its gradient at the sampled policy is that of the likelihood of whole partitions:
the choice minus the marginal. A node whose chip was forced gets no gradient.

Beside the network each node of the graph at hand may have scores of its own (ours). A network that
serves all graphs answers much the same for the like layers of a deep one, and learns slowly which
of them a chip begins with; scores of single nodes learn that at once. They stay with the graph.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from mcm_models.policy.network import Choices, Params, Policy
from mcm_models.policy.padding import PaddedGraph
from mcm_models.policy.ppo_settings import PpoSettings

Array = jax.Array


def optimizer(settings: PpoSettings) -> optax.GradientTransformation:
    """Adam behind a cut of the gradient's norm."""
    return optax.chain(
        optax.clip_by_global_norm(settings.max_gradient), optax.adam(settings.learning_rate)
    )


class Trained(NamedTuple):
    """All that an update changes.

    Attributes:
        network: weights of the policy.
        node_scores: `[P, C]`, scores of the nodes' own, over `PpoSettings.node_scores`, which is
            how they get larger steps; `[0, 0]` where there are none.
    """

    network: Params
    node_scores: Array


class Inputs(NamedTuple):
    """What the scores of one graph are computed from.

    Attributes:
        graph: P nodes.
        mixture: `[K, C]`.
        prior: `[P, C]`, added to the scores.
    """

    graph: PaddedGraph
    mixture: Array
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


@partial(jax.jit, static_argnames=("definition", "settings"), donate_argnames=("params", "state"))
def update(
    definition: nnx.GraphDef[Policy],
    settings: PpoSettings,
    params: Trained,
    state: Any,
    inputs: Inputs,
    batch: Batch,
    order: Array,
) -> tuple[Trained, Any, UpdateMetrics]:
    """All gradient steps on one batch, in one scan.

    Args:
        definition: of the policy.
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
        policy = nnx.merge(definition, params.network)
        scores = policy(graph, inputs.mixture, choices) + inputs.prior
        if settings.node_scores:
            scores += settings.node_scores * params.node_scores
        log_p = jax.nn.log_softmax(scores, axis=-1)
        entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
        entropy = jnp.sum(entropy * graph.real) / (entropy.size / graph.real.size)
        q = jax.nn.log_softmax(log_p + base, axis=-1)
        q = jnp.broadcast_to(q, (actions.shape[0], *q.shape[-2:]))
        taken = jnp.take_along_axis(q, actions[..., None], axis=-1)[..., 0]
        return taken, entropy / jnp.sum(graph.real)

    before = log_q(params, None)[0]

    def loss_of(params: Trained, rows: Array) -> tuple[Array, tuple[Array, Array]]:
        taken, entropy = log_q(params, rows)
        ratio = jnp.exp(taken - before[rows])
        advantage = batch.advantage[rows]
        kept = jnp.clip(ratio, 1.0 - settings.clip, 1.0 + settings.clip)
        gain = jnp.minimum(ratio * advantage, kept * advantage) * graph.real
        nodes = rows.shape[0] * jnp.sum(graph.real)
        clipped = jnp.sum((kept != ratio) * graph.real) / nodes
        loss = -jnp.sum(gain) / nodes - settings.entropy * entropy
        return loss, (entropy, clipped)

    adam = optimizer(settings)

    def step(carry: tuple[Trained, Any], rows: Array) -> tuple[tuple[Trained, Any], UpdateMetrics]:
        params, state = carry
        (loss, (entropy, clipped)), gradient = jax.value_and_grad(loss_of, has_aux=True)(
            params, rows
        )
        change, state = adam.update(gradient, state, params)
        params = cast(Trained, optax.apply_updates(params, change))
        metrics = UpdateMetrics(loss, entropy, clipped, optax.tree_utils.tree_norm(gradient))
        return (params, state), metrics

    (params, state), history = jax.lax.scan(step, (params, state), order)
    last = UpdateMetrics(*(jnp.mean(values[-settings.minibatches :]) for values in history))
    return params, state, last
