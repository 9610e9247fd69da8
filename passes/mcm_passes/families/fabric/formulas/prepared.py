"""Formulas as prepared mapping models: batches for all, compiled code for the annealer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_passes.families.fabric.formulas.formula import (
    Formula,
    Room,
    evaluate_all,
    terms_of_all,
)
from mcm_passes.families.fabric.formulas.terms import NUM_TERMS, scratch_for
from mcm_passes.families.fabric.routing.trees import room_for


@runtime_checkable
class HasFormula(Protocol):
    """A prepared mapping model that compiled search can evaluate by itself."""

    @property
    def formula(self) -> Formula: ...


@runtime_checkable
class CorrectsFormula(Protocol):
    """A prepared mapping model that corrects a formula, by which a search may begin."""

    @property
    def corrected(self) -> Formula: ...


@dataclass(frozen=True, eq=False)
class PreparedFormula:
    """A formula for many mappings of one problem.

    Attributes:
        formula: see there.
    """

    formula: Formula

    def period_cycles(self, mappings: Mappings) -> Floats:
        """`[B]`, cycles per sample; never below the bound of the problem."""
        return self._answers(mappings)[:, 0]

    def search_cost(self, mappings: Mappings) -> Floats:
        """`[B]`, the period with a small term for the length of wires, in cycles."""
        return self._answers(mappings)[:, 1]

    def terms(self, mappings: Mappings) -> Floats:
        """`[B, NUM_TERMS]`, what the formula is made of; see `terms`."""
        self._check(mappings)
        terms = np.empty((len(mappings), NUM_TERMS))
        state = room_for(self.formula.tables)
        terms_of_all(self.formula, state, room_of(self.formula), *_own(mappings), terms)
        return terms

    def _answers(self, mappings: Mappings) -> Floats:
        self._check(mappings)
        answers = np.empty((len(mappings), 2))
        state = room_for(self.formula.tables)
        evaluate_all(self.formula, state, room_of(self.formula), *_own(mappings), answers)
        return answers

    def _check(self, mappings: Mappings) -> None:
        """Compiled code reads beyond arrays if it is let to."""
        tables = self.formula.tables
        units, streams = len(tables.streams.kind), len(tables.streams.source)
        count, sites = len(mappings), len(tables.grid.row)
        if mappings.site.shape != (count, units) or mappings.turn.shape != (count, streams):
            raise ValueError(
                f"mappings have the shapes {mappings.site.shape} and {mappings.turn.shape}, and "
                f"there are {units} units and {streams} streams"
            )
        if count and not (
            0 <= mappings.site.min() <= mappings.site.max() < sites
            and 0 <= mappings.turn.min() <= mappings.turn.max() <= 1
        ):
            raise ValueError(f"a unit is on none of {sites} sites, or a stream turns no known way")


def room_of(formula: Formula) -> Room:
    """Arrays that evaluating a formula writes to."""
    return Room(scratch_for(formula.tables), np.zeros(NUM_TERMS), np.zeros(2))


def _own(mappings: Mappings) -> tuple[np.ndarray, np.ndarray]:
    """Kernels are compiled for contiguous arrays that may be written alone."""
    return np.array(mappings.site, np.int32), np.array(mappings.turn, np.int32)
