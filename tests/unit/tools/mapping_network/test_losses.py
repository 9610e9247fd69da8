"""Losses are least where answers are right, and do not ask for what cannot be."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from mapping_network import training as losses
from mapping_network.training import Labels

period_loss, latency_loss = jax.jit(losses.period_loss), jax.jit(losses.latency_loss)
ranking_loss = jax.jit(losses.ranking_loss, static_argnums=2)


def _labels(period: list[float], weight: list[float] | None = None) -> Labels:
    return Labels(
        np.array(period, np.float32),
        np.zeros(len(period), np.float32),
        np.array(weight or [1] * len(period), np.float32),
    )


def _answers(period: list[float]) -> np.ndarray:
    return np.stack([period, np.zeros(len(period))], axis=1).astype(np.float32)


def test_right_answers_cost_nothing() -> None:
    answers, labels = _answers([0.1, 0.4]), _labels([0.1, 0.4])
    assert period_loss(answers, labels) == pytest.approx(0, abs=1e-6)
    assert latency_loss(answers, labels) == pytest.approx(0, abs=1e-6)
    assert period_loss(_answers([0.1, 0.9]), labels) == pytest.approx(0.25, abs=0.02)


def test_below_the_bound_nothing_is_asked_for() -> None:
    gradient = jax.jit(jax.grad(lambda answers: period_loss(answers, _labels([0.0, 0.3]))))
    found = np.asarray(gradient(_answers([-0.5, -0.5])))
    assert found[0, 0] == 0
    assert found[1, 0] < 0


def test_labels_without_weight_do_not_count() -> None:
    labels = _labels([0.1, 5.0], [1, 0])
    assert period_loss(_answers([0.1, 0.2]), labels) == pytest.approx(0, abs=1e-6)
    assert ranking_loss(_answers([0.1, 0.2]), labels, 2) == 0


def test_order_is_asked_for_within_a_graph_alone() -> None:
    labels = _labels([0.1, 0.5, 0.1, 0.5])
    right = ranking_loss(_answers([0.2, 0.6, 2.2, 2.6]), labels, 2)
    wrong = ranking_loss(_answers([0.6, 0.2, 2.6, 2.2]), labels, 2)
    assert right < 1e-3
    assert wrong == pytest.approx(0.4, abs=0.01)
    together = ranking_loss(_answers([0.6, 0.2, 2.6, 2.2]), labels, 4)
    assert together != pytest.approx(float(wrong), abs=0.01)


def test_mappings_that_are_the_same_should_have_the_same_answers() -> None:
    labels = _labels([0.3, 0.302, 0.3, 0.6])
    same = ranking_loss(_answers([0.3, 0.3, 0.3, 0.9]), labels, 4)
    apart = ranking_loss(_answers([0.25, 0.3, 0.35, 0.9]), labels, 4)
    assert apart > same + 0.05
    reached = _labels([0.0, 0.0])
    assert ranking_loss(_answers([-0.5, -0.1]), reached, 2) == 0
    assert ranking_loss(_answers([-0.5, 0.1]), reached, 2) > 0.05
