"""The policy on one graph, without JAX, and the prior that is added to its scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mcm_models.arrays import Onnx, Value, onnx_model, open_formula
from mcm_models.policy.features import GraphFeatures, Ints, PaddedGraph, whole_graph
from mcm_models.policy.layout import PolicyLayout, Singles, Weights
from mcm_models.policy.network import Chips, Choices, chip_scores, node_vectors


def balanced_prior(
    share_before: npt.NDArray[np.floating[Any]], num_chips: int, width: float
) -> Singles:
    """`[n, C]`, added to the policy's scores: `-((c + 1/2 - C w) / width)^2 / 2`.

    Args:
        share_before: `[n]`, w, share of all load before the middle of each node.
        num_chips: C.
        width: deviation in chips, above 0.
    """
    return _bell(num_chips * share_before - 0.5, num_chips, width)


def prior_around(chips: npt.NDArray[np.int32], num_chips: int, width: float) -> Singles:
    """`[n, C]`, likewise around the chips of a known partition.

    Args:
        chips: `[n]`, chip of each node in that partition.
        num_chips: C.
        width: deviation in chips, above 0.
    """
    return _bell(chips, num_chips, width)


def _bell(
    wanted: npt.NDArray[np.floating[Any] | np.int32], num_chips: int, width: float
) -> Singles:
    away = (np.arange(num_chips) - wanted[:, None]) / width
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
        _, scores = self._first
        if choices is not None:
            seen = Choices.of(self.layout, choices, self.features.num_chips)
            feeds = {FIRST: self.node_vectors, **self._feeds, **seen._asdict()}
            (scores,) = _session(self.layout, True).run([SCORES], feeds)
        return scores + self.prior

    @property
    def node_vectors(self) -> Singles:
        """`[n, head_width]`; see `mcm_models.policy.network.node_vectors`."""
        return self._first[0]

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
    def _first(self) -> list[Singles]:
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
