"""What is remembered, and how often it is drawn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from mcm_models.dqn import replay as memory
from mcm_models.dqn.environment import Observation
from mcm_models.dqn.layout import QLayout


def transitions(first, count, width=2):
    numbers = np.arange(first, first + count, dtype=np.float32)
    rows = np.tile(numbers[:, None], (1, width))
    return memory.Transitions(rows, numbers.astype(np.int32), numbers, numbers / 100, -rows)


draw, remember = jax.jit(memory.draw), jax.jit(memory.remember)
importance = jax.jit(memory.importance)


def test_draws_follow_the_priorities():
    rng = np.random.default_rng(0)
    weight = (rng.random(150) ** 2).astype(np.float32)
    weight[[0, 7, 63, 64, 149]] = 0.0
    kept = weight > 0
    share = weight[kept] / weight[kept].sum(dtype=np.float64)
    draws = jax.jit(jax.vmap(memory.draw, (None, 0)))
    # In batches, where strata keep counts closer to the priorities, and one at a time.
    for batches, size in ((800, 64), (50_000, 1)):
        spots = np.asarray(draws(weight, rng.random((batches, size), np.float32)))
        counts = np.bincount(spots.reshape(-1), minlength=150)
        assert not counts[~kept].any()
        assert stats.chisquare(counts[kept], share / share.sum() * spots.size)[1] > 0.01


@pytest.mark.parametrize("count", [5, 64, 300])
def test_cumulative_sums(count):
    values = np.random.default_rng(count).random(count, np.float32)
    found = jax.jit(memory.cumulative)(values)
    np.testing.assert_allclose(found, np.cumsum(values, dtype=np.float64), rtol=1e-5)


def test_the_end_of_the_range_is_a_written_place():
    weight = jnp.asarray([0.0, 2.0, 1.0, 0.0, 0.0])
    edge = float(np.nextafter(np.float32(1.0), np.float32(0.0)))
    assert draw(weight, jnp.asarray([0.0, edge])).tolist() == [1, 2]
    assert draw(jnp.zeros(5), jnp.asarray([0.3, 0.3])).tolist() == [0, 0]


def test_the_oldest_are_overwritten_and_unwanted_ones_left_out():
    ring = memory.empty_replay(5, 2)
    wanted = jnp.asarray([True, False, True, True])
    ring = remember(ring, transitions(10, 4), wanted)
    assert ring.weight.tolist() == [1, 1, 1, 0, 0]
    ring = remember(ring, transitions(20, 4), wanted)
    found = jax.jit(memory.recall)(ring, jnp.arange(5))
    assert found.action.tolist() == [23, 12, 13, 20, 22]
    assert found.reward.tolist() == [23, 12, 13, 20, 22]
    assert found.discount.tolist() == pytest.approx([0.23, 0.12, 0.13, 0.2, 0.22])
    assert found.before[:, 1].tolist() == [23, 12, 13, 20, 22]
    assert found.after[:, 0].tolist() == [-23, -12, -13, -20, -22]
    assert int(ring.place) == 1


def test_priorities_are_powers_of_errors_and_new_ones_get_the_largest():
    ring = remember(memory.empty_replay(4, 2), transitions(0, 2), jnp.ones(2, bool))
    ring = jax.jit(memory.reweigh)(ring, jnp.asarray([1]), jnp.asarray([-8.0]), 0.2, 0.0)
    assert ring.weight.tolist() == pytest.approx([1.0, 8**0.2, 0.0, 0.0])
    ring = remember(ring, transitions(5, 1), jnp.ones(1, bool))
    assert ring.weight.tolist() == pytest.approx([1.0, 8**0.2, 8**0.2, 0.0])


def test_importance_weights():
    weight = np.array([1.0, 3.0, 0.0, 4.0], np.float32)
    spots = np.array([0, 3, 3])
    expected = (3 * weight[spots] / weight.sum()) ** -0.6
    found = importance(jnp.asarray(weight), jnp.asarray(spots), 0.6)
    np.testing.assert_allclose(found, expected / expected.max(), rtol=1e-5)
    assert np.isfinite(importance(jnp.zeros(4), jnp.asarray(spots), 0.6)).all()


def test_observations_survive_packing(observations):
    layout = QLayout(features=3, context=2, actions=4)
    seen = Observation(*observations(layout))
    found = memory.unpack(memory.pack(seen), layout)
    for part, again in zip(seen, found, strict=True):
        assert np.array_equal(part, again)
