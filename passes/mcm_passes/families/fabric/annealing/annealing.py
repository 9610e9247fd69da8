"""Mappers: simulated annealing by any mapping model, and random mappings to compare it with.

Where walks end, mappings cost nearly the same, and what no model knows makes some of them a third
slower than others. More measurements are worth little on the next best candidates, which lie near
each other. Here a walk goes some thousand moves from the mapping that the search is at. Its best
mapping, but for where it began, is one proposal, which is kept or not by its measured period
(surrogate transitions: Liu 2001, *Monte Carlo Strategies in Scientific Computing*, 9.4.3).

Walks of fabrics are apart from those of packages and hosts: a mapping is one site per unit and one
turn per stream, and moves keep each kind of unit on sites of its kind.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer, MapperRequest
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_compiler.text.option_fields import above, at_least, checked, from_to
from mcm_passes.families.fabric.annealing import measured
from mcm_passes.families.fabric.annealing.starts import built_mappings
from mcm_passes.families.fabric.annealing.walkers import BatchedWalks, Leg, MoveShares, Walkers
from mcm_passes.families.fabric.formulas.analytic import HasFormula
from mcm_passes.families.fabric.routing_trees import Tables, tables_of


class Chains(Protocol):
    """Several walks."""

    evaluations: int
    """That they have taken so far."""

    @property
    def costs(self) -> Floats:
        """`[C]`, of the mappings where walks are."""
        ...

    @property
    def best_costs(self) -> Floats:
        """`[C]`, of the best mapping that each has seen."""
        ...

    @property
    def best_mappings(self) -> Mappings:
        """The best mapping that each has seen."""
        ...

    def go(self, evaluations: int, leg: Leg) -> None:
        """All of them walk on, for about this many evaluations together."""
        ...

    def forget(self) -> None:
        """Forget the best that walks have seen so far; the next that they keep is the best."""
        ...

    def join(self, loser: int, winner: int) -> None:
        """A walk goes on from where another one is; it keeps what it has seen itself."""
        ...


@dataclass(frozen=True)
class Cooling:
    """How walks cool down together.

    Attributes:
        hot: temperature at the begin, as a share of the cost.
        cold: at the end; between them geometric.
        legs: after each of which losers join winners.
        joining: share of walks that join others after each leg.
        widest: switches that a unit may go at the begin; 1 at the end.
    """

    hot: float
    cold: float
    legs: int
    joining: float
    widest: float


class Spending(NamedTuple):
    """Evaluations of all walks together, at most, and CPU time from now on, or None."""

    evaluations: int
    left_s: float | None


PILOT = 256
"""Evaluations by which the rate is measured where CPU time is limited."""


def cool_down(chains: Chains, cooling: Cooling, spending: Spending) -> list[tuple[int, float]]:
    """Lets walks cool down; after each leg the worst go on from where the best are.

    Aldous and Vazirani 1994, *"Go with the winners" algorithms*.

    Args:
        chains: the walks.
        cooling: see there.
        spending: what they may take.

    Returns:
        Pairs of evaluations and the best cost by then, ascending.
    """
    history = [(chains.evaluations, float(chains.best_costs.min()))]
    first = Leg(0, cooling.hot, cooling.hot, cooling.widest, cooling.widest)
    evaluations, left_s = spending
    if left_s is not None:
        evaluations = min(evaluations, _affordable(chains, first, left_s))
    left = max(evaluations - chains.evaluations, 0)
    if left == 0:
        return history
    fall = (cooling.cold / cooling.hot) ** (1.0 / cooling.legs)
    close = (1.0 / cooling.widest) ** (1.0 / cooling.legs)
    heat, reach = cooling.hot, cooling.widest
    for number in range(cooling.legs):
        each = max((evaluations - chains.evaluations) // (cooling.legs - number), 0)
        if each == 0:
            continue
        chains.go(each, Leg(0, heat, heat * fall, reach, reach * close))
        heat, reach = heat * fall, reach * close
        _join(chains, cooling.joining)
        history.append((chains.evaluations, float(chains.best_costs.min())))
    return history


def _join(chains: Chains, share: float) -> None:
    order = np.argsort(chains.costs, kind="stable")
    for rank in range(int(share * len(order))):
        chains.join(int(order[-1 - rank]), int(order[rank]))


def _affordable(chains: Chains, leg: Leg, budget_s: float) -> int:
    """Evaluations within a CPU time, which begins now."""
    begin = time.thread_time()
    before = chains.evaluations
    # What is compiled at the first call would spoil the rate.
    chains.go(1, leg)
    timed = time.thread_time()
    warm = chains.evaluations
    chains.go(PILOT, leg)
    now = time.thread_time()
    rate = (chains.evaluations - warm) / max(now - timed, 1e-6)
    return max(before + int(rate * (budget_s - (now - begin))), chains.evaluations)


STIRRED = 0.67
"""Switches that a unit may go when a walk begins that refines, as a share of the longer side."""

FEWEST_STEPS = 100
"""Evaluations of such a walk, at least, where CPU time is limited."""


@dataclass(frozen=True)
@checked(
    chains=at_least(1),
    legs=at_least(1),
    hot=above(0),
    cold=above(0),
    turn=from_to(0, 1),
    near=from_to(0, 1),
    joining=from_to(0, 0.5),
    measuring=from_to(0, 1),
    refining=from_to(0, 1),
    stirring=above(0),
)
class Annealing:
    """Walks that cool down together from built mappings; what they find is measured at the end.

    Measurements beyond one for each walk refine what measured best; see `refining`.

    Attributes:
        chains: walks.
        legs: after each of which losers go on from where winners are.
        hot: temperature at the begin, as a share of the cost.
        cold: at the end.
        turn: share of moves that turn a stream the other way.
        near: share of other moves that go near a unit with which the moved one has a stream.
        joining: share of walks that join others after each leg.
        measuring: share of a CPU time that measurements at the end may take, where it is limited.
        refining: share of evaluations and CPU time that goes into refining, where there are more
            measurements than walks.
        stirring: temperature at which a walk begins that refines, as a share of the cost.
    """

    name: ClassVar[str] = "annealing"
    summary: ClassVar[str] = "walks that cool down together; the best of them are measured"

    chains: int = 6
    legs: int = 12
    hot: float = 0.005
    cold: float = 2e-5
    turn: float = 0.2
    near: float = 0.5
    joining: float = 0.17
    measuring: float = 0.4
    refining: float = 0.5
    stirring: float = 0.006

    def map(self, request: MapperRequest) -> MapperAnswer:
        """See `mcm_compiler.contracts.fabrics.mappers.Mapper`.

        Raises:
            CompileError: MCM-M040 or M041 for a model that answers no periods.
        """
        begin = time.thread_time()
        problem, fabric, model = request.problem, request.fabric, request.model
        rng = seeded_generator(request.seed, "annealing of mappings")
        tables = tables_of(problem, fabric)
        walks = max(min(self.chains, request.evaluations), 1)
        starts = built_mappings(problem, tables, walks, rng)
        cost_s = measured.time_of_measurement(request, starts[0])
        kept_back = int(self.refining * request.evaluations)
        # A walk that refines has two evaluations at least.
        rest = min(max(request.measurements - len(starts), 0), kept_back // 2)
        share = self.refining if rest else 0.0
        measurements, left = self._shared(request, len(starts), share, cost_s, begin)
        size = f"{problem.num_units} units, {problem.num_streams} streams"
        request.progress(f"{problem.name}: {size}")
        evaluations = request.evaluations - (kept_back if rest else 0)
        chains, history = self._searched(request, tables, starts, Spending(evaluations, left), rng)
        spent = history[-1][0]
        rate = spent / max(time.thread_time() - begin, 1e-6)
        candidates = measured.distinct(chains.best_mappings, chains.best_costs, measurements)
        found = MapperAnswer(
            candidates[0],
            f"annealing by {type(model).__name__}",
            spent,
            tuple(history),
            measurements=measurements,
        )
        answer = measured.measured_answer(request, candidates, found)
        if not rest:
            return answer
        allowance = Allowance(rest, kept_back // rest - 1)
        if request.budget_s is not None:
            # A walk takes as long as a measurement.
            steps = max(int(rate * cost_s), FEWEST_STEPS)
            allowance = Allowance(rest, steps, begin + request.budget_s, cost_s)
        reach = max(STIRRED * max(fabric.rows, fabric.cols), 1.0)
        leg = Leg(0, self.stirring, self.stirring, reach, reach)
        walk = self._walks(model, tables, rng)
        return refined_answer(answer, walk, measuring(request), allowance, leg, rng)

    def _searched(
        self,
        request: MapperRequest,
        tables: Tables,
        starts: Mappings,
        spending: Spending,
        rng: np.random.Generator,
    ) -> tuple[Chains, list[tuple[int, float]]]:
        """Walks that have cooled down, and what the best cost was when."""
        chains = self._walks(request.model, tables, rng)(starts)
        return chains, cool_down(chains, self._cooling(tables), spending)

    def _walks(
        self, model: PreparedMappingModel, tables: Tables, rng: np.random.Generator
    ) -> Callable[[Mappings], Chains]:
        """Walks by the formula of a model, or by its answers where it has none."""
        if isinstance(model, HasFormula):
            return lambda mapping: Walkers(model.formula, mapping, self._shares, rng)
        return lambda mapping: BatchedWalks(model, tables, mapping, self._shares, rng)

    def _cooling(self, tables: Tables) -> Cooling:
        widest = float(max(tables.grid.rows, tables.grid.cols))
        return Cooling(self.hot, min(self.cold, self.hot), self.legs, self.joining, widest)

    @property
    def _shares(self) -> MoveShares:
        return MoveShares(self.turn, self.near)

    def _shared(
        self, request: MapperRequest, walks: int, refining: float, cost_s: float, begin: float
    ) -> tuple[int, float | None]:
        """Measurements at the end of walks, and the CPU time that is left for these."""
        most = min(request.measurements, walks)
        if request.budget_s is None:
            return most, None
        left = (1.0 - refining) * (request.budget_s - (time.thread_time() - begin))
        if most and cost_s > 0:
            most = int(np.clip(self.measuring * left / cost_s, 1, most))
        return most, max(left - most * cost_s, 0.0)


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
    """Allowance of a refinement.

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
        walks: one walk that begins at a mapping, such as by the formula of a model.
        measure: asks the simulator about one mapping, as `measuring` does.
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
        found=best.mapping,
        evaluations=evaluations,
        measurements=measurements,
        period_cycles=best.period_cycles,
        latency_cycles=best.latency_cycles,
    )


def measuring(request: MapperRequest) -> Callable[[Mappings], Stand]:
    """Measures one mapping of the problem of a request."""

    def measure(mapping: Mappings) -> Stand:
        found = request.judge.measure(request.problem, request.fabric, mapping)
        return Stand(mapping, float(found.period_cycles[0]), float(found.latency_cycles[0]))

    return measure


def _key(mapping: Mappings) -> bytes:
    return mapping.site.tobytes() + mapping.turn.tobytes()
