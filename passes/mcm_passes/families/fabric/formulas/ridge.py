"""The mapping model `ridge`: round trips, corrected by fitted coefficients, and the fit.

The fit is least squares on logarithms, with coefficients kept small.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.fabric.formulas.analytic import RIDGE, PreparedFormula, formula_of
from mcm_passes.families.fabric.formulas.terms import (
    FARTHEST,
    NUM_FEATURES,
    feature,
    slowest,
)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of a ridge; see `terms.ridge_factor`.

    Attributes:
        centre: `[F]`.
        spread: `[F]`.
        weights: `[1 + F]`.
    """

    centre: Floats
    spread: Floats
    weights: Floats


def fitted(terms: Floats, periods: Floats, strength: float = 10.0) -> Coefficients:
    """The ridge that is least wrong about the logarithms of measured periods.

    Hoerl and Kennard 1970, *Ridge regression*.

    Args:
        terms: `[N, NUM_TERMS]`.
        periods: `[N]`, measured.
        strength: weight of squared coefficients, next to squared errors; none on the constant.

    Raises:
        ValueError: for fewer samples than coefficients, or numbers that are not finite.
    """
    if len(terms) <= NUM_FEATURES or not (np.isfinite(terms).all() and np.isfinite(periods).all()):
        raise ValueError(f"{len(terms)} samples, some of which may not be finite, are no data")
    features, expected = features_of(terms)
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.maximum(spread, 1e-6)
    away = np.clip((features - centre) / spread, -FARTHEST, FARTHEST)
    columns = np.concatenate([np.ones((len(away), 1)), away], axis=1)
    penalty = strength * np.diag([0.0] + [1.0] * NUM_FEATURES)
    target = np.log(periods / expected)
    weights = np.linalg.solve(columns.T @ columns + penalty, columns.T @ target)
    return Coefficients(centre, spread, weights.astype(np.float64))


def features_of(terms: Floats) -> tuple[Floats, Floats]:
    """Of each sample, features `[N, F]` and the slowest term `[N]`."""
    return _features(np.array(terms, np.float64))


@entry_njit
def _features(terms: Floats) -> tuple[Floats, Floats]:
    features = np.empty((len(terms), NUM_FEATURES))
    expected = np.empty(len(terms))
    for row in range(len(terms)):
        expected[row] = slowest(terms[row])
        for k in range(NUM_FEATURES):
            features[row, k] = feature(terms[row], k, expected[row])
    return features, expected


MAKE = (
    "macs_per_cycle",
    "lanes",
    "flit_elements",
    "element_bytes",
    "banks",
    "hop_cycles",
    "fifo_flits",
    "window_flits",
    "output_flits",
)
"""Numbers of a fabric that decide how it behaves, whatever its size."""


@dataclass(frozen=True)
@checked(wire=at_least(0))
class Ridge:
    """A line in the logarithms of the terms of `round-trips`, over the slowest of them.

    Attributes:
        wire: weight of the mean load of links in what search minimises.
    """

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "round trips with fitted coefficients, for the fabrics they fit"

    wire: float = 0.3

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedFormula:
        """Of a problem on a fabric.

        Raises:
            CompileError: MCM-M043 where it was fitted to fabrics of another make.
        """
        stored = stored_ridge()
        _same("make", {key: getattr(fabric, key) for key in MAKE}, stored["make"], fabric.name)
        formula = formula_of(
            RIDGE, problem, fabric, wire=self.wire, queueing=float(stored["queueing"])
        )
        return PreparedFormula(
            problem,
            fabric,
            formula._replace(
                centre=np.array(stored["centre"], np.float64),
                spread=np.array(stored["spread"], np.float64),
                weights=np.array(stored["weights"], np.float64),
            ),
        )

    def check_learned_of(self, fabric: Fabric, lowering: str, physics: str) -> None:
        """See `mcm_compiler.contracts.fabrics.models.LearnedMappingModel`.

        Raises:
            CompileError: MCM-M043 for another make of fabric, lowering or physics.
        """
        stored = stored_ridge()
        _same("make", {key: getattr(fabric, key) for key in MAKE}, stored["make"], fabric.name)
        _same("lowering", lowering, stored["lowering"], fabric.name)
        _same("physics", physics, stored["physics"], fabric.name)


@cache
def stored_ridge() -> dict[str, Any]:
    """What `lcm_ridge.py` wrote: coefficients, what they fit, and where they come from."""
    text = files("mcm_passes.families.fabric.formulas") / "ridge.json"
    return json.loads(text.read_text(encoding="utf-8"))


def _same(what: str, found: object, known: object, fabric: str) -> None:
    if found != known:
        if isinstance(found, dict) and isinstance(known, dict):
            found = {key: value for key, value in found.items() if known.get(key) != value}
            known = {key: known.get(key) for key in found}
        raise CompileError.of(
            "MCM-M043",
            f"ridge was fitted to another {what}: {known}, and here it is {found}",
            at=f"mapping model ridge on {fabric}",
        )
