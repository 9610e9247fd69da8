"""Formulas as compiled code sees them, and the mapping models without learning that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_compiler.text.option_fields import above, at_least, checked
from mcm_passes.families.fabric.formulas.terms import (
    CHANNEL,
    LINK,
    NUM_TERMS,
    WIRE,
    Facts,
    Scratch,
    facts_of,
    isolated_cycles,
    resources,
    ridge_factor,
    scratch_for,
    slowest,
    work_out,
)
from mcm_passes.families.fabric.routing_trees import (
    Routed,
    Streams,
    Tables,
    lay_out,
    room_for,
    tables_of,
)

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
    """Arrays that evaluating a formula writes to.

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
        lay_out(formula.tables, state, site[k], turn[k])
        evaluate(formula, state, room)
        answers[k] = room.answer


@entry_njit
def terms_of_all(
    formula: Formula, state: Routed, room: Room, site: Ints, turn: Ints, terms: Floats
) -> None:
    """Fills `terms[B, NUM_TERMS]` for each mapping of a batch."""
    for k in range(len(site)):
        lay_out(formula.tables, state, site[k], turn[k])
        work_out(formula.tables, formula.facts, state, formula.queueing, room.scratch, room.terms)
        terms[k] = room.terms


EMPTY = np.zeros(0)
"""The coefficients of formulas without any."""


@runtime_checkable
class HasFormula(Protocol):
    """A prepared mapping model that compiled search can evaluate by itself."""

    @property
    def formula(self) -> Formula: ...


@dataclass(frozen=True, eq=False)
class Prepared:
    """Base of mapping models that compiled code evaluates, with a problem in mind.

    Attributes:
        problem: what is laid out.
        fabric: on what.
    """

    problem: MappingProblem
    fabric: Fabric

    def checked(self, mappings: Mappings) -> tuple[Ints, Ints]:
        """Sites and turns in arrays of the types that kernels are compiled for.

        Raises:
            ValueError: for mappings that are not legal: compiled code would read beyond arrays.
        """
        if faults := faults_of_mapping(self.problem, self.fabric, mappings):
            raise ValueError("; ".join(faults))
        return np.array(mappings.site, np.int32), np.array(mappings.turn, np.int32)


@dataclass(frozen=True, eq=False)
class PreparedFormula(Prepared):
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
        terms = np.empty((len(mappings), NUM_TERMS))
        terms_of_all(*self._working(), *self.checked(mappings), terms)
        return terms

    def _answers(self, mappings: Mappings) -> Floats:
        answers = np.empty((len(mappings), 2))
        evaluate_all(*self._working(), *self.checked(mappings), answers)
        return answers

    def _working(self) -> tuple[Formula, Routed, Room]:
        return self.formula, room_for(self.formula.tables), room_of(self.formula)


def room_of(formula: Formula) -> Room:
    """Arrays that evaluating a formula writes to."""
    return Room(scratch_for(formula.tables), np.zeros(NUM_TERMS), np.zeros(2))


@dataclass(frozen=True)
@checked(slope=above(0))
class WireLength:
    """The length of wires alone: blind to what is busy, and yet hard to beat.

    Attributes:
        slope: by how many cycles the period grows with the mean load of links.
    """

    name: ClassVar[str] = "wire-length"
    summary: ClassVar[str] = "bound plus a share of all flits times links"

    slope: float = 2.0

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedFormula:
        """Of a problem on a fabric."""
        return prepared_formula(WIRE_LENGTH, problem, fabric, scale=self.slope)


@dataclass(frozen=True)
@checked(wire=at_least(0))
class Heuristic:
    """As the LCM paper describes what it replaced: speeds in isolation times worst congestion.

    Each op has a speed of its own by a rule per kind (`ISOLATED_RULES`). Streams ask for what
    their op could use at that speed; the link or memory channel that is asked for most slows the
    slowest op by as much.

    Attributes:
        wire: weight of the mean demand on links in what search minimises.
    """

    name: ClassVar[str] = "heuristic"
    summary: ClassVar[str] = "speed of ops in isolation times the worst congestion, by rules"

    wire: float = 2.0

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedFormula:
        """Of a problem on a fabric."""
        alone = isolated_cycles(problem)
        slowest = np.ones(problem.num_stages)
        np.maximum.at(slowest, problem.stage, alone)
        tables = tables_of(problem, fabric)
        counted = _demands(tables.streams, problem, slowest)
        scale, tables = float(slowest.max()), Tables(tables.grid, counted)
        return prepared_formula(
            HEURISTIC, problem, fabric, scale=scale, wire=self.wire, tables=tables
        )


@dataclass(frozen=True)
@checked(wire=at_least(0))
class Busiest:
    """The busiest resource: compute unit, port, bank, link or memory channel.

    Attributes:
        wire: weight of the mean load of links in what search minimises.
    """

    name: ClassVar[str] = "busiest"
    summary: ClassVar[str] = "the busiest compute unit, port, link or memory channel"

    wire: float = 4.0

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedFormula:
        """Of a problem on a fabric."""
        return prepared_formula(BUSIEST, problem, fabric, wire=self.wire)


@dataclass(frozen=True)
@checked(wire=at_least(0), queueing=above(0))
class RoundTrips:
    """The busiest resource, and what credits, bursts and buffers allow over hops and queues.

    Attributes:
        wire: weight of the mean load of links in what search minimises.
        queueing: cycles that a flit waits at a link of half its rate.
    """

    name: ClassVar[str] = "round-trips"
    summary: ClassVar[str] = "the busiest resource, round trips of credits, bursts and buffers"

    wire: float = 0.3
    queueing: float = 0.5

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedFormula:
        """Of a problem on a fabric."""
        return prepared_formula(
            ROUND_TRIPS, problem, fabric, wire=self.wire, queueing=self.queueing
        )


def prepared_formula(
    code: int, problem: MappingProblem, fabric: Fabric, **numbers: Any
) -> PreparedFormula:
    """A formula of a problem on a fabric.

    Args:
        code: which it is.
        problem: what is laid out.
        fabric: on what.
        numbers: fields of `Formula` that are not as they are in most formulas.
    """
    tables, facts = tables_of(problem, fabric), facts_of(problem, fabric)
    plain = Formula(code, tables, facts, 1.0, 0.0, 0.5, EMPTY, EMPTY, EMPTY)
    return PreparedFormula(problem, fabric, plain._replace(**numbers))


def _demands(streams: Streams, problem: MappingProblem, slowest: np.ndarray) -> Streams:
    """Streams with millionths of a flit per cycle that they ask for in place of flits.

    An op asks at the speed of its stage alone: of what it reads, and of what it makes.
    """
    of_leaf = problem.stream_of_leaf
    speed = slowest[problem.stage[problem.source]].copy()
    reads = problem.kind[problem.leaf] == COMPUTE
    np.minimum.at(speed, of_leaf[reads], slowest[problem.stage[problem.leaf[reads]]])
    asked = np.ceil(problem.flits / speed * SHARE).astype(np.int64)
    io = np.zeros(problem.num_units, np.int64)
    np.add.at(io, problem.source, asked)
    np.add.at(io, problem.leaf, asked[of_leaf])
    return streams._replace(flits=asked, io_flits=np.where(streams.io_flits > 0, io, 0))
