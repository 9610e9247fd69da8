"""The environment of partition-or-replicate: its rules, and what is seen of a state."""

from __future__ import annotations

import numpy as np
import pytest
from deep_q_study.decision_environment import CONTEXT, PARTITION, REPLICATE, DecisionEnvironment


def seen_by_hand(arrays, decision, item, place):
    """The numbers about a class, from the decisions alone."""
    count = len(decision)
    chosen = [k for k in range(count) if decision[k] == PARTITION]

    def against(k):
        return sum(arrays.conflicts[k, c] for c in chosen)

    def margin(k):
        unpaid = [t for t in range(len(arrays.term_gain)) if not arrays.term_class[t, chosen].any()]
        return arrays.gain[k] + sum(arrays.term_gain[t] * arrays.term_class[t, k] for t in unpaid)

    can = [decision[k] < 0 and not arrays.blocked[k] and not against(k) for k in range(count)]
    top = max(abs(arrays.gain))
    added = [max(margin(k), 0.0) / top if can[k] else 0.0 for k in range(count)]
    lost = [added[k] for k in range(count) if arrays.conflicts[item, k]]
    free = not arrays.blocked[item] and not against(item)
    divided = decision[item] == PARTITION
    return [
        margin(item) / top,
        arrays.gain[item] / top,
        sum(lost),
        max([0.0, *lost]),
        sum(part > 0 for part in lost) / 4.0,
        margin(item) / top - sum(lost),
        divided or (free and decision[item] != REPLICATE),
        divided,
        decision[item] == REPLICATE,
        against(item) > 0,
        arrays.blocked[item],
        place / len(arrays.item_class),
        sum(added) / 16.0,
    ]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_seen_follows_from_the_decisions(arrays_of, seed):
    arrays = arrays_of(seed, decided=seed > 1)
    environment = DecisionEnvironment(arrays)
    state = environment.reset(3)
    rng = np.random.default_rng(seed)
    for place, item in enumerate(arrays.item_class):
        found = environment.observe(state)
        assert found.context.shape == (3, CONTEXT)
        for lane in range(3):
            expected = seen_by_hand(arrays, state.decision[lane], item, place)
            np.testing.assert_allclose(found.context[lane], expected, rtol=1e-5, atol=1e-6)
        action = np.where(found.mask.all(axis=1), rng.integers(0, 2, 3), found.mask[:, 1])
        environment.step(state, action, np.ones(3, bool))


def test_the_score_is_that_of_the_decision(arrays_of):
    arrays = arrays_of(3, decided=True)
    environment = DecisionEnvironment(arrays)
    state = environment.reset(6)
    rng = np.random.default_rng(0)
    for _ in range(environment.horizon):
        mask = environment.observe(state).mask
        action = np.where(mask.all(axis=1), rng.integers(0, 2, 6), mask[:, 1])
        environment.step(state, action, np.ones(6, bool))
    for lane in range(6):
        chosen = environment.answer(state, lane) == PARTITION
        assert not arrays.blocked[chosen].any()
        assert not arrays.conflicts[np.ix_(chosen, chosen)].any()
        paid = (arrays.term_class[:, chosen] > 0).any(axis=1)
        value = arrays.gain[chosen].sum() + arrays.term_gain[paid].sum()
        assert environment.score(state)[lane] == pytest.approx(value, rel=1e-5)


def test_a_conflict_ends_the_episode_and_keeps_the_decision(arrays_of):
    arrays = arrays_of(0, blocked=0.0, terms=1)
    first, second = arrays.item_class[:2]
    arrays.conflicts[:] = 0.0
    arrays.conflicts[first, second] = arrays.conflicts[second, first] = 1.0
    environment = DecisionEnvironment(arrays, masked=False)
    state = environment.reset(2)
    reward, over = environment.step(state, np.array([PARTITION, REPLICATE]), np.ones(2, bool))
    expected = arrays.partition_reward[0] + 0.05 * arrays.term_class[0, first] * arrays.term_gain[0]
    assert reward.tolist() == pytest.approx([expected, arrays.replicate_reward[0]], rel=1e-5)
    assert not over.any()
    value = state.value.copy()
    reward, over = environment.step(state, np.array([PARTITION, REPLICATE]), np.ones(2, bool))
    assert reward[0] == -1.0
    assert over.tolist() == [True, False]
    assert state.value[0] == value[0]
    assert state.decision[0, second] == -1


def test_the_flat_observation_is_the_decision_and_the_place(arrays_of):
    arrays = arrays_of(1, blocked=0.0)
    arrays.conflicts[:] = 0.0
    environment = DecisionEnvironment(arrays, masked=False, flat=True)
    state = environment.reset(1)
    for action in (PARTITION, REPLICATE):
        environment.step(state, np.array([action]), np.ones(1, bool))
    seen = environment.observe(state)
    layout = environment.layout((4,))
    assert seen.candidates.shape == (1, 2, layout.features) == (1, 2, 0)
    assert layout.context == seen.context.shape[1]
    assert seen.context[0].tolist() == [1, 0, -1, -1, -1, -1, -1, -1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert seen.mask.tolist() == [[True, True]]


def test_linked_items_are_decided_alike(arrays_of):
    """The second item of a class can only repeat what the first one said."""
    arrays = arrays_of(2, items=10, classes=5, blocked=0.0)
    arrays.conflicts[:] = 0.0
    environment = DecisionEnvironment(arrays, masked=False)
    state = environment.reset(2)
    for place in range(10):
        mask = environment.observe(state).mask
        if place < 5:
            assert mask.all()
        else:
            assert mask.tolist() == [[False, True], [True, False]]
        _, over = environment.step(state, np.array([PARTITION, REPLICATE]), np.ones(2, bool))
        assert over.all() == (place == 9)
    assert state.decision.tolist() == [[1] * 5, [0] * 5]
