"""The strategy for throughput against latency, and for energy, by chains of order ideals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.objectives import Aim, Objective
from mcm_compiler.contracts.partition import Budget, LowerBound
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.contiguous.contiguous_windows import tried_partitions
from mcm_passes.families.ring.exact import ideals
from mcm_passes.families.ring.exact.ideal_chain import SLACK, TriangleReading
from mcm_passes.families.ring.exact.ideals import ChainOptimum
from mcm_passes.families.ring.objectives.label_chain import Goal
from mcm_passes.families.ring.objectives.label_search import LabelLattice
from mcm_passes.families.ring.objectives.latency_walk import walk_from_best
from mcm_passes.families.ring.objectives.ring_objectives import objective_bound
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.search.search import Search, SearchStrategy
from mcm_passes.mapping.solving.solve import with_chips

LEAST_CHIPS = 8
"""Numbers of chips that all are tried with first cuts; beyond, each is half as much again."""


def offer_first_cuts(known: Search, rng: np.random.Generator) -> str:
    """Offers what `dp` finds on every number of chips; why it finds nothing on all of them."""
    problem, reason = known.problem, ""
    useful = min(problem.num_chips, int((~problem.clonable).sum()))
    chips = 1
    while chips <= useful and not known.must_stop():
        part = with_chips(problem, chips)
        budget = Budget(monitor=known.budget.monitor)
        found = ContiguousDp().solve(part, AnalyticPeriods(part), rng, budget)
        reason = found.reason
        if found.chip_of is not None:
            known.admit(found.chip_of)
        following = chips + 1 if chips < LEAST_CHIPS else chips + chips // 2
        chips = useful if chips < useful < following else following
    for chip_of in tried_partitions(problem):
        known.admit(chip_of)
    return reason


PROOF, MERGED, ENERGY = "label_chains", "merged_chains", "energy_chains"

ORDERS = 4
"""Orders whose beginnings are tried where a graph has too many ideals."""


@dataclass(frozen=True)
@checked(ideals=at_least(1), windows=at_least(1), labels=at_least(1), beam=at_least(1))
class Frontier(SearchStrategy):
    """Dynamic programming over order ideals with labels of cost and times.

    Exact under the relay rule where all labels can be kept; else with a beam of them, whose best
    is no proof. Under the strict rule it finds the best partition whose dependencies span at most
    one chip, and proves a bound for all others. Starts from cuts of orders on every number of
    chips: fewer chips hand over less, and more of them answer more often. The least energy needs no
    times, and so one label of each ideal and number of chips. If a graph has too many ideals, a
    local search replaces them for the least latency, and else the beginnings of some orders, which
    prove nothing.

    Attributes:
        ideals: most order ideals; if a graph has more, chains of beginnings of some orders answer.
        windows: most windows between two of them.
        labels: most labels.
        beam: labels of an ideal and a number of chips that are kept where there are too many.
        walked: whether units move one by one for the least latency, instead of chains.
    """

    name: ClassVar[str] = "frontier"
    summary: ClassVar[str] = (
        "least latency, least period within one, least energy: chains of order ideals"
    )
    remembers: ClassVar[int] = 1
    aims: ClassVar[tuple[Aim, ...]] = ("period", "latency", "max-latency", "energy")

    ideals: int = 20_000
    windows: int = 4_000_000
    labels: int = 1_000_000
    beam: int = 8
    walked: bool = False

    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Nothing is random but walks."""
        walked = self.walked and search.budget.objective.aim == "latency"
        search.prove(objective_bound(search.problem, search.budget.objective))
        # Placements that the caller knows come from such walks.
        if walked and any(search.admit(row) for row in search.budget.known):
            return ""
        reason = offer_first_cuts(search, rng)
        if search.must_stop() or search.closed(SLACK):
            return reason
        if self.walked and not walked and search.best is None:
            return reason  # The caller then asks for the least latency.
        if walked:
            walk_from_best(search, rng)
            return reason
        reason = self._improve(search, search.budget.objective) or reason
        if search.budget.objective.aim == "latency" and not search.closed(SLACK):
            walk_from_best(search, rng)
        return reason

    def _improve(self, known: Search, objective: Objective) -> str:
        """Improves what is known by chains of ideals; why there is no partition, or empty."""
        problem = known.problem
        energy, strict = objective.aim == "energy", problem.routing == "strict"
        lattice = LabelLattice.of(problem.at_need(), self.ideals)
        best = partial(self._best, known, aim=objective, proves=lattice is not None)
        if lattice is None:
            if objective.aim != "latency":
                self._along_orders(known, best)
            return ""
        if not energy:
            self._relax(known, lattice, objective)
        reason, exact = "", True
        if energy or not known.closed(10.0 * SLACK):
            found, _ = ideals.offer_chains(known, lattice, best)
            exact = found is not None and found.complete
            if found is not None and exact:
                reason = _conclude(known, found, lattice, objective, strict=strict)
            elif energy:
                self._along_orders(known, best)
        if exact and objective.aim == "latency" and not strict:
            self._hasten(known, lattice)
        return reason

    def _along_orders(
        self, known: Search, best: Callable[[LabelLattice, TriangleReading], ChainOptimum]
    ) -> None:
        """Offers the best chains of beginnings of some orders."""
        problem = known.problem
        if int((~problem.clonable).sum()) < self.ideals:
            for order in topological_orders(problem, ORDERS):
                if not known.must_stop():
                    beginnings = LabelLattice.along(problem, order.units)
                    ideals.offer_chains(known, beginnings, best)

    def _relax(self, known: Search, lattice: LabelLattice, objective: Objective) -> None:
        """Proves what follows where all chains up to an ideal are one."""
        chains = f"chains of {count_text(lattice.count, 'order ideal')}, times up to each merged"
        if objective.aim == "latency":
            found_s, complete = lattice.merged(np.inf, known.best_period_s, self.windows)
            if complete and min(found_s, known.best_period_s) < np.inf:
                least_s = min(found_s, known.best_period_s) * (1.0 - 5.0 * SLACK)
                known.prove(LowerBound(least_s, f"later are all {chains}", MERGED))
            return
        most_s = objective.latency_limit_s
        if most_s == np.inf:
            return
        within = f" that answer {_within(objective)}"
        for period_s in ideals.rising_periods(known.bound.seconds, known.best_period_s):
            found_s, complete = lattice.merged(period_s, most_s, self.windows)
            if not complete or found_s < np.inf or period_s == np.inf:
                break
            known.prove(LowerBound(period_s, f"slower are all {chains}{within}", MERGED))

    def _hasten(self, known: Search, lattice: LabelLattice) -> None:
        """Of all partitions with the latency that is known takes one with the least period."""
        if known.best is None or known.must_stop():
            return
        period_s = AnalyticPeriods(known.problem)(known.best)
        within_s = known.best_period_s * (1.0 + SLACK)
        goal = Goal(False, period_s, within_s, self.windows, self.labels, 0)
        faster = lattice.best("none", goal)
        if faster.chip_of is not None:
            known.spend(1)
            value = known.period_of(faster.chip_of)
            if value <= known.best_period_s * (1.0 + 1e-12):
                known.best, known.best_period_s = faster.chip_of, value

    def _best(
        self,
        known: Search,
        lattice: LabelLattice,
        reading: TriangleReading,
        aim: Objective,
        *,
        proves: bool,
    ) -> ChainOptimum:
        """The best chain by a reading of the rules; where not all labels fit, that of a beam."""
        if aim.aim == "energy":
            most_j = known.best_period_s * (1.0 + SLACK)
            goal = Goal(False, np.inf, most_j, self.windows, 1 << 60, 0, energy=True)
            return lattice.best(reading, goal)
        if aim.aim == "latency":
            soon_s = self._soon(known, lattice, reading)
            goals = [Goal(True, np.inf, soon_s * (1.0 + SLACK), 0, 0, 0)]
        else:
            most_s = aim.latency_limit_s
            # A little above, so that chains as fast as what is known are found, too.
            steps = ideals.rising_periods(known.bound.seconds, known.best_period_s)
            goals = [Goal(False, s * (1.0 + 10.0 * SLACK), most_s, 0, 0, 0) for s in steps]
        slower = f"slower are all chains of {count_text(lattice.count, 'order ideal')}"
        if within := _within(aim):
            slower += f" that answer {within}"
        windows, labels = self.windows, self.labels
        found: ChainOptimum | None = None
        for goal in goals:
            whole = goal._replace(most_windows=windows, most_labels=labels)
            found = lattice.best(reading, whole)
            windows, labels = windows - found.windows, labels - found.labels
            if found.chip_of is not None or not found.complete or known.must_stop():
                break
            if proves and reading == "none" and goal.period_s < known.best_period_s:
                known.prove(LowerBound(goal.period_s, slower, _proof_of(aim)))
        assert found is not None, "there is always a goal"
        if found.complete:
            return found
        if found.chip_of is not None:
            known.admit(found.chip_of)
        last = goals[-1]._replace(
            most_windows=self.windows, most_labels=self.labels, beam=self.beam
        )
        return replace(lattice.best(reading, last), complete=False)

    def _soon(self, known: Search, lattice: LabelLattice, reading: TriangleReading) -> float:
        """A latency that some chain has: the narrowest beam, from the bound upwards, finds one.

        The closer to the least latency a search begins, the fewer labels can be below. Where one
        look weighs much of what may be weighed, the highest ceiling is the next one.
        """
        windows = self.windows
        for ceiling_s in ideals.rising_periods(known.bound.seconds, known.best_period_s):
            if known.must_stop():
                break
            if windows < self.windows // 2 and ceiling_s < known.best_period_s:
                continue
            limit_s = ceiling_s * (1.0 + SLACK)
            found = lattice.best(reading, Goal(True, np.inf, limit_s, self.windows, self.labels, 1))
            windows -= found.windows
            if found.chip_of is not None:
                known.admit(found.chip_of)
                return min(known.best_period_s, found.value)
        return known.best_period_s


def _conclude(
    known: Search, found: ChainOptimum, lattice: LabelLattice, objective: Objective, *, strict: bool
) -> str:
    """Takes note of what all chains show; why there is no partition, or empty.

    Args:
        known: receives the bound.
        found: of all chains, the triangle rule left out.
        lattice: the ideals.
        objective: the objective of the chains.
        strict: whether the triangle rule holds.
    """
    chains, within = f"chains of {count_text(lattice.count, 'order ideal')}", _within(objective)
    if found.chip_of is None and known.best is None:
        known.exhausted = True
        in_time = f" and answers {within}" if within else ""
        return f"none exists: none of all {chains} fits memory and rules{in_time}"
    # No chain is below what is known by more than rounding.
    value = min(found.value, known.best_period_s)
    worse = "more is taken by" if objective.aim == "energy" else "slower are"
    optimal = value * (1.0 + 10.0 * SLACK) >= known.best_period_s
    argument = f"best of all {chains}" if optimal else f"{worse} all {chains}"
    argument += f" that answer {within}" if within else ""
    argument += ", the triangle rule left out" if strict else ""
    known.prove(LowerBound(value * (1.0 - 5.0 * SLACK), argument, _proof_of(objective)))
    return ""


def _proof_of(objective: Objective) -> str:
    """Of a plain period it is the argument of `ideals`, and checked as such."""
    return {"period": ideals.PROOF, "energy": ENERGY}.get(objective.aim, PROOF)


def _within(objective: Objective) -> str:
    limit_s = objective.max_latency_s
    return "" if limit_s is None else f"within {seconds_text(limit_s)}"
