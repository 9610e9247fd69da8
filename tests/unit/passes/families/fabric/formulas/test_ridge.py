"""The ridge: fitted where there is something to learn, refused where it has not learned."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.fabric import bound_cycles
from mcm_compiler.contracts.fabrics.models import LearnedMappingModel
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import MAPPING_MODELS
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from mcm_passes.families.fabric.formulas.ridge import MAKE, Ridge, features_of, fitted, stored_ridge
from mcm_passes.families.fabric.formulas.terms import FARTHEST, NUM_FEATURES
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import legal_mappings, small_fabric


def test_a_ridge_is_never_below_the_bound_and_follows_its_coefficients() -> None:
    stored = stored_ridge()
    for seed in range(10):
        problem, fabric = drawn_problem(seed), small_fabric(6, 6)
        mappings = legal_mappings(problem, fabric, 8, np.random.default_rng(seed))
        found = Ridge().prepared(problem, fabric).period_cycles(mappings)
        plain = RoundTrips(queueing=stored["queueing"]).prepared(problem, fabric)
        features, most = features_of(plain.terms(mappings))
        away = np.clip((features - stored["centre"]) / stored["spread"], -FARTHEST, FARTHEST)
        factor = np.exp(stored["weights"][0] + away @ np.array(stored["weights"][1:]))
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
    assert found.code == "MCM-M043"
    assert key in found.message


def test_another_lowering_or_physics_is_refused() -> None:
    ridge, fabric, stored = Ridge(), small_fabric(6, 6), stored_ridge()
    assert isinstance(ridge, LearnedMappingModel)
    ridge.check_learned_of(fabric, stored["lowering"], stored["physics"])
    for pair in (("another", stored["physics"]), (stored["lowering"], "another")):
        with pytest.raises(CompileError) as caught:
            ridge.check_learned_of(fabric, *pair)
        assert caught.value.diagnostics[0].code == "MCM-M043"


def test_it_is_found_by_name_and_tells_where_it_comes_from() -> None:
    assert MAPPING_MODELS.get("ridge")().name == "ridge"
    assert stored_ridge()["provenance"]["samples"] > 10 * NUM_FEATURES
    assert "lcm_ridge.py" in stored_ridge()["provenance"]["command"]
