"""Scores of checkpoints, and that the shipped policies are better than untrained ones."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_models.policy.layout import POLICIES, SHIPPED_POLICY, PolicyCard, initial_weights
from mcm_passes.families.ring.learning.partition_policy_trainer import (
    best_so_far,
    overall,
    zero_shot,
)
from mcm_passes.families.ring.learning.recipes import RECIPES
from mcm_passes.families.ring.learning.training_problems import data_set, training_problems


@pytest.fixture(scope="module")
def larger_problems():
    _, branched_cnn, _, _, bidirectional_rnn = data_set("mcm87").validation
    models = (branched_cnn, bidirectional_rnn)
    return training_problems(models, load_target("mcm36"), lambda _: None)[0]


@pytest.mark.parametrize(
    ("name", "recipe"), [("policy", "default"), ("policy-no-prior", "no-prior")]
)
def test_shipped_policies_do_better_than_new_ones(tmp_path, larger_problems, name, recipe):
    path = SHIPPED_POLICY.with_name(f"{name}.safetensors")
    _, card = POLICIES.load(path)
    new = tmp_path / "new.safetensors"
    POLICIES.save(new, initial_weights(card.layout, 0), PolicyCard(card.layout))
    trained, untrained = (
        zero_shot(each.read_bytes(), RECIPES[recipe], larger_problems, 0) for each in (path, new)
    )
    assert overall(trained) > 1.1 * overall(untrained)


def test_a_score_is_a_geometric_mean_with_a_floor():
    assert overall({"a": 2.0, "b": 0.5}) == pytest.approx(1.0)
    assert overall({"a": 1.0, "b": 0.0}) == pytest.approx(0.1)


def test_the_area_under_a_search_counts_early_finds():
    assert best_so_far(np.array([0.0, 2.0, 1.0, 3.0])) == pytest.approx((0 + 2 + 2 + 3) / 4)
    assert best_so_far(np.array([3.0, 0.0])) > best_so_far(np.array([0.0, 3.0]))
