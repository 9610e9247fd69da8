"""Checkpoints come back, and others are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from mcm_compiler.diagnostics import CompileError
from mcm_models.cards import CARD_KEY
from mcm_models.cluster_policy.layout import (
    PLACEMENT_POLICIES,
    SHIPPED_PLACEMENT_POLICY,
    ClusterLayout,
    PlacementPolicyCard,
    initial_weights,
)

LAYOUT = ClusterLayout(width=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    PLACEMENT_POLICIES.save(
        tmp_path / "policy", initial_weights(LAYOUT, 0), PlacementPolicyCard(LAYOUT, {"seed": 0})
    )
    return tmp_path / "policy"


def test_comes_back(path: Path):
    weights, card = PLACEMENT_POLICIES.load(path)
    assert card == PlacementPolicyCard(LAYOUT, {"seed": 0})
    for name, array in initial_weights(LAYOUT, 0).items():
        assert (weights[name] == array).all()


def test_the_shipped_policy_can_be_used():
    weights, card = PLACEMENT_POLICIES.load(SHIPPED_PLACEMENT_POLICY)
    assert weights.keys() == card.layout.shapes().keys()
    assert card.trained_on["command"].startswith("mcmc train placement")
    assert any("nmt" in left for left in card.trained_on["left_out"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w, c: (w, c.replace('"features_version": 1', '"features_version": 99')), "99"),
        (lambda w, c: (w, c.replace('"width": 3', '"width": 4')), "not float32"),
        (lambda w, c: ({**w, "score": w["score"] * np.nan}, c), "not finite"),
        (lambda w, c: ({k: v for k, v in w.items() if k != "score"}, c), "is missing"),
        (lambda w, c: (w, "{"), "no checkpoint"),
    ],
    ids=["features", "width", "nan", "missing", "card"],
)
def test_others_are_refused(path: Path, change, words: str):
    card = PlacementPolicyCard(LAYOUT).to_json()
    weights, text = change(load(path.read_bytes()), card)
    path.write_bytes(save(weights, metadata={CARD_KEY: text}))
    with pytest.raises(CompileError, match="MCM-D065") as caught:
        PLACEMENT_POLICIES.load(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("size", [0, 20, -3])
def test_cut_files_are_refused(path: Path, size: int):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CompileError, match="MCM-D065"):
        PLACEMENT_POLICIES.load(path)
