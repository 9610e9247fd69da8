"""Direct optimisation of the period with CP-SAT."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from ortools.sat.python import cp_model

from mcm_compiler.contracts import partition
from mcm_passes.families.ring.order_encoding import memory_constraints
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.families.ring.order_encoding.order_literals import OrderLiterals, PeriodModel
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.loads.chip_demands import chip_demands
from mcm_passes.mapping.search.search import Search

TICKS = 1 << 24
"""Ticks of the ceiling: times are rounded down to them, n units on a chip by n / TICKS at most."""

Verdict = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The answer of CP-SAT.

    Attributes:
        verdict: `infeasible` says that no partition is within the ceiling.
        chip_of: `[N]`, its best partition, or None.
        bound_s: no partition within the ceiling is faster; the ceiling where none is.
        effort_s: deterministic seconds that were spent.
    """

    verdict: Verdict
    chip_of: partition.Ints | None
    bound_s: float
    effort_s: float


class CpSatModel:
    """All partitions within a ceiling on the period, as a model of CP-SAT.

    It asks for all that the analytic model and the rules ask for. But it rounds times down to
    ticks, and may leave out memory and a part of the triangle rule. So whatever it proves holds,
    and its solutions are to be evaluated.

    Args:
        problem: the problem.
        windows: the chips of each node within the ceiling.
        least_s: a lower bound that is known.
        ceiling_s: periods beyond it are left out.
        memory: whether to ask for memory.
    """

    def __init__(
        self,
        problem: partition.PartitionProblem,
        windows: ChipWindows,
        least_s: float,
        ceiling_s: float,
        *,
        memory: bool,
    ) -> None:
        graph = work_around(problem).graph
        demands = chip_demands(problem, graph.units)
        self._units, self._num_units = graph.units, problem.num_units
        self._least_s = least_s
        self._ceiling_s = ceiling_s
        self._ticks_per_s = TICKS / ceiling_s
        self._order = OrderLiterals(graph, demands, windows)
        model = self._order.model
        least = int(np.floor(least_s * self._ticks_per_s * (1.0 - 1e-9)))
        self._period = model.new_int_var(min(least, TICKS), TICKS, "period")
        parts = PeriodModel(self._order, problem, demands, self._period, self._ticks_per_s)
        memory_constraints.constrain_time(parts, least)
        if memory:
            memory_constraints.MemoryConstraints(parts).add()
        if problem.routing == "strict":
            memory_constraints.constrain_triangles(self._order, graph)
        self._compresses = (
            len(set(problem.limits.sram_bytes)) == 1
            and len(set(problem.chip_speed.tolist())) == 1
            and not (problem.pinned_chip >= 0).any()
        )
        if not self._compresses:
            # Where chips are alike, an empty one can be left out of any solution.
            memory_constraints.constrain_skips(self._order, graph.num_nodes)
        model.minimize(self._period)

    def search(
        self, known: Search, effort_s: float, *, workers: int, seed: int, gap: float
    ) -> SearchResult:
        """Searches until the gap is closed or a limit is hit.

        Args:
            known: is offered each better partition, and ends the search. The search starts at its
                best, as far as the windows allow it.
            effort_s: deterministic seconds.
            workers: strategies that take turns; the result is the same on any number of cores.
            seed: of the solver.
            gap: relative gap that is good enough.
        """
        if known.best is not None:
            self._order.hint(known.best[self._units])
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = workers
        parameters.interleave_search = workers > 1
        parameters.random_seed = seed
        parameters.max_deterministic_time = effort_s
        parameters.relative_gap_limit = gap
        parameters.linearization_level = 2
        seconds = known.seconds_left
        if seconds is not None:
            parameters.max_time_in_seconds = seconds
        with _Watcher(solver, known.must_stop):
            status = solver.solve(self._order.model, _OnSolution(self._placement, known.admit))
        spent_s = float(solver.response_proto.deterministic_time)
        if status == cp_model.INFEASIBLE:
            return SearchResult("infeasible", None, self._ceiling_s, spent_s)
        bound_s = max(solver.best_objective_bound / self._ticks_per_s, self._least_s)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return SearchResult("unknown", None, bound_s, spent_s)
        verdict = "optimal" if status == cp_model.OPTIMAL else "feasible"
        return SearchResult(verdict, self._placement(solver.boolean_value), bound_s, spent_s)

    def _placement(self, holds: Callable[[cp_model.LiteralT], bool]) -> partition.Ints:
        """`[N]`, the partition that the literals say."""
        chips = self._order.chips(holds)
        if self._compresses:
            chips = np.unique(chips, return_inverse=True)[1]
        chip_of = np.zeros(self._num_units, np.int32)
        chip_of[self._units] = chips
        return chip_of


class _OnSolution(cp_model.CpSolverSolutionCallback):
    def __init__(
        self,
        placement: Callable[[Callable[[cp_model.LiteralT], bool]], partition.Ints],
        on_solution: Callable[[partition.Ints], object],
    ) -> None:
        super().__init__()
        self._placement = placement
        self._tell = on_solution

    def on_solution_callback(self) -> None:
        self._tell(self._placement(self.boolean_value))


class _Watcher:
    """Stops a solver from another thread once its caller has cancelled."""

    def __init__(self, solver: cp_model.CpSolver, cancelled: Callable[[], bool]) -> None:
        self._solver = solver
        self._cancelled = cancelled
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            if self._cancelled():
                self._solver.stop_search()
                return
