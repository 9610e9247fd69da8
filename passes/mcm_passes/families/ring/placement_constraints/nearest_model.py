"""The valid partition of a whole problem with the fewest moved units, by CP-SAT."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.mapping import Nearest
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.families.ring.analytic.fast_model import evaluate
from mcm_passes.families.ring.loads.chip_demands import chip_demands
from mcm_passes.families.ring.order_encoding.chip_windows import chip_windows
from mcm_passes.families.ring.order_encoding.memory_constraints import MemoryConstraints
from mcm_passes.families.ring.order_encoding.order_literals import OrderLiterals
from mcm_passes.families.ring.order_encoding.triangle_constraints import MOST_CLAUSES
from mcm_passes.families.ring.order_encoding.trigger_literals import PeriodModel, TriggerLiterals
from mcm_passes.families.ring.solver.cpsat_validity import RingAuthority
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.problem.rule_graph import rule_graph

MOST_LITERALS = 80_000
"""Booleans "unit v is on chip c or later" up to which a model is built."""

MOST_UNITS = 10_000
"""Units up to which windows are computed, which takes n^2 bits."""

TICKS = 1 << 24
"""Scale of the time that streamed weights take, which must not limit anything here."""


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
    reached = problem.reached()
    demands = chip_demands(reached, graph.units)
    best = known
    for memory in (False, True):
        order = OrderLiterals(graph, demands, windows)
        if memory:
            ticks = order.model.new_int_var(0, TICKS, "period")
            literals = TriggerLiterals(order, demands)
            model = PeriodModel(order, literals, reached, demands, ticks, TICKS / longest_s)
            MemoryConstraints(model).add()
        authority = RingAuthority(
            graph, problem.routing, None, effort_s, order, most_clauses=MOST_CLAUSES
        )
        start = None if best is None else best[graph.units]
        answer = authority.nearest(np.asarray(wanted)[graph.units], None, start)
        if answer.chips is None:
            if answer.proven:
                return Nearest(None, True)
            continue
        found = np.zeros(problem.num_units, np.int32)
        found[graph.units] = answer.chips
        if not evaluate(problem, found).valid:
            continue
        if best is None or _moved(problem, wanted, found) <= _moved(problem, wanted, best):
            best = found
        if answer.proven:
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
