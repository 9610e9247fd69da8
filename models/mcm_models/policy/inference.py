"""The policy in NumPy, for compiles: equals `network` to 1e-5, without loading JAX."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mcm_models.policy.features import PLACE, GraphFeatures
from mcm_models.policy.layout import (
    LEAK,
    NORM_EPSILON,
    PolicyLayout,
    Singles,
    Weights,
    knot_mixture,
    knot_of_chip,
)

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Decoded:
    """What the rounds of decoding end with.

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
        neighbors: the edges, sorted either way.
        first: `[n, head_width]`, the nodes' part of the head's first layer.
    """

    layout: PolicyLayout
    weights: Weights
    features: GraphFeatures
    prior: Singles
    neighbors: _Neighbors
    first: Singles

    @classmethod
    def of(
        cls, layout: PolicyLayout, weights: Weights, features: GraphFeatures, prior: Singles
    ) -> PolicyOfGraph:
        """Runs GraphSAGE over a graph."""
        neighbors = _Neighbors.of(features)
        joined = np.concatenate([weights["embed/op"][features.op_class], features.values], axis=1)
        embedded = nodes = _relu(joined @ weights["embed/kernel"] + weights["embed/bias"])
        for k in range(layout.layers):
            above, below = neighbors.means(nodes)
            message = (
                nodes @ weights[f"sage/{k}/own"]
                + above @ weights[f"sage/{k}/producers"]
                + below @ weights[f"sage/{k}/consumers"]
            )
            mixed = nodes + _relu(message + weights[f"sage/{k}/bias"])
            mixed -= mixed.mean(axis=0)
            mean_square = np.mean(mixed * mixed, axis=1, keepdims=True)
            nodes = mixed / np.sqrt(mean_square + np.float32(NORM_EPSILON))
            nodes *= weights[f"sage/{k}/scale"]
        first = nodes @ weights["head/node"] + embedded @ weights["head/embedded"]
        first = (first + weights["head/bias0"]).astype(np.float32, copy=False)
        return cls(layout, weights, features, prior, neighbors, first)

    def scores(self, choices: Ints | None = None) -> Singles:
        """Scores of chips, prior included; their softmax is the p of MCM, Eq. 7.

        Args:
            choices: `[R, n]`, chips of the round before, or None in the first.

        Returns:
            `[n, C]`, or `[R, n, C]` where there are choices.
        """
        return self._first_scores if choices is None else self._scores(choices)

    @cached_property
    def _first_scores(self) -> Singles:
        """Those of the first round: the same in every decoding."""
        return self._scores(None)

    def _scores(self, choices: Ints | None) -> Singles:
        chips, weights = self.features.num_chips, self.weights
        if choices is None:
            first = self.first + weights["head/own_choice"][self.layout.knots]
        else:
            knots = knot_of_chip(self.layout.knots, chips)[choices]
            places = ((choices + 0.5) / chips).astype(np.float32)
            columns = self.neighbors.columns(places)
            seen = columns @ weights["head/neighbors"]
            first = self.first + weights["head/own_choice"][knots] + seen
        second = _leaky(_leaky(first) @ weights["head/hidden"] + weights["head/bias1"])
        by_knot = second @ weights["head/scores"] + weights["head/bias2"]
        scores = by_knot @ knot_mixture(self.layout.knots, chips) + self.prior
        if self.layout.around:
            by_distance = second @ weights["head/around"] + weights["head/bias3"]
            scores += _at_chips(by_distance, self.features.values[:, PLACE], chips)
        return scores.astype(np.float32, copy=False)

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

    def _drawn(self, rng: np.random.Generator, count: int, probabilities: Singles) -> Ints:
        uniforms = rng.random((count, self.features.num_nodes), np.float32)
        return choices_by_inverse(probabilities, uniforms)


@dataclass(frozen=True, eq=False)
class _Neighbors:
    """Edges sorted either way, with where each node's begin."""

    source: Ints
    target: Ints
    fed: Ints
    fed_begin: npt.NDArray[np.int64]
    feeding: Ints
    feeding_begin: npt.NDArray[np.int64]
    by_source: npt.NDArray[np.int64]
    num_nodes: int

    @classmethod
    def of(cls, features: GraphFeatures) -> _Neighbors:
        by_source = np.argsort(features.source, kind="stable")
        fed, fed_begin = np.unique(features.target, return_index=True)
        feeding, feeding_begin = np.unique(features.source[by_source], return_index=True)
        return cls(
            features.source, features.target, fed, fed_begin, feeding, feeding_begin,
            by_source, features.num_nodes,
        )  # fmt: skip

    def means(self, nodes: Singles) -> tuple[Singles, Singles]:
        """`[n, width]` each: means over producers and over consumers, 0 where there are none."""
        return (
            self._reduced(np.add, nodes, producers=True, mean=True, none=0.0),
            self._reduced(np.add, nodes, producers=False, mean=True, none=0.0),
        )

    def columns(self, places: Singles) -> Singles:
        """`[R, n, NEIGHBOR_COLUMNS]`."""
        by_node = np.ascontiguousarray(places.T)
        columns = (
            self._reduced(np.maximum, by_node, producers=True, mean=False, none=0.0),
            self._reduced(np.add, by_node, producers=True, mean=True, none=0.0),
            self._reduced(np.minimum, by_node, producers=False, mean=False, none=1.0),
            self._reduced(np.add, by_node, producers=False, mean=True, none=0.0),
            np.ones_like(by_node),
        )
        return np.stack(columns, axis=-1).transpose(1, 0, 2)

    def _reduced(
        self, reduce: np.ufunc, nodes: Singles, *, producers: bool, mean: bool, none: float
    ) -> Singles:
        if producers:
            rows, begin, ends = nodes[self.source], self.fed_begin, self.fed
        else:
            rows = nodes[self.target[self.by_source]]
            begin, ends = self.feeding_begin, self.feeding
        result = np.full((self.num_nodes, nodes.shape[1]), none, np.float32)
        if ends.size:
            result[ends] = reduce.reduceat(rows, begin, axis=0)
            if mean:
                counts = np.diff(np.append(begin, len(rows)))
                result[ends] *= (1.0 / counts).astype(np.float32)[:, None]
        return result


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


def _at_chips(by_distance: Singles, place: Singles, chips: int) -> Singles:
    """`[..., n, C]`, scores by distance from each node's place, interpolated at the chips."""
    last = by_distance.shape[-1] - 1
    middle = np.arange(chips, dtype=np.float32) + np.float32(0.5)
    distance = middle - np.float32(chips) * place[:, None]
    spot = np.clip(distance + np.float32(last / 2), 0, last)
    low = np.minimum(spot.astype(np.int32), last - 1)
    share = (spot - low).astype(np.float32)
    low = np.broadcast_to(low, (*by_distance.shape[:-1], chips))
    lower = np.take_along_axis(by_distance, low, axis=-1)
    upper = np.take_along_axis(by_distance, low + 1, axis=-1)
    return (lower * (np.float32(1) - share) + upper * share).astype(np.float32, copy=False)


def _leaky(values: npt.NDArray[np.floating[Any]]) -> Singles:
    return np.maximum(values, np.float32(LEAK) * values).astype(np.float32, copy=False)


def _relu(values: npt.NDArray[np.floating[Any]]) -> Singles:
    return np.maximum(values, np.float32(0)).astype(np.float32, copy=False)
