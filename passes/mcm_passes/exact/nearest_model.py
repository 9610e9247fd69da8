"""The valid partition with the fewest moved units, by CP-SAT in the order encoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from mcm_compiler.partition import Ints, PartitionProblem
from mcm_passes.exact.chip_constraints import ChipItems, constrain_skips
from mcm_passes.exact.chip_demands import ChipDemands, chip_demands
from mcm_passes.exact.chip_windows import ChipWindows, chip_windows, work_around
from mcm_passes.exact.memory_constraints import MemoryConstraints
from mcm_passes.exact.order_literals import OrderLiterals, WeightedSum
from mcm_passes.exact.triangle_constraints import constrain_triangles
from mcm_passes.partitioning.fast_model import evaluate
from mcm_passes.solver.rule_graph import RuleGraph, rule_graph

MOST_LITERALS = 80_000
"""Booleans "unit v is on chip c or later" up to which a model is built."""

MOST_UNITS = 10_000
"""Units up to which windows are computed, which takes n^2 bits."""

TICKS = 1 << 24
"""Scale of the time that streamed weights take, which must not limit anything here."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """A valid partition near another one.

    Attributes:
        chip_of: `[N]`, or None where none is known.
        proven: whether no valid partition moves fewer units, or there is none at all.
    """

    chip_of: Ints | None
    proven: bool


def moved_units(problem: PartitionProblem, before: Ints, after: Ints) -> Ints:
    """The units whose chip differs; copies of clonable units do not count."""
    return np.flatnonzero((before != after) & ~problem.clonable).astype(np.int32)


def nearest_partition(
    problem: PartitionProblem, wanted: Ints, known: Ints | None, effort_s: float
) -> Nearest:
    """The valid partition that moves the fewest units; among those, one that moves them little.

    Searched first without memory, which mostly suffices and is a much smaller model, and then,
    where the answer does not fit, with all that the fast model counts.

    Args:
        problem: the problem.
        wanted: `[N]`, chips that may break rules or not exist; of clonable units not looked at.
        known: a valid partition to start from, or None.
        effort_s: deterministic seconds of CP-SAT for each of the two.
    """
    graph = rule_graph(problem)
    n = graph.num_nodes
    if not 0 < n <= MOST_UNITS:
        return Nearest(known, False)
    longest_s = _longest(problem)
    windows = chip_windows(problem, graph, work_around(problem, graph), longest_s)
    if windows.empty:
        return Nearest(None, True)
    if windows.total_width > MOST_LITERALS:
        return Nearest(known, False)
    demands = chip_demands(problem, graph)
    best = known
    for memory in (False, True):
        model = _Model(problem, graph, demands, windows, wanted, longest_s, memory=memory)
        found, verdict = model.solve(best, effort_s)
        if verdict == "infeasible":
            return Nearest(None, True)
        if found is None or not evaluate(problem, found).valid:
            continue
        if best is None or _moved(problem, wanted, found) <= _moved(problem, wanted, best):
            best = found
        if verdict == "nearest":
            return Nearest(found, True)
    return Nearest(best, False)


def _moved(problem: PartitionProblem, wanted: Ints, chip_of: Ints) -> int:
    return moved_units(problem, wanted, chip_of).size


def _longest(problem: PartitionProblem) -> float:
    """A period that every partition keeps: all that is done at all, one thing after the other."""
    limits = problem.limits
    work = float(problem.compute_s.sum() + problem.relay_s.sum()) * problem.num_chips
    moved = float(problem.tensor_bytes.sum()) * problem.num_chips
    seconds = work / float(problem.chip_speed.min())
    seconds += moved / limits.link_bytes_per_s + moved / limits.host_bytes_per_s
    if problem.streams:
        seconds += 2.0 * float(problem.weight_bytes.sum()) / limits.stream_bytes_per_s
    return 2.0 * seconds + 1.0


class _Model:
    def __init__(
        self,
        problem: PartitionProblem,
        graph: RuleGraph,
        demands: ChipDemands,
        windows: ChipWindows,
        wanted: Ints,
        longest_s: float,
        *,
        memory: bool,
    ) -> None:
        self._problem, self._graph = problem, graph
        self._order = order = OrderLiterals(graph, demands, windows)
        if memory:
            ticks = order.model.new_int_var(0, TICKS, "period")
            items = ChipItems(order, demands)
            MemoryConstraints(order, items, problem, demands, ticks, TICKS / longest_s).add()
        if problem.routing == "strict":
            constrain_triangles(order, graph)
        constrain_skips(order, graph.num_nodes)
        # One more unit that stays outweighs all ways of all others.
        chips = problem.num_chips
        self._ways = graph.num_nodes * chips
        goal = WeightedSum()
        for v, chip in enumerate(np.asarray(wanted)[graph.units].tolist()):
            if order.may_be_on(v, chip):
                goal.add(order.since(v, chip), self._ways + 1)
                goal.add(order.since(v, chip + 1), -self._ways - 1)
            near = min(max(chip, 0), chips - 1)
            for c in range(1, chips):
                goal.add(order.since(v, c), 1 if c <= near else -1)
        order.model.maximize(goal.expression())

    def solve(self, start: Ints | None, effort_s: float) -> tuple[Ints | None, str]:
        """The best placement, and `nearest`, `infeasible` or `unknown`."""
        order = self._order
        if start is not None:
            for v, chip in enumerate(start[self._graph.units].tolist()):
                for c in range(order.low[v] + 1, order.high[v] + 1):
                    literal = order.since(v, c)
                    if isinstance(literal, cp_model.IntVar):
                        order.model.add_hint(literal, chip >= c)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = effort_s
        solver.parameters.linearization_level = 2
        # Without skips and memory this is a minimum cut, whose relaxation is integral: nothing is
        # gained by long presolving.
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        solver.parameters.merge_at_most_one_work_limit = 0.0
        status = solver.solve(order.model)
        if status == cp_model.INFEASIBLE:
            return None, "infeasible"
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, "unknown"
        chip_of = np.zeros(self._problem.num_units, np.int32)
        for v, unit in enumerate(self._graph.units.tolist()):
            chip = order.low[v]
            while chip < order.high[v] and solver.boolean_value(order.since(v, chip + 1)):
                chip += 1
            chip_of[unit] = chip
        # Ways differ by less than one unit is worth.
        close = solver.best_objective_bound - solver.objective_value
        optimal = status == cp_model.OPTIMAL or close < 1.0
        return chip_of, "nearest" if optimal else "unknown"
