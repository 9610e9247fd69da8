"""Large-neighbourhood search: CP-SAT frees the units of a few chips around the bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem
from mcm_compiler.text.option_ranges import above, at_least, between, checked
from mcm_passes.families.ring.analytic.fast_model import evaluate as explain
from mcm_passes.families.ring.loads.chip_demands import chip_demands
from mcm_passes.families.ring.moves.chip_window import ChipWindow, chip_window
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.families.ring.strategies.start import named_start
from mcm_passes.mapping.problem.rule_graph import rule_graph
from mcm_passes.mapping.search.search import Search

SEED_LIMIT = 1 << 31


@dataclass(frozen=True)
@checked(window_effort_s=above(0), step=between(0, 1), max_units=at_least(1))
class Lns:
    """Frees the units of some neighbouring chips, fixes all others, and solves exactly.

    Windows are laid around the busiest resource of the best partition. One that brings nothing
    gives way to the next position, then to wider ones; after a success all begins again. Shaw
    1998, *Using Constraint Programming and Local Search Methods to Solve Vehicle Routing
    Problems*; windows of chips are our choice.

    Attributes:
        chips: chips of the narrowest window, at least 2.
        most_chips: of the widest.
        window_effort_s: deterministic seconds of CP-SAT for each window.
        step: least improvement that is asked for, as a share of the period.
        max_units: most units that a model for CP-SAT is built for. Where dependencies may be
            relayed and every chip reaches the host it is of the window's units only, else of all.
        start: the strategy whose answer it starts from; `known`: the best that the caller knows,
            such as the members of a portfolio before it found, and `dp` where there is none.
    """

    name: ClassVar[str] = "lns"
    summary: ClassVar[str] = "CP-SAT on the units of a few chips around the bottleneck"

    chips: int = 3
    most_chips: int = 8
    window_effort_s: float = 0.5
    step: float = 1e-4
    max_units: int = 2_000
    start: str = "dp"

    def __post_init__(self) -> None:
        if not 2 <= self.chips <= self.most_chips:
            raise ValueError(f"chips is {self.chips}, not between 2 and {self.most_chips}")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Ends when no window brings anything or the effort is spent."""
        search = Search(problem, evaluate, budget)
        reason = named_start(search, self.start, evaluate, rng)
        effort_s = budget.effort_s
        position = 0
        while search.best is not None and search.left and effort_s > 0.0:
            window = self._window(problem, search.best, position)
            if window is None:
                break
            before_s = search.best_period_s
            limit_s = min(self.window_effort_s, effort_s)
            spent_s = self._improve(search, window, limit_s, rng)
            # A window that is infeasible at once costs something, too.
            effort_s -= max(spent_s, 0.01)
            position = 0 if search.best_period_s < before_s else position + 1
        return search.outcome(reason)

    def _window(
        self, problem: PartitionProblem, chip_of: Ints, position: int
    ) -> tuple[int, int] | None:
        """First and last chip of the window at a position in the sequence; None at its end."""
        result = explain(problem, chip_of)
        loads = np.zeros(problem.num_chips)
        for busy in (
            result.chip_busy_s,
            result.link_busy_s,
            result.host_in_busy_s,
            result.host_out_busy_s,
            result.stream_busy_s,
        ):
            loads[: busy.size] = np.maximum(loads[: busy.size], busy)
        hot = int(loads.argmax())
        for width in range(self.chips, min(self.most_chips, problem.num_chips) + 1):
            lowest = max(hot - width + 1, 0)
            highest = min(hot, problem.num_chips - width)
            count = highest - lowest + 1
            if position < count:
                # From the middle outwards.
                order = sorted(range(count), key=lambda k: (abs(2 * k - count + 1), k))
                first = lowest + order[position]
                return first, first + width - 1
            position -= max(count, 0)
        return None

    def _improve(
        self, search: Search, window: tuple[int, int], effort_s: float, rng: np.random.Generator
    ) -> float:
        """Solves one window and offers what it finds; returns deterministic seconds."""
        from mcm_passes.families.ring.order_encoding.cpsat_model import CpSatModel, SearchLimits

        assert search.best is not None, "the search has a start"
        part = _part(search.problem, search.best, *window)
        graph = rule_graph(part.problem)
        if graph.num_nodes > self.max_units:
            return 0.0
        now = part.inside(search.best)[graph.units]
        first, last = window[0] - part.first, window[1] - part.first
        free = (now >= first) & (now <= last) & (part.units[graph.units] >= 0)
        low = np.where(free, np.maximum(first, graph.low), now).astype(np.int32)
        high = np.where(free, np.minimum(last, graph.high), now).astype(np.int32)
        reached = part.problem.reached()
        model = CpSatModel(
            reached,
            graph,
            chip_demands(reached, graph.units),
            ChipWindows(low, high),
            0.0,
            search.best_period_s * (1.0 - self.step),
            memory=True,
        )
        model.hint(part.inside(search.best))
        limits = SearchLimits(
            effort_s=effort_s,
            seconds=search.share(1).seconds,
            workers=1,
            seed=int(rng.integers(SEED_LIMIT)),
            gap=self.step,
        )
        result = model.search(limits, lambda _: None, lambda: not search.left)
        if result.chip_of is not None:
            search.period(part.outside(search.best, result.chip_of))
        return result.effort_s


def _part(problem: PartitionProblem, chip_of: Ints, first: int, last: int) -> ChipWindow:
    """The window as a problem of its own, or all of the problem where that cannot be."""
    if problem.routing == "relay" and not problem.limits.at_ends:
        return chip_window(problem, chip_of, first, last)
    return ChipWindow(problem, np.arange(problem.num_units, dtype=np.int32), 0)
