"""The ridge: fitted where there is something to learn, refused where it has not learned."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from mcm_compiler.contracts.fabrics.fabric import bound_cycles
from mcm_compiler.contracts.fabrics.models import LearnedMappingModel
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import MAPPING_MODELS
from mcm_models.mapping_model.data_set import MAKE
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from mcm_passes.families.fabric.formulas.ridge import (
    SHIPPED_RIDGE,
    Ridge,
    features_of,
    fitted,
    load_ridge,
    save_ridge,
)
from mcm_passes.families.fabric.formulas.terms import FARTHEST, NUM_FEATURES
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import legal_mappings, small_fabric

SHIPPED = load_ridge(SHIPPED_RIDGE)


def test_a_ridge_is_never_below_the_bound_and_follows_its_coefficients() -> None:
    stored = SHIPPED
    for seed in range(10):
        problem, fabric = drawn_problem(seed), small_fabric(6, 6)
        mappings = legal_mappings(problem, fabric, 8, np.random.default_rng(seed))
        found = Ridge().prepared(problem, fabric).period_cycles(mappings)
        plain = RoundTrips(queueing=stored.queueing).prepared(problem, fabric)
        features, most = features_of(plain.terms(mappings))
        away = np.clip((features - stored.centre) / stored.spread, -FARTHEST, FARTHEST)
        factor = np.exp(stored.weights[0] + away @ np.array(stored.weights[1:]))
        bound = bound_cycles(problem, fabric)
        assert found.min() >= bound
        np.testing.assert_allclose(found, np.maximum(most * factor, bound), rtol=1e-12)


def test_a_fit_finds_a_line_that_is_there() -> None:
    rng = np.random.default_rng(0)
    terms = np.exp(rng.normal(0, 0.5, (400, NUM_FEATURES))) * 100
    features, most = features_of(terms)
    periods = most * np.exp(0.1 + 0.2 * features[:, 1] - 0.1 * features[:, 7])
    found = fitted(terms, periods, strength=1e-3)
    away = (features - found.centre) / found.spread
    guess = found.weights[0] + np.clip(away, -FARTHEST, FARTHEST) @ found.weights[1:]
    # A few samples lie beyond where features are cut off.
    assert np.quantile(np.abs(guess - np.log(periods / most)), 0.95) < 0.01
    with pytest.raises(ValueError, match="no data"):
        fitted(terms[:3], periods[:3])
    with pytest.raises(ValueError, match="no data"):
        fitted(terms, periods * np.nan)


@pytest.mark.parametrize("key", MAKE)
def test_fabrics_of_another_make_are_refused(key: str) -> None:
    problem, fabric = drawn_problem(1), small_fabric(6, 6)
    change: dict[str, Any] = {key: getattr(fabric, key) + 1}
    with pytest.raises(CompileError) as caught:
        Ridge().prepared(problem, dataclasses.replace(fabric, **change))
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-M053"
    assert key in found.message


def test_another_lowering_or_physics_is_refused() -> None:
    ridge, fabric, stored = Ridge(), small_fabric(6, 6), SHIPPED
    assert isinstance(ridge, LearnedMappingModel)
    ridge.check_learned_of(fabric, stored.lowering, stored.physics)
    for pair in (("another", stored.physics), (stored.lowering, "another")):
        with pytest.raises(CompileError) as caught:
            ridge.check_learned_of(fabric, *pair)
        assert caught.value.diagnostics[0].code == "MCM-M053"


def test_it_is_found_by_name_and_tells_where_it_comes_from() -> None:
    assert MAPPING_MODELS.get("ridge")().name == "ridge"
    assert SHIPPED.provenance["samples"] > 10 * NUM_FEATURES
    assert "lcm_ridge.py" in SHIPPED.provenance["command"]


def test_a_checkpoint_is_used_also_where_it_changes(tmp_path: Path) -> None:
    problem, fabric = drawn_problem(2), small_fabric(6, 6)
    mappings = legal_mappings(problem, fabric, 4, np.random.default_rng(2))
    ridge = Ridge(checkpoint=str(tmp_path / "m.json"))
    periods: list[list[float]] = []
    for share in (0.0, 0.1):
        weights = [share, *([0.0] * NUM_FEATURES)]
        save_ridge(tmp_path / "m.json", structs.replace(SHIPPED, weights=weights))
        periods.append(ridge.prepared(problem, fabric).period_cycles(mappings).tolist())
    plain = RoundTrips(queueing=SHIPPED.queueing).prepared(problem, fabric)
    assert periods[0] == plain.period_cycles(mappings).tolist()
    np.testing.assert_allclose(periods[1], np.multiply(periods[0], np.exp(0.1)))


def test_what_is_saved_is_read_back_and_the_shipped_one_has_the_form(tmp_path: Path) -> None:
    save_ridge(tmp_path / "m.json", SHIPPED)
    assert load_ridge(tmp_path / "m.json") == SHIPPED
    assert (tmp_path / "m.json").read_bytes() == SHIPPED_RIDGE.read_bytes()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "MCM-M050"),
        (b"\xff", "MCM-M050"),
        (b"[]", "MCM-M050"),
        (b'{"make": {}}', "MCM-M050"),
        (b" " * (1 << 17), "MCM-M050"),
        ({"other": 1}, "MCM-M050"),
        ({"centre": "0"}, "MCM-M050"),
        ({"centre": [0.0]}, "MCM-M052"),
        ({"spread": [0.0] * NUM_FEATURES}, "MCM-M052"),
        ({"queueing": 0.0}, "MCM-M052"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, content: bytes | dict[str, object], code: str
) -> None:
    path = tmp_path / "m.json"
    if isinstance(content, dict):
        content = json.dumps(structs.asdict(SHIPPED) | content).encode()
    path.write_bytes(content)
    with pytest.raises(CompileError) as caught:
        Ridge(checkpoint=str(path)).prepared(drawn_problem(1), small_fabric(6, 6))
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == (code, f"'{path}'")


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        Ridge(checkpoint=str(tmp_path)).prepared(drawn_problem(1), small_fabric(6, 6))
    assert caught.value.diagnostics[0].code == "MCM-M050"
