"""The environment of partition-or-replicate: its rules, and its twin in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.dqn.decision_arrays import PARTITION, REPLICATE
from mcm_models.dqn.numpy_decisions import NumpyDecisions


@pytest.fixture(scope="module")
def compiled():
    """`DecisionEnvironment` as three compiled functions."""
    import jax

    from mcm_models.dqn.decisions import DecisionEnvironment

    def make(items, masked):
        environment = DecisionEnvironment(items, masked=masked)
        return (
            jax.jit(environment.reset),
            jax.jit(environment.observe),
            jax.jit(environment.step),
        )

    return {masked: make(8, masked) for masked in (True, False)}


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_both_environments_do_the_same(arrays_of, compiled, masked, seed):
    import jax

    arrays = arrays_of(seed, padded=seed % 3, decided=seed > 1)
    reset, observe, step = compiled[masked]
    rng = np.random.default_rng(seed)
    plain = NumpyDecisions(arrays, masked=masked)
    theirs, state = plain.reset(1), reset(jax.random.key(0), arrays)
    for _ in range(8):
        seen, other = observe(state, arrays), plain.observe(theirs)
        for part, twin in zip(seen, other, strict=True):
            np.testing.assert_allclose(part, twin[0], rtol=1e-5, atol=1e-6)
        action = rng.choice(np.flatnonzero(other.mask[0]))
        state, reward, done = step(state, action, arrays)
        their_reward, over = plain.step(theirs, np.array([action]), np.ones(1, bool))
        assert float(reward) == pytest.approx(float(their_reward[0]), rel=1e-5, abs=1e-6)
        assert bool(done) == over[0]
        assert np.array_equal(state.decision, theirs.decision[0])
        assert float(state.value) == pytest.approx(float(theirs.value[0]), rel=1e-5, abs=1e-5)
        if done:
            break


def test_the_score_is_that_of_the_decision(arrays_of):
    arrays = arrays_of(3, decided=True)
    plain = NumpyDecisions(arrays)
    state = plain.reset(6)
    rng = np.random.default_rng(0)
    for _ in range(plain.horizon):
        mask = plain.observe(state).mask
        action = np.where(mask.all(axis=1), rng.integers(0, 2, 6), mask[:, 1])
        plain.step(state, action, np.ones(6, bool))
    for lane in range(6):
        chosen = plain.answer(state, lane) == PARTITION
        assert not arrays.blocked[chosen].any()
        assert not arrays.conflicts[np.ix_(chosen, chosen)].any()
        paid = (arrays.term_class[:, chosen] > 0).any(axis=1)
        value = arrays.gain[chosen].sum() + arrays.term_gain[paid].sum()
        assert plain.score(state)[lane] == pytest.approx(value, rel=1e-5)


def test_a_conflict_ends_the_episode_and_keeps_the_decision(arrays_of):
    arrays = arrays_of(0, blocked=0.0, terms=1)
    first, second = arrays.item_class[:2]
    arrays.conflicts[:] = 0.0
    arrays.conflicts[first, second] = arrays.conflicts[second, first] = 1.0
    plain = NumpyDecisions(arrays, masked=False)
    state = plain.reset(2)
    reward, over = plain.step(state, np.array([PARTITION, REPLICATE]), np.ones(2, bool))
    expected = arrays.partition_reward[0] + 0.05 * arrays.term_class[0, first] * arrays.term_gain[0]
    assert reward.tolist() == pytest.approx([expected, arrays.replicate_reward[0]], rel=1e-5)
    assert not over.any()
    value = state.value.copy()
    reward, over = plain.step(state, np.array([PARTITION, REPLICATE]), np.ones(2, bool))
    assert reward[0] == -1.0
    assert over.tolist() == [True, False]
    assert state.value[0] == value[0]
    assert state.decision[0, second] == -1


def test_the_flat_observation_is_the_decision_and_the_place(arrays_of):
    import jax

    from mcm_models.dqn.decisions import DecisionEnvironment

    arrays = arrays_of(1, blocked=0.0)
    arrays.conflicts[:] = 0.0
    arrays = jax.tree.map(jax.numpy.asarray, arrays)
    environment = DecisionEnvironment(8, masked=False, flat=True)
    state = jax.jit(environment.reset)(jax.random.key(0), arrays)
    step = jax.jit(environment.step)
    state, _, _ = step(state, np.int32(PARTITION), arrays)
    state, _, _ = step(state, np.int32(REPLICATE), arrays)
    seen = jax.jit(environment.observe)(state, arrays)
    assert seen.candidates.shape == (2, 0)
    assert seen.context.tolist() == [1, 0, -1, -1, -1, -1, -1, -1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert seen.mask.tolist() == [True, True]


def test_linked_items_are_decided_alike(arrays_of):
    """The second item of a class can only repeat what the first one said."""
    arrays = arrays_of(2, items=10, classes=5, blocked=0.0)
    arrays.conflicts[:] = 0.0
    plain = NumpyDecisions(arrays, masked=False)
    state = plain.reset(2)
    for place in range(10):
        mask = plain.observe(state).mask
        if place < 5:
            assert mask.all()
        else:
            assert mask.tolist() == [[False, True], [True, False]]
        _, over = plain.step(state, np.array([PARTITION, REPLICATE]), np.ones(2, bool))
        assert over.all() == (place == 9)
    assert state.decision.tolist() == [[1] * 5, [0] * 5]
