"""Training learns, depends on its seed alone, and goes on where it was stopped."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from mapping_network.layout import LearningSettings, MappingLayout, initial_weights
from mapping_network.training import LearningState, SeenGraph, fresh_state, learn

from tests.generators.network_graphs import drawn_graph

LAYOUT = MappingLayout(width=4, rounds=1, head=4)
SETTINGS = LearningSettings(epochs=12, learning_rate=0.02, graphs=2, mappings=3, buckets=1)


def _graphs() -> list[SeenGraph]:
    """The busiest branch decides, which the formula does not know."""
    found: list[SeenGraph] = []
    for k in range(4):
        mappings = [drawn_graph(10 * k + m) for m in range(3)]
        period = np.array([graph.branches[:, 0].max() + graph.whole[0] for graph in mappings])
        found.append(SeenGraph(mappings, period, period + 1, np.ones(3)))
    return found


def _learn(
    state: LearningState, settings: LearningSettings = SETTINGS, seed: int = 0
) -> tuple[LearningState, list[float]]:
    losses: list[float] = []
    end = learn(LAYOUT, settings, state, _graphs(), seed, lambda _, loss: losses.append(loss))
    return end, losses


def test_training_learns_and_goes_on_as_if_it_had_not_been_stopped() -> None:
    fresh = fresh_state(SETTINGS, initial_weights(LAYOUT, 0))
    end, losses = _learn(fresh)
    assert end.epoch == 12
    assert losses[-1] < 0.5 * losses[0]

    states: list[LearningState] = []
    learn(LAYOUT, SETTINGS, fresh, _graphs(), 0, lambda state, _: states.append(state))
    again, more = _learn(states[6])
    assert more == losses[7:]
    assert all(np.array_equal(again.weights[name], end.weights[name]) for name in end.weights)


def test_training_that_diverges_says_so() -> None:
    weights = initial_weights(LAYOUT, 0)
    weights["head_last"][:] = np.inf
    with pytest.raises(FloatingPointError, match=r"its loss is \w+ in epoch 1"):
        _learn(fresh_state(SETTINGS, weights), dataclasses.replace(SETTINGS, epochs=1))
