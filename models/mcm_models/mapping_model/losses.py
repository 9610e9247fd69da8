"""What the network learns from: errors of logarithms, and the order within a graph."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mcm_models.mapping_model.layout import Singles

Array = jax.Array

SHARP = 0.02
"""Errors of logarithms below this count by their square, those above by their size."""

CLOSE = 0.03
"""Logarithms of periods that differ by less than this are nearly equal to the ranking loss."""

REACHED = 1e-4
"""Periods beyond the bound by a smaller share have reached it."""

MARGIN = 0.01
"""Answers for mappings that reach the bound should be below it by so much: cut off, they are the
same, and noise makes no order among them."""

TIED = 0.005
"""Logarithms of periods that differ by no more are the same, as far as labels can tell."""

FAR = 0.1
"""Pairs that differ by more than this count fully."""


class Labels(NamedTuple):
    """Of G graphs with M mappings each, one graph after the other.

    Attributes:
        period: `[G M]`, logarithms over the bound.
        latency: `[G M]`, likewise.
        weight: `[G M]`, 0 for mappings that nothing is to be learned from.
    """

    period: Singles
    latency: Singles
    weight: Singles


def period_loss(answers: Array, labels: Labels) -> Array:
    """Mean error. Below the bound, where answers are cut off, all are the same."""
    away = answers[:, 0] - labels.period
    away = jnp.where(labels.period <= REACHED, jnp.maximum(away + MARGIN, 0.0), away)
    return _mean(_size(away), labels.weight)


def latency_loss(answers: Array, labels: Labels) -> Array:
    """Mean error."""
    return _mean(_size(answers[:, 1] - labels.latency), labels.weight)


def ranking_loss(answers: Array, labels: Labels, mappings: int) -> Array:
    """Mean over pairs of mappings of a graph: which of two is faster (RankNet, Burges 2005).

    Pairs count by how much they differ. Beside that the mean distance of the answers, cut off at
    the bound, for pairs that are the same: where one unit decides there is no order, and any
    correction that depends on where things lie would make one of noise.
    """
    guess = answers[:, 0].reshape(-1, mappings)
    period = jnp.asarray(labels.period).reshape(-1, mappings)
    weight = jnp.asarray(labels.weight).reshape(-1, mappings)
    guessed = guess[:, :, None] - guess[:, None, :]
    differ = period[:, :, None] - period[:, None, :]
    counts = jnp.minimum(jnp.maximum(differ, 0.0) / FAR, 1.0)
    counts *= weight[:, :, None] * weight[:, None, :]
    wrong = jax.nn.softplus(-guessed / CLOSE) * CLOSE
    return _mean(wrong, counts) + _mean(_between(guess), _tied(period, weight))


def _between(guess: Array) -> Array:
    """`[G, M, M]`, distances of answers that are cut off at the bound."""
    shown = jnp.maximum(guess, 0.0)
    return _size(shown[:, :, None] - shown[:, None, :], TIED)


def _tied(period: Array, weight: Array) -> Array:
    """`[G, M, M]`, 1 for pairs of which labels tell no difference, each once."""
    same = jnp.abs(period[:, :, None] - period[:, None, :]) <= TIED
    above = jnp.triu(jnp.ones(same.shape[1:]), 1)
    return same * above * weight[:, :, None] * weight[:, None, :]


def _size(away: Array, sharp: float = SHARP) -> Array:
    return jnp.sqrt(away * away + sharp * sharp) - sharp


def _mean(values: Array, weight: Array | Singles) -> Array:
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(jnp.asarray(weight)), 1e-6)
