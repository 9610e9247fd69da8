"""A formula as compiled code sees it, and what it makes of a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_passes.families.fabric.formulas.terms import (
    CHANNEL,
    LINK,
    NUM_TERMS,
    WIRE,
    Facts,
    Scratch,
    resources,
    ridge_factor,
    scratch_for,
    slowest,
    work_out,
)
from mcm_passes.families.fabric.routing_trees import Routed, Tables, lay_all, room_for

WIRE_LENGTH, HEURISTIC, BUSIEST, ROUND_TRIPS, RIDGE = range(5)
"""Which formula it is."""

SHARE = 1_000_000
"""Flits of a stream are counted in these parts of a cycle where they stand for its demand."""


class Formula(NamedTuple):
    """A formula with a problem and a fabric in mind.

    Attributes:
        code: which it is.
        tables: of the problem; flits of streams are what the formula counts on links.
        facts: of the problem.
        scale: cycles that a unit of load stands for.
        wire: weight of the mean load of links in what search minimises.
        queueing: cycles that a flit waits at a link of half its rate.
        centre: `[F]`, of features of a ridge; empty for others.
        spread: `[F]`.
        weights: `[1 + F]`, its coefficients.
    """

    code: int
    tables: Tables
    facts: Facts
    scale: float
    wire: float
    queueing: float
    centre: Floats
    spread: Floats
    weights: Floats


class Room(NamedTuple):
    """What evaluating a formula writes to.

    Attributes:
        scratch: see there.
        terms: `[NUM_TERMS]`.
        answer: `[2]`, the period and what search minimises, both in cycles.
    """

    scratch: Scratch
    terms: Floats
    answer: Floats


@lean_njit
def evaluate(formula: Formula, state: Routed, room: Room) -> float:
    """Writes the period and the cost of search to `room.answer`; the cost is returned as well."""
    facts, terms = formula.facts, room.terms
    code = formula.code
    if code == WIRE_LENGTH:
        resources(facts, state, terms)
        period = facts.bound + formula.scale * terms[WIRE]
        room.answer[0], room.answer[1] = period, period
        return period
    if code == HEURISTIC:
        resources(facts, state, terms)
        worst = max(terms[LINK], terms[CHANNEL]) / SHARE
        period = formula.scale * max(worst, 1.0)
        cost = period + formula.wire * formula.scale * terms[WIRE] / SHARE
    elif code == BUSIEST:
        resources(facts, state, terms)
        period = max(facts.bound, terms[LINK], terms[CHANNEL])
        cost = period + formula.wire * terms[WIRE]
    else:
        work_out(formula.tables, facts, state, formula.queueing, room.scratch, terms)
        period = slowest(terms)
        if code == RIDGE:
            period *= ridge_factor(terms, formula.centre, formula.spread, formula.weights)
        cost = period + formula.wire * terms[WIRE]
    period = max(period, facts.bound)
    room.answer[0], room.answer[1] = period, max(cost, facts.bound)
    return cost


@entry_njit
def evaluate_all(
    formula: Formula, state: Routed, room: Room, site: Ints, turn: Ints, answers: Floats
) -> None:
    """Fills `answers[B, 2]` with what `evaluate` says of each mapping of a batch."""
    for k in range(len(site)):
        state.site[:] = site[k]
        state.turn[:] = turn[k]
        lay_all(formula.tables, state)
        evaluate(formula, state, room)
        answers[k] = room.answer


@entry_njit
def terms_of_all(
    formula: Formula, state: Routed, room: Room, site: Ints, turn: Ints, terms: Floats
) -> None:
    """Fills `terms[B, NUM_TERMS]` for each mapping of a batch."""
    for k in range(len(site)):
        state.site[:] = site[k]
        state.turn[:] = turn[k]
        lay_all(formula.tables, state)
        work_out(formula.tables, formula.facts, state, formula.queueing, room.scratch, room.terms)
        terms[k] = room.terms


EMPTY = np.zeros(0)
"""What formulas without coefficients have for them."""


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
