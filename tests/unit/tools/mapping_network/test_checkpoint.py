"""Checkpoints of mapping models are what was saved, and anything else is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from mapping_network.layout import (
    FEATURES_VERSION,
    MAPPING_MODELS,
    MAX_BYTES,
    MappingCard,
    MappingLayout,
    check_learned,
    initial_weights,
)

from mcm_compiler.diagnostics import CompileError
from mcm_models.cards import save_with_card
from mcm_models.mapping_model.data_set import Learned

LAYOUT = MappingLayout(width=4, rounds=1, head=4)
CARD = MappingCard(LAYOUT, Learned("make", "lowering", "physics"), {"seed": 3})


def _code(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        MAPPING_MODELS.load(path)
    return caught.value.diagnostics[0].code


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    weights = initial_weights(LAYOUT, 1)
    MAPPING_MODELS.save(tmp_path / "m.safetensors", weights, CARD)
    found, card = MAPPING_MODELS.load(tmp_path / "m.safetensors")
    assert card == CARD
    assert found.keys() == weights.keys()
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


def test_the_default_model_has_room_in_the_limit(tmp_path: Path) -> None:
    layout = MappingLayout()
    MAPPING_MODELS.save(
        tmp_path / "m", initial_weights(layout, 0), MappingCard(layout, CARD.learned)
    )
    assert (tmp_path / "m").stat().st_size < MAX_BYTES / 4


@pytest.mark.parametrize("content", [b"", b"\x08", b"not a checkpoint", b"\xff" * 64])
def test_other_files_are_no_checkpoints(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    assert _code(tmp_path / "m") == "MCM-M050"


def test_missing_and_large_files_are_not_read(tmp_path: Path) -> None:
    assert _code(tmp_path / "none") == "MCM-M050"
    (tmp_path / "large").write_bytes(bytes(MAX_BYTES + 1))
    assert _code(tmp_path / "large") == "MCM-M050"
    assert _code(tmp_path) == "MCM-M050"


def test_every_cut_of_a_checkpoint_is_refused(tmp_path: Path) -> None:
    MAPPING_MODELS.save(tmp_path / "m", initial_weights(LAYOUT, 1), CARD)
    whole = (tmp_path / "m").read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut").write_bytes(whole[:length])
        assert _code(tmp_path / "cut") == "MCM-M050"


def test_other_features_are_told_from_damage(tmp_path: Path) -> None:
    layout = dataclasses.replace(LAYOUT, features_version=FEATURES_VERSION + 1)
    weights = initial_weights(LAYOUT, 1)
    MAPPING_MODELS.save(tmp_path / "m", weights, MappingCard(layout, CARD.learned))
    assert _code(tmp_path / "m") == "MCM-M052"


@pytest.mark.parametrize("fault", ["missing", "unknown", "shape", "type", "nan"])
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, fault: str) -> None:
    weights: dict[str, np.ndarray] = dict(initial_weights(LAYOUT, 1))
    if fault == "missing":
        del weights["unit"]
    elif fault == "unknown":
        weights["other"] = np.zeros(3, np.float32)
    elif fault == "shape":
        weights["unit"] = weights["unit"][1:]
    elif fault == "type":
        weights["unit"] = weights["unit"].astype(np.float64)
    else:
        weights["unit"][0, 0] = np.nan
    save_with_card(tmp_path / "m", weights, CARD.to_json())
    assert _code(tmp_path / "m") == "MCM-M052"


@pytest.mark.parametrize("part", ["make", "lowering", "physics"])
def test_a_model_that_learned_of_something_else_is_refused(part: str) -> None:
    check_learned(CARD, CARD.learned, "gnn")
    with pytest.raises(CompileError) as caught:
        check_learned(CARD, dataclasses.replace(CARD.learned, **{part: "other"}), "gnn")
    found = caught.value.diagnostics[0]
    assert found.code == "MCM-M053"
    assert "other" in found.message
    assert part in found.message
