"""The mapping model `ridge`: round trips, corrected by fitted coefficients, and the fit.

The fit is least squares on logarithms, with coefficients kept small. A checkpoint is JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct, structs

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.text.json_text import UnreadableError, encoded, parse_json, record_of
from mcm_compiler.text.option_fields import at_least, checked
from mcm_models.cards import checkpoint_bytes
from mcm_models.mapping_model.data_set import MAKE
from mcm_passes.families.fabric.formulas.analytic import (
    RIDGE,
    PreparedFormula,
    RoundTrips,
    prepared_formula,
)
from mcm_passes.families.fabric.formulas.terms import FARTHEST, NUM_FEATURES, feature, slowest


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


SHIPPED_RIDGE = Path(__file__).with_name("ridge.json")
"""The checkpoint that comes with the compiler, which `lcm_ridge.py` wrote."""

MAX_BYTES = 1 << 16
"""Largest checkpoint that is read: 64 KiB, tens of times the shipped one."""


class RidgeCard(Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint of a ridge.

    Attributes:
        make: numbers of `MAKE` of the fabric that was measured.
        lowering: `MapsChips.lowering_hash`.
        physics: `MappingJudge.physics`.
        queueing: option of `round-trips`, whose terms it corrects.
        centre: of features; see `Coefficients`.
        spread: of features.
        weights: of 1 and of features.
        provenance: seed, options, samples, versions and scores, as JSON data.
    """

    make: dict[str, int]
    lowering: str
    physics: str
    queueing: float
    centre: list[float]
    spread: list[float]
    weights: list[float]
    provenance: dict[str, Any]


def ridge_card(
    found: Coefficients, fabric: Fabric, hashes: tuple[str, str], provenance: Mapping[str, Any]
) -> RidgeCard:
    """The checkpoint of a fit.

    Args:
        found: coefficients on terms of `round-trips` with its default options.
        fabric: that was measured.
        hashes: of its lowering and of the simulator's physics.
        provenance: see `RidgeCard`.
    """
    lowering, physics = hashes
    return RidgeCard(
        {name: getattr(fabric, name) for name in MAKE},
        lowering,
        physics,
        RoundTrips().queueing,
        _rounded(found.centre),
        _rounded(found.spread),
        _rounded(found.weights),
        dict(provenance),
    )


def _rounded(row: Floats) -> list[float]:
    return [round(float(number), 6) for number in row]


def save_ridge(path: Path, card: RidgeCard) -> None:
    """Writes a checkpoint at once."""
    write_whole(path, encoded(structs.asdict(card)))


def load_ridge(path: Path) -> RidgeCard:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-M050 for a file that is none, MCM-M052 for coefficients that are not those
            of a ridge.
    """
    at = quote(str(path))
    try:
        text = checkpoint_bytes(path, MAX_BYTES).decode()
        card = record_of(parse_json(text), RidgeCard)
    except (OSError, UnreadableError, ValueError) as error:
        reason = f"the mapping model cannot be read: {quote(str(error))}"
        raise CompileError.of("MCM-M050", reason, at=at) from error
    sizes = (len(card.centre), len(card.spread), len(card.weights))
    wanted = (NUM_FEATURES, NUM_FEATURES, NUM_FEATURES + 1)
    if sizes != wanted:
        raise CompileError.of("MCM-M052", f"it has {sizes} coefficients, not {wanted}", at=at)
    numbers = (card.queueing, *card.centre, *card.spread, *card.weights)
    if not np.isfinite(numbers).all() or min(card.spread) <= 0 or card.queueing <= 0:
        reason = "a number is not finite, or a deviation or the queueing is not above 0"
        raise CompileError.of("MCM-M052", reason, at=at)
    return card


def prepared_ridge(
    card: RidgeCard, problem: MappingProblem, fabric: Fabric, wire: float = 0.0
) -> PreparedFormula:
    """A ridge of a problem on a fabric of its make."""
    rows = {"centre": card.centre, "spread": card.spread, "weights": card.weights}
    arrays = {name: np.array(row, np.float64) for name, row in rows.items()}
    return prepared_formula(RIDGE, problem, fabric, wire=wire, queueing=card.queueing, **arrays)


@dataclass(frozen=True)
@checked(wire=at_least(0))
class Ridge:
    """A line in the logarithms of the terms of `round-trips`, over the slowest of them.

    Attributes:
        wire: weight of the mean load of links in what search minimises.
        checkpoint: file that `mcmc train mapping-model` wrote; the compiler's own if empty.
    """

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "round trips with fitted coefficients, for the fabrics they fit"

    wire: float = 0.3
    checkpoint: str = ""

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedFormula:
        """Of a problem on a fabric.

        Raises:
            CompileError: MCM-M050 or M052 for a checkpoint that cannot be used, MCM-M053 where it
                was fitted to fabrics of another make.
        """
        return prepared_ridge(self._card(fabric), problem, fabric, self.wire)

    def check_learned_of(self, fabric: Fabric, lowering: str, physics: str) -> None:
        """See `mcm_compiler.contracts.fabrics.mappers.LearnedMappingModel`.

        Raises:
            CompileError: as `prepared`, also for another lowering or physics.
        """
        card = self._card(fabric)
        self._same("lowering", lowering, card.lowering, fabric)
        self._same("physics", physics, card.physics, fabric)

    def _card(self, fabric: Fabric) -> RidgeCard:
        card = load_ridge(Path(self.checkpoint) if self.checkpoint else SHIPPED_RIDGE)
        self._same("make", {key: getattr(fabric, key) for key in MAKE}, card.make, fabric)
        return card

    def _same(self, what: str, found: object, known: object, fabric: Fabric) -> None:
        if found == known:
            return
        if isinstance(found, dict) and isinstance(known, dict):
            found = {key: value for key, value in found.items() if known.get(key) != value}
            known = {key: known.get(key) for key in found}
        raise CompileError.of(
            "MCM-M053",
            f"ridge was fitted to another {what}: {quote(str(known))}, and here it is {found}",
            at=f"mapping model ridge on {fabric.name}",
        )
