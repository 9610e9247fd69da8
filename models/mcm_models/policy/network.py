"""The policy's formula, which training takes gradients of and compiles run in onnxruntime.

GraphSAGE (Hamilton et al. 2017) with mean aggregation over producers and consumers apart, then a
feed-forward head over chips, decoded in rounds (MCM, section 4.1 and Eq. 7). Residual sums and
RMS normalisation between the layers are ours, so that eight layers train from the first step on.

`o` are the operations on the arrays (`mcm_models.arrays`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_models.arrays import Onnx, Value, onnx_model, open_formula
from mcm_models.policy.features import PLACE, GraphFeatures, Ints, PaddedGraph, whole_graph
from mcm_models.policy.layout import (
    LEAK,
    NORM_EPSILON,
    PolicyLayout,
    Singles,
    Weights,
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


def balanced_prior(
    share_before: npt.NDArray[np.floating[Any]], num_chips: int, width: float
) -> Singles:
    """`[n, C]`, added to the policy's scores: `-((c + 1/2 - C w) / width)^2 / 2`.

    Args:
        share_before: `[n]`, w, share of all load before the middle of each node.
        num_chips: C.
        width: deviation in chips, above 0.
    """
    return prior_around(num_chips * share_before - 0.5, num_chips, width)


def prior_around(
    chips: npt.NDArray[np.floating[Any] | np.int32], num_chips: int, width: float
) -> Singles:
    """`[n, C]`, likewise around the chips of a known partition.

    Args:
        chips: `[n]`, chip of each node in that partition.
        num_chips: C.
        width: deviation in chips, above 0.
    """
    away = (np.arange(num_chips) - chips[:, None]) / width
    return (-0.5 * away**2).astype(np.float32)


FIRST, SCORES = "shared", "chip scores"
"""Outputs: of the part that all rounds share, and of a round."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Result of the rounds of decoding.

    Attributes:
        probabilities: of the last round, `[n, C]` where T is 1, else `[R, n, C]`.
        proposals: `[R, n]`, chips drawn from them.
        before: `[R, n]`, choices of the last round but one; None where T is 1.
    """

    probabilities: Singles
    proposals: Ints
    before: Ints | None


@dataclass(frozen=True, eq=False)
class PolicyOfGraph:
    """A policy applied to one graph, with all that does not depend on choices computed once.

    Attributes:
        layout: shape of the policy.
        weights: by name.
        features: the graph.
        prior: `[n, C]`, added to all scores.
    """

    layout: PolicyLayout
    weights: Weights
    features: GraphFeatures
    prior: Singles

    def scores(self, choices: Ints | None = None) -> Singles:
        """Scores of chips, prior included; their softmax is the p of MCM, Eq. 7.

        Args:
            choices: `[R, n]`, chips of the round before, or None in the first.

        Returns:
            `[n, C]`, or `[R, n, C]` where there are choices.
        """
        vectors, scores = self.first
        if choices is not None:
            seen = Choices.of(self.layout, choices, self.features.num_chips)
            feeds = {FIRST: vectors, **self._feeds, **seen._asdict()}
            (scores,) = _session(self.layout, True).run([SCORES], feeds)
        return scores + self.prior

    def decode(self, rng: np.random.Generator, count: int, temperature: float = 1.0) -> Decoded:
        """T rounds of non-autoregressive decoding.

        Args:
            rng: source of randomness.
            count: R, rollouts.
            temperature: that the scores of the last round are divided by, above 0; what is
                learned from is decoded at 1.
        """
        before: Ints | None = None
        for _ in range(self.layout.iterations - 1):
            before = self._drawn(rng, count, softmax(self.scores(before)))
        probabilities = softmax(self.scores(before) / np.float32(temperature))
        return Decoded(probabilities, self._drawn(rng, count, probabilities), before)

    @cached_property
    def first(self) -> list[Singles]:
        """Node vectors and scores of the first round: the same in every decoding."""
        return _session(self.layout, False).run([FIRST, SCORES], self._feeds)

    @cached_property
    def _feeds(self) -> dict[str, Any]:
        chips = Chips.of(self.layout, self.features.num_chips)
        return {**self.weights, **whole_graph(self.features)._asdict(), **chips._asdict()}

    def _drawn(self, rng: np.random.Generator, count: int, probabilities: Singles) -> Ints:
        uniforms = rng.random((count, self.features.num_nodes), np.float32)
        return choices_by_inverse(probabilities, uniforms)


def softmax(scores: Singles) -> Singles:
    """Over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def choices_by_inverse(probabilities: Singles, uniforms: Singles) -> Ints:
    """Draws by inverse of the cumulative distribution.

    Args:
        probabilities: `[n, C]` or `[R, n, C]`.
        uniforms: `[R, n]`, from 0 up to 1.

    Returns:
        `[R, n]`, chips.
    """
    running = np.cumsum(probabilities, axis=-1)
    passed = running[..., :-1] <= uniforms[..., None] * running[..., -1:]
    return passed.sum(axis=-1).astype(np.int32)


@lru_cache(maxsize=8)
def _session(layout: PolicyLayout, later: bool) -> Any:
    """From a graph to what rounds share and scores, or from that and choices to scores.

    Weights are inputs, so that one session serves a policy while it learns.
    """
    single, numbers = np.zeros(0, np.float32), np.zeros(0, np.int32)
    like = {name: np.zeros([0] * len(shape), np.float32) for name, shape in layout.shapes().items()}
    like |= dict.fromkeys(PaddedGraph._fields, single)
    like |= dict.fromkeys(("op_class", "source", "target", "by_source"), numbers)
    like |= {"values": np.zeros((0, 0), np.float32), **Chips.of(layout, 1)._asdict()}
    if later:
        like |= {FIRST: like["values"], **Choices.of(layout, numbers[None], 1)._asdict()}

    def formula(o: Onnx, given: dict[str, Value]) -> dict[str, Value]:
        graph = PaddedGraph(*(given[n] for n in PaddedGraph._fields))
        chips = Chips(*(given[n] for n in Chips._fields))
        choices = Choices(*(given[n] for n in Choices._fields)) if later else None
        first = given[FIRST] if later else node_vectors(o, layout, given, graph)
        scores = chip_scores(o, layout, given, first, graph, chips, choices)
        return {SCORES: scores} if later else {FIRST: first, SCORES: scores}

    return open_formula(onnx_model(formula, like))
