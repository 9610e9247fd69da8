"""The policies that come with the compiler are readable, and say how they were made."""

from __future__ import annotations

import pytest

from mcm_models.policy.layout import POLICIES, SHIPPED_POLICY


@pytest.mark.parametrize(
    ("name", "recipe"), [("policy", "default"), ("policy-no-prior", "no-prior")]
)
def test_a_policy_comes_with_the_compiler(name, recipe):
    path = SHIPPED_POLICY.with_name(f"{name}.safetensors")
    _, card = POLICIES.load(path)
    assert card.recipe == recipe
    assert (card.prior > 0) == (recipe == "default")
    assert card.trained_on["target"] == "mcm36"
    assert card.trained_on["data_set"] == "mcm87"
    assert card.trained_on["samples"] > 0
    assert card.trained_on["metrics"]["zero_shot"] > 0
    assert path.with_suffix(".json").read_text() == card.to_json()
    # Weights alone, and not the state of an optimizer, which would be twice as much again.
    assert path.stat().st_size < 2_000_000
