"""Mapping models without learning: wires, the heuristic of compilers, resources, round trips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, Fabric, MappingProblem
from mcm_compiler.text.option_ranges import above, at_least, checked
from mcm_passes.families.fabric.formulas.formula import (
    BUSIEST,
    EMPTY,
    HEURISTIC,
    ROUND_TRIPS,
    SHARE,
    WIRE_LENGTH,
    Formula,
    PreparedFormula,
)
from mcm_passes.families.fabric.formulas.terms import facts_of, isolated_cycles
from mcm_passes.families.fabric.routing_trees import Streams, Tables, tables_of


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
        return PreparedFormula(formula_of(WIRE_LENGTH, problem, fabric, scale=self.slope))


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
        formula = formula_of(HEURISTIC, problem, fabric, scale=float(slowest.max()), wire=self.wire)
        return PreparedFormula(formula._replace(tables=Tables(tables.grid, counted)))


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
        return PreparedFormula(formula_of(BUSIEST, problem, fabric, wire=self.wire))


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
        return PreparedFormula(
            formula_of(ROUND_TRIPS, problem, fabric, wire=self.wire, queueing=self.queueing)
        )


def formula_of(
    code: int,
    problem: MappingProblem,
    fabric: Fabric,
    scale: float = 1.0,
    wire: float = 0.0,
    queueing: float = 0.5,
) -> Formula:
    """A formula without coefficients; see `Formula`."""
    tables, facts = tables_of(problem, fabric), facts_of(problem, fabric)
    return Formula(code, tables, facts, scale, wire, queueing, EMPTY, EMPTY, EMPTY)


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
