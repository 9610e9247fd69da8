"""The policy in Flax, for training. Compiles use `inference`, which equals it without JAX.

GraphSAGE (Hamilton et al. 2017) with mean aggregation over producers and consumers apart, then a
feed-forward head over chips, decoded in rounds (MCM, section 4.1 and Eq. 7). Residual sums and
RMS normalisation between the layers are ours, so that eight layers train from the first step on.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from mcm_models.policy.features import PLACE
from mcm_models.policy.layout import LEAK, NORM_EPSILON, PolicyLayout, Weights
from mcm_models.policy.padding import PaddedGraph

Array = jax.Array
Params: TypeAlias = "nnx.State[Any, Any]"
"""Weights as the pytree that Flax splits off a `Policy`."""


class Choices(NamedTuple):
    """Chips that the rollouts chose in the round before.

    Attributes:
        knots: `[R, P]`, knot of each choice.
        places: `[R, P]`, place on the ring, from 0 to 1.
    """

    knots: Array
    places: Array


class NodeVectors(NamedTuple):
    """What the head sees of the nodes.

    Attributes:
        embedded: `[P, width]`, before GraphSAGE; the head sees them, too, because the layers keep
            nothing of what all nodes share, such as the number of chips.
        last: `[P, width]`, after its last layer.
    """

    embedded: Array
    last: Array


class Embedding(nnx.Module):
    """From features to node vectors."""

    def __init__(self, layout: PolicyLayout) -> None:
        shapes = layout.shapes()
        self.op = _zeros(shapes["embed/op"])
        self.kernel = _zeros(shapes["embed/kernel"])
        self.bias = _zeros(shapes["embed/bias"])

    def __call__(self, graph: PaddedGraph) -> Array:
        """`[P, width]`."""
        joined = jnp.concatenate([self.op[...][graph.op_class], graph.values], axis=-1)
        return jax.nn.relu(joined @ self.kernel[...] + self.bias[...])


class SageLayer(nnx.Module):
    """One round of messages between neighbours."""

    def __init__(self, layout: PolicyLayout) -> None:
        square, row = (layout.width, layout.width), (layout.width,)
        self.own = _zeros(square)
        self.producers = _zeros(square)
        self.consumers = _zeros(square)
        self.bias = _zeros(row)
        self.scale = _zeros(row)

    def __call__(self, nodes: Array, graph: PaddedGraph) -> Array:
        """`[P, width]` to the same."""
        above = _sum_over_producers(nodes, graph) * graph.in_share[:, None]
        below = _sum_over_consumers(nodes, graph) * graph.out_share[:, None]
        message = nodes @ self.own[...] + above @ self.producers[...] + below @ self.consumers[...]
        mixed = nodes + jax.nn.relu(message + self.bias[...])
        # What all nodes share would grow with every layer until it drowns what tells them apart.
        mixed -= graph.real @ mixed / jnp.sum(graph.real)
        mean_square = jnp.mean(mixed * mixed, axis=-1, keepdims=True)
        return mixed * jax.lax.rsqrt(mean_square + NORM_EPSILON) * self.scale[...]


class Head(nnx.Module):
    """From node vectors and choices so far to scores of knots.

    The first layer is factored: one product per node, to which each rollout adds a row of a table
    and a few columns.
    """

    def __init__(self, layout: PolicyLayout) -> None:
        self.knots = layout.knots
        shapes = layout.shapes()
        self.node = _zeros(shapes["head/node"])
        self.embedded = _zeros(shapes["head/embedded"])
        self.own_choice = _zeros(shapes["head/own_choice"])
        self.neighbors = _zeros(shapes["head/neighbors"])
        self.bias0 = _zeros(shapes["head/bias0"])
        self.hidden = _zeros(shapes["head/hidden"])
        self.bias1 = _zeros(shapes["head/bias1"])
        self.scores = _zeros(shapes["head/scores"])
        self.bias2 = _zeros(shapes["head/bias2"])
        self.reach = layout.around
        if layout.around:
            self.around = _zeros(shapes["head/around"])
            self.bias3 = _zeros(shapes["head/bias3"])

    def __call__(
        self, vectors: NodeVectors, graph: PaddedGraph, mixture: Array, choices: Choices | None
    ) -> Array:
        """Scores `[P, C]` where there are no choices yet, else `[R, P, C]`."""
        first = vectors.last @ self.node[...] + vectors.embedded @ self.embedded[...]
        first += self.bias0[...]
        if choices is None:
            first = first + self.own_choice[...][self.knots]
        else:
            seen = _neighbor_columns(choices.places, graph) @ self.neighbors[...]
            first = first + self.own_choice[...][choices.knots] + seen
        second = _leaky(_leaky(first) @ self.hidden[...] + self.bias1[...])
        scores = (second @ self.scores[...] + self.bias2[...]) @ mixture
        if not self.reach:
            return scores
        by_distance = second @ self.around[...] + self.bias3[...]
        return scores + _at_chips(
            by_distance, jnp.asarray(graph.values)[:, PLACE], mixture.shape[1]
        )


class Policy(nnx.Module):
    """Scores of all chips for all nodes."""

    def __init__(self, layout: PolicyLayout) -> None:
        self.embed = Embedding(layout)
        self.sage = nnx.List([SageLayer(layout) for _ in range(layout.layers)])
        self.head = Head(layout)

    def __call__(self, graph: PaddedGraph, mixture: Array, choices: Choices | None) -> Array:
        """Scores `[P, C]` or `[R, P, C]`, without prior; their softmax is the p of Eq. 7.

        Args:
            graph: P nodes.
            mixture: `[K, C]`, from `knot_mixture`.
            choices: of the round before, or None in the first.
        """
        embedded = nodes = self.embed(graph)
        for layer in self.sage:
            nodes = layer(nodes, graph)
        return self.head(NodeVectors(embedded, nodes), graph, mixture, choices)


def definition(layout: PolicyLayout) -> nnx.GraphDef[Policy]:
    """The policy without weights, static for `jax.jit`."""
    return nnx.split(Policy(layout))[0]


def params_of(weights: Weights) -> Params:
    """Weights by name as the pytree that `nnx.merge` takes."""
    flat = [(_path(name), nnx.Param(jnp.asarray(array))) for name, array in weights.items()]
    return nnx.from_flat_state(flat)


def weights_of(params: Params) -> Weights:
    """The inverse of `params_of`."""
    flat = {"/".join(map(str, path)): leaf for path, leaf in nnx.to_flat_state(params)}
    return {name: np.asarray(flat[name][...]) for name in sorted(flat)}


def _path(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in name.split("/"))


def _zeros(shape: tuple[int, ...]) -> nnx.Param[Array]:
    """A parameter whose values come later, from `params_of`."""
    return nnx.Param(jnp.zeros(shape))


def _leaky(values: Array) -> Array:
    return jnp.maximum(values, LEAK * values)


def _at_chips(by_distance: Array, place: Array, chips: int) -> Array:
    """`[..., P, C]`, scores by distance from each node's place, interpolated at the chips."""
    last = by_distance.shape[-1] - 1
    distance = (jnp.arange(chips, dtype=jnp.float32) + 0.5) - chips * place[:, None]
    spot = jnp.clip(distance + last / 2, 0, last)
    low = jnp.minimum(spot.astype(jnp.int32), last - 1)
    share = spot - low
    low = jnp.broadcast_to(low, (*by_distance.shape[:-1], chips))
    lower = jnp.take_along_axis(by_distance, low, axis=-1)
    upper = jnp.take_along_axis(by_distance, low + 1, axis=-1)
    return lower * (1.0 - share) + upper * share


def _sum_over_producers(nodes: Array, graph: PaddedGraph) -> Array:
    rows = nodes[graph.source]
    return jax.ops.segment_sum(rows, graph.target, nodes.shape[0], indices_are_sorted=True)


def _sum_over_consumers(nodes: Array, graph: PaddedGraph) -> Array:
    rows, ends = nodes[graph.target[graph.by_source]], graph.source[graph.by_source]
    return jax.ops.segment_sum(rows, ends, nodes.shape[0], indices_are_sorted=True)


def _neighbor_columns(places: Array, graph: PaddedGraph) -> Array:
    """`[R, P, NEIGHBOR_COLUMNS]`: what each node sees of its neighbours' choices."""
    by_node = places.T
    num = by_node.shape[0]
    from_producers = by_node[graph.source]
    source, target = graph.source[graph.by_source], graph.target[graph.by_source]
    from_consumers = by_node[target]
    latest = jax.ops.segment_max(from_producers, graph.target, num, indices_are_sorted=True)
    earliest = jax.ops.segment_min(from_consumers, source, num, indices_are_sorted=True)
    columns = (
        jnp.where(graph.in_share[:, None] > 0, latest, 0.0),
        _sum_over_producers(by_node, graph) * graph.in_share[:, None],
        jnp.where(graph.out_share[:, None] > 0, earliest, 1.0),
        _sum_over_consumers(by_node, graph) * graph.out_share[:, None],
        jnp.ones_like(by_node),
    )
    return jnp.stack(columns, axis=-1).transpose(1, 0, 2)
