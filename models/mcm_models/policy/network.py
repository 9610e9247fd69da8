"""The policy's formula, which training takes gradients of and compiles run in onnxruntime.

GraphSAGE (Hamilton et al. 2017) with mean aggregation over producers and consumers apart, then a
feed-forward head over chips, decoded in rounds (MCM, section 4.1 and Eq. 7). Residual sums and
RMS normalisation between the layers are ours, so that eight layers train from the first step on.

`o` are the operations on the arrays (`mcm_models.arrays`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mcm_models.policy.features import PLACE, Ints, PaddedGraph
from mcm_models.policy.layout import (
    LEAK,
    NORM_EPSILON,
    PolicyLayout,
    Singles,
    knot_mixture,
    knot_of_chip,
)

Array = Any
Arrays = Mapping[str, Array]
"""Weights by name."""


class Chips(NamedTuple):
    """The chips of a package, C of them.

    Attributes:
        mixture: `[K, C]`, from `knot_mixture`.
        middle: `[C]`, places of their middles, in chips.
        count: C.
    """

    mixture: Array
    middle: Array
    count: Array

    @classmethod
    def of(cls, layout: PolicyLayout, count: int) -> Chips:
        """As arrays of NumPy."""
        middle = np.arange(count, dtype=np.float32) + np.float32(0.5)
        return cls(knot_mixture(layout.knots, count), middle, np.array(count, np.float32))


class Choices(NamedTuple):
    """Chips that R rollouts chose in the round before.

    Attributes:
        knots: `[R, P]`, knot of each choice.
        places: `[R, P]`, place on the ring, from 0 to 1.
    """

    knots: Array
    places: Array

    @classmethod
    def of(cls, layout: PolicyLayout, chips: Ints, count: int) -> Choices:
        """As arrays of NumPy, from numbers of chips below `count`."""
        places: Singles = ((chips + 0.5) / count).astype(np.float32)
        return cls(knot_of_chip(layout.knots, count)[chips], places)


def node_vectors(o: Any, layout: PolicyLayout, weights: Arrays, graph: PaddedGraph) -> Array:
    """`[P, head_width]`, the nodes' part of the head's first layer: the same for all rollouts.

    The head sees nodes before GraphSAGE, too, because the layers keep nothing of what all nodes
    share, such as the number of chips.
    """
    joined = o.concatenate([weights["embed/op"][graph.op_class], graph.values], axis=-1)
    embedded = nodes = o.relu(joined @ weights["embed/kernel"] + weights["embed/bias"])
    for k in range(layout.layers):
        nodes = sage_layer(o, k, weights, nodes, graph, embedded)
    first = nodes @ weights["head/node"] + embedded @ weights["head/embedded"]
    return first + weights["head/bias0"]


def sage_layer(
    o: Any, k: int, weights: Arrays, nodes: Array, graph: PaddedGraph, like: Array
) -> Array:
    """One round of messages between neighbours, `[P, width]` to the same; `like` has that shape."""
    part = {name: weights[f"sage/{k}/{name}"] for name in SAGE}
    above = _from_producers(o, "add", nodes, graph, like) * graph.in_share[:, None]
    below = _from_consumers(o, "add", nodes, graph, like) * graph.out_share[:, None]
    message = nodes @ part["own"] + above @ part["producers"] + below @ part["consumers"]
    mixed = nodes + o.relu(message + part["bias"])
    # What all nodes share would grow with every layer until it drowns what sets them apart.
    mixed = mixed - graph.real @ mixed / o.sum(graph.real)
    mean_square = o.mean(mixed * mixed, axis=-1, keepdims=True)
    return mixed * o.rsqrt(mean_square + NORM_EPSILON) * part["scale"]


SAGE = ("own", "producers", "consumers", "bias", "scale")


def chip_scores(
    o: Any,
    layout: PolicyLayout,
    weights: Arrays,
    first: Array,
    graph: PaddedGraph,
    chips: Chips,
    choices: Choices | None,
) -> Array:
    """Scores of chips without prior; their softmax is the p of Eq. 7.

    Args:
        o: operations.
        layout: of the policy.
        weights: by name.
        first: from `node_vectors`.
        graph: P nodes.
        chips: C of them.
        choices: of the round before, or None in the first.

    Returns:
        `[P, C]` where there are no choices, else `[R, P, C]`.
    """
    if choices is None:
        first = first + weights["head/own_choice"][layout.knots]
    else:
        seen = _neighbor_columns(o, choices.places, graph) @ weights["head/neighbors"]
        first = first + weights["head/own_choice"][choices.knots] + seen
    second = _leaky(o, _leaky(o, first) @ weights["head/hidden"] + weights["head/bias1"])
    scores = (second @ weights["head/scores"] + weights["head/bias2"]) @ chips.mixture
    if not layout.around:
        return scores
    by_distance = second @ weights["head/around"] + weights["head/bias3"]
    return scores + _at_chips(o, layout, by_distance, graph.values[:, PLACE], chips)


def _leaky(o: Any, values: Array) -> Array:
    return o.maximum(values, LEAK * values)


def _at_chips(
    o: Any, layout: PolicyLayout, by_distance: Array, place: Array, chips: Chips
) -> Array:
    """`[..., P, C]`, scores by distance from each node's place, interpolated at the chips."""
    last = 2 * layout.around
    distance = chips.middle - chips.count * place[:, None]
    spot = o.clip(distance + last / 2, 0.0, float(last))
    low = o.minimum(o.integers(spot), np.int32(last - 1))
    share = spot - o.floats(low)
    lower, upper = o.along_last(by_distance, low), o.along_last(by_distance, low + np.int32(1))
    return lower * (1.0 - share) + upper * share


def _from_producers(
    o: Any, how: str, nodes: Array, graph: PaddedGraph, like: Array, none: float = 0.0
) -> Array:
    return o.gathered(how, nodes[graph.source], graph.target, like, none)


def _from_consumers(
    o: Any, how: str, nodes: Array, graph: PaddedGraph, like: Array, none: float = 0.0
) -> Array:
    rows, ends = nodes[graph.target[graph.by_source]], graph.source[graph.by_source]
    return o.gathered(how, rows, ends, like, none)


def _neighbor_columns(o: Any, places: Array, graph: PaddedGraph) -> Array:
    """`[R, P, NEIGHBOR_COLUMNS]`: what each node sees of its neighbours' choices."""
    by_node = places.T
    columns = (
        _from_producers(o, "max", by_node, graph, by_node),
        _from_producers(o, "add", by_node, graph, by_node) * graph.in_share[:, None],
        _from_consumers(o, "min", by_node, graph, by_node, 1.0),
        _from_consumers(o, "add", by_node, graph, by_node) * graph.out_share[:, None],
        o.ones_like(by_node),
    )
    return o.stack(columns, axis=-1).transpose(1, 0, 2)
