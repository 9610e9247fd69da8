"""Search that measurements decide: walks by a model propose, and the judge says what is kept.

Where walks end, mappings cost nearly the same, and what no model knows makes some of them a third
slower than others. More measurements are worth little on the next best candidates, which lie near
each other. Here a walk goes some thousand moves from the mapping that the search is at, and the
best that it comes by, but for where it began, is one proposal, which is kept or not by its measured
period (surrogate transitions: Liu 2001, *Monte Carlo Strategies in Scientific Computing*, 9.4.3).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer
from mcm_compiler.contracts.fabrics.measurement import MappingJudge
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_passes.families.fabric.annealing.batches import BatchedWalks
from mcm_passes.families.fabric.annealing.chains import Chains
from mcm_passes.families.fabric.annealing.moves import MoveShares
from mcm_passes.families.fabric.annealing.walkers import Walkers
from mcm_passes.families.fabric.annealing.walks import Leg
from mcm_passes.families.fabric.formulas.prepared import CorrectsFormula, HasFormula
from mcm_passes.families.fabric.routing.tables import Tables

TOLERANCE = 0.01
"""By which share a proposal that is kept measures slower in the mean, at first; at the end it may
not be slower."""

COOLED = 0.1
"""Temperature at the end of a walk, as a share of that at its begin."""


@dataclass(frozen=True, eq=False)
class Stand:
    """A mapping with what it measured.

    Attributes:
        mapping: a batch of one.
        period_cycles: of it.
        latency_cycles: of it.
    """

    mapping: Mappings
    period_cycles: float
    latency_cycles: float


@dataclass(frozen=True)
class Allowance:
    """What refining may take.

    Attributes:
        measurements: at most.
        steps: evaluations of a walk.
        ends_at: of `time.thread_time`, when the last measurement has to be over; or infinite.
        cost_s: CPU time of a measurement, where `ends_at` is finite.
    """

    measurements: int
    steps: int
    ends_at: float = math.inf
    cost_s: float = 0.0


def refined_answer(
    answer: MapperAnswer,
    walks: Callable[[Mappings], Chains],
    measure: Callable[[Mappings], Stand],
    allowance: Allowance,
    leg: Leg,
    rng: np.random.Generator,
) -> MapperAnswer:
    """Searches on from an answer that was measured; it is never worse afterwards.

    Args:
        answer: where the search begins.
        walks: one walk that begins at a mapping, as `walks_of` makes them.
        measure: asks the judge about one mapping, as `measuring` does.
        allowance: see there.
        leg: of each walk, its temperature and reach at the begin.
        rng: decides what is kept.
    """
    best = current = Stand(answer.mapping, answer.period_cycles, answer.latency_cycles)
    known = {_key(best.mapping)}
    evaluations, measurements = answer.evaluations, answer.measurements
    started = time.thread_time()
    way = leg._replace(cold=leg.hot * COOLED, narrow=min(1.0, leg.wide))
    for number in range(allowance.measurements):
        share = number / allowance.measurements
        if allowance.ends_at < math.inf:
            now = time.thread_time()
            if now + allowance.cost_s > allowance.ends_at:
                break
            share = (now - started) / max(allowance.ends_at - started, 1e-9)
        chains = walks(current.mapping)
        chains.forget()
        chains.go(allowance.steps, way)
        evaluations += chains.evaluations
        proposed = chains.best_mappings
        if not np.isfinite(chains.best_costs[0]) or _key(proposed) in known:
            continue
        known.add(_key(proposed))
        found = measure(proposed)
        measurements += 1
        heat = TOLERANCE * (1.0 - share)
        if found.period_cycles <= current.period_cycles * (1.0 - heat * math.log1p(-rng.random())):
            current = found
        if found.period_cycles < best.period_cycles:
            best = found
    return replace(
        answer,
        mapping=best.mapping,
        evaluations=evaluations,
        measurements=measurements,
        period_cycles=best.period_cycles,
        latency_cycles=best.latency_cycles,
    )


def walks_of(
    model: PreparedMappingModel, tables: Tables, shares: MoveShares, rng: np.random.Generator
) -> Callable[[Mappings], Chains]:
    """Walks by the formula of a model, also where it corrects one: measurements do that, too."""

    def walk(mapping: Mappings) -> Chains:
        if isinstance(model, HasFormula):
            return Walkers(model.formula, mapping, shares, rng)
        if isinstance(model, CorrectsFormula):
            return Walkers(model.corrected, mapping, shares, rng)
        return BatchedWalks(model, tables, mapping, shares, rng)

    return walk


def measuring(
    problem: MappingProblem, fabric: Fabric, judge: MappingJudge
) -> Callable[[Mappings], Stand]:
    """Measures one mapping of a problem."""

    def measure(mapping: Mappings) -> Stand:
        found = judge.measure(problem, fabric, mapping)
        return Stand(mapping, float(found.period_cycles[0]), float(found.latency_cycles[0]))

    return measure


def _key(mapping: Mappings) -> bytes:
    return mapping.site.tobytes() + mapping.turn.tobytes()
