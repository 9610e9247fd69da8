"""The portfolio: several strategies one after the other, and the evaluator among their best."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.mapping.models import adapted
from mcm_passes.mapping.search import named
from mcm_passes.mapping.search.search import ENOUGH, Search

LEAST_SHARE = 1.0 / 3.0
"""Of the time that is left, what a member may take at least, however many are still to come. The
members that begin from nothing come first, and what they do not take is left to the others."""

EVALUATED_UNITS = 100_000
"""Units of all partitions together that are shown to the simulator at the end: it takes some
seconds for as many, and with the first kernel of a fresh machine more."""


@dataclass(frozen=True)
@checked(slack=at_least(0))
class Portfolio:
    """Runs its members, keeps the best dozen partitions, and lets the simulator choose.

    Each member gets all evaluations and deterministic effort of the budget, and the generator in
    its first state, so that it does what it would do alone. The last one also gets the evaluations
    that the others left. Only what `dp` finds is not sought again by members that begin with it.
    The answer is never worse than any member's that has run, under the evaluator where there is one
    and `slack` allows, else under the roofline. Time is shared. Once a bound is met, or a member
    knows that nothing better fits as the problem counts memory, the portfolio ends. Where there is
    an evaluator, the next member that asks it has a look first, and so does another after each that
    found what the evaluator likes better. Each member is given the answers of those before it:
    members begin with them where `dp` finds nothing, and learned search starts from what classical
    search found.

    Attributes:
        members: strategies, in the order in which they run; at least 1.
        slack: how much longer than the best one's the period of a partition may be under the
            analytic model, as a share of it, for the simulator to choose it. At 0 only equals are
            left to it.
    """

    name: ClassVar[str] = "portfolio"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "several strategies in turn; the simulator chooses among their best"

    members: tuple[str, ...] = (
        "dp",
        "cpsat{literals=1000}",
        "reorder{start=dp}",
        "local_search",
        "multilevel",
        "reorder{start=known}",
    )
    slack: float = 5e-4

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("members is empty")

    @property
    def asks_evaluator(self) -> bool:
        """True if a member asks the evaluator of the budget."""
        return any(partition.asks_evaluator(named.strategy_of(text)) for text in self.members)

    def solve(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        rng: np.random.Generator,
        budget: partition.Budget,
    ) -> partition.Outcome:
        """Runs the members until the budget is spent or the bound is met."""
        # Where to stop depends on the member: a proven optimum is none for the evaluator.
        total = dataclasses.replace(
            budget, evaluations=budget.evaluations * len(self.members), enough_s=0.0
        )
        search = Search(problem, evaluate, total)
        enough_s = budget.enough_s * (1.0 + max(ENOUGH, budget.gap))
        strategies = [named.strategy_of(text) for text in self.members]
        reason = "the budget allows no evaluation"
        bound_of = ""
        answers: list[partition.Ints] = []
        finders = _Finders(search)
        start: partition.Start | None = None
        # Whether the evaluator still prefers new answers, once a bound is met.
        improving = True
        for k, (member, strategy) in enumerate(zip(self.members, strategies, strict=True)):
            if not search.left:
                break
            may_ask = budget.evaluator is not None and partition.asks_evaluator(strategy)
            met = search.closed(ENOUGH) or search.best_period_s <= enough_s
            if met and not (may_ask and improving):
                continue
            part = search.share(
                search.left if k == len(strategies) - 1 else budget.evaluations,
                partition.SearchMonitor(on_best=finders.of(member), parent=budget.monitor),
                time_share=max(1.0 / (len(strategies) - k), LEAST_SHARE),
            )
            # Copies: what the search keeps is no member's to change.
            known = tuple({r.tobytes(): r.copy() for r in (*_rows(search), *answers)}.values())
            part = dataclasses.replace(
                part, enough_s=budget.enough_s, known=known, start=start or budget.start
            )
            if partition.learns(strategy):
                finders.learned.add(member)
            able, first = adapted(problem, member), copy.deepcopy(rng)
            outcome = named.answer_of(member, able, problem, evaluate, first, part)
            search.spend(outcome.evaluations)
            search.settle(outcome.settled_s)
            if partition.gives_start(strategy):
                start = partition.Start(problem, outcome)
            if search.prove(outcome.bound):
                bound_of = member
            if outcome.infeasible:
                if search.best is not None:
                    raise named.refuted_proof(member, search.best_period_s)
                return dataclasses.replace(outcome, evaluations=search.evaluations)
            if outcome.chip_of is None:
                reason = outcome.reason
                continue
            # A copy: what is offered below is what the evaluator gets, whoever changes the
            # original.
            answers.append(np.array(outcome.chip_of, np.int32))
            if met and budget.evaluator is not None:
                improving = _improves(budget.evaluator, answers)
            for chip_of in (outcome.chip_of, *outcome.runners_up):
                finders.of(member)(chip_of, np.inf)
        if search.bound.seconds > search.best_period_s * (1.0 + named.ROOM):
            raise named.refuted_bound(bound_of, search.bound.seconds, search.best_period_s)
        found = self._chosen(search, budget, answers, search.outcome(reason), finders)
        return dataclasses.replace(found, found_by=finders.name(found.chip_of))

    def _chosen(
        self,
        search: Search,
        budget: partition.Budget,
        answers: list[partition.Ints],
        found: partition.Outcome,
        finders: _Finders,
    ) -> partition.Outcome:
        """The outcome with the partition in front that the evaluator prefers.

        Asked are the best partitions and the answers of all members; a member that has asked the
        evaluator itself may prefer one that is not among the best under the roofline. Where no
        member has asked, only as many of the best are shown as `EVALUATED_UNITS` has space for.
        """
        limit_s = search.best_period_s * (1.0 + self.slack)
        known = search.kept() + [(search.period_of(row), row) for row in answers]
        rows = {row.tobytes(): row for period_s, row in known if period_s <= limit_s}
        if not self.asks_evaluator:
            most = EVALUATED_UNITS // max(search.problem.num_units, 1)
            rows = dict(sorted(rows.items(), key=lambda item: search.period_of(item[1]))[:most])
        if budget.evaluator is None or len(rows) < 2 or budget.monitor.cancelled:
            fast = {row.tobytes(): (row, period_s) for period_s, row in known}
            return dataclasses.replace(found, learned=finders.learned_gain(fast, simulated=False))
        finalists = np.stack(list(rows.values()))
        periods = _simulated(budget.evaluator, finalists[:1])
        # Where the simulator confirms the best period of the fast model, it prefers no other.
        confirmed = abs(periods[0] - search.best_period_s) <= ENOUGH * search.best_period_s
        if finders.learned or not confirmed:
            periods = np.append(periods, _simulated(budget.evaluator, finalists[1:]))
        if not np.isfinite(periods).any():
            return found
        best: partition.Ints = finalists[int(periods.argmin())]
        evaluated = dict(zip(rows, zip(finalists, periods.tolist(), strict=False), strict=False))
        return dataclasses.replace(
            found,
            chip_of=best,
            runners_up=tuple(row for row in _rows(search) if not np.array_equal(row, best)),
            learned=finders.learned_gain(evaluated, simulated=True),
        )


def _improves(evaluator: BatchEvaluator, answers: list[partition.Ints]) -> bool:
    """Return whether the last answer is better than all before, by the evaluator."""
    periods = _simulated(evaluator, np.stack(answers))
    return bool(periods[-1] < periods[:-1].min(initial=np.inf) * (1.0 - ENOUGH))


def _simulated(evaluator: BatchEvaluator, partitions: partition.Ints) -> partition.Floats:
    """`[B]`, periods of partitions by the evaluator; infinite where one does not run."""
    results = evaluator.evaluate(partitions)
    return np.where(results.kind == ResultKind.RUNS, results.period_s, np.inf)


def _rows(search: Search) -> tuple[partition.Ints, ...]:
    return tuple(row for _, row in search.kept())


class _Finders:
    """Which member was the first to find each partition.

    Attributes:
        learned: members that have run and that learn.
    """

    def __init__(self, search: Search) -> None:
        self.learned: set[str] = set()
        self._search = search
        self._first: dict[bytes, str] = {}

    def of(self, member: str) -> Callable[[partition.Ints, float], None]:
        """Collector to which a member offers its partitions."""

        def offer(chip_of: partition.Ints, _period_s: float) -> None:
            self._first.setdefault(self._key(chip_of), member)
            # What a member says of the period is not taken for granted.
            self._search.offer(chip_of, self._search.period_of(chip_of))

        return offer

    def name(self, chip_of: partition.Ints | None) -> str:
        """The member that found a partition; empty where there is none."""
        return "" if chip_of is None else self._first[self._key(chip_of)]

    def learned_gain(
        self, known: dict[bytes, tuple[partition.Ints, float]], *, simulated: bool
    ) -> partition.LearnedGain | None:
        """As `Outcome.learned`, of partitions with their periods by one measure."""
        best: dict[bool, tuple[partition.Ints | None, float]] = dict.fromkeys(
            (True, False), (None, np.inf)
        )
        for row, period_s in known.values():
            learned = self.name(row) in self.learned
            if period_s < best[learned][1]:
                best[learned] = row, period_s
        (learned_row, learned_s), (classical_row, classical_s) = best[True], best[False]
        if not self.learned or classical_row is None:
            return None
        share = max(classical_s / learned_s - 1.0, 0.0)
        # Copies: searches go on with arrays of theirs.
        copied = None if learned_row is None else np.array(learned_row, np.int32)
        return partition.LearnedGain(share, simulated, np.array(classical_row, np.int32), copied)

    def _key(self, chip_of: partition.Ints) -> bytes:
        return np.where(self._search.problem.clonable, 0, chip_of).astype(np.int32).tobytes()
