"""A valid partition near one that is not, proven to be the nearest where that is within reach."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from mcm_compiler.contracts.mapping import Nearest
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_passes.families.ring.exact.cpsat import slowest_s
from mcm_passes.families.ring.order_encoding.chip_windows import chip_windows
from mcm_passes.families.ring.order_encoding.memory_constraints import (
    MemoryConstraints,
    constrain_skips,
    constrain_triangles,
)
from mcm_passes.families.ring.order_encoding.order_literals import (
    OrderLiterals,
    PeriodModel,
    WeightedSum,
)
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.loads.chip_demands import chip_demands
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, rule_graph

MOST_LITERALS = 80_000
"""Booleans "unit v is on chip c or later" up to which a model is built."""

MOST_UNITS = 10_000
"""Units up to which windows are computed, which takes n^2 bits."""

EFFORT_S = 10.0
"""Deterministic seconds of CP-SAT for the proof that none is nearer."""

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
    where the answer does not fit, with all that the analytic model counts.

    Args:
        problem: the problem.
        wanted: `[N]`, chips that may break rules or not exist; of clonable units not looked at.
        known: a valid partition to start from, or None.
        effort_s: deterministic seconds of CP-SAT for each of the two.
    """
    if not 0 < int((~problem.clonable).sum()) <= MOST_UNITS:
        return Nearest(known, False)
    longest_s = slowest_s(problem)
    windows = chip_windows(problem, longest_s)
    if windows.empty:
        return Nearest(None, True)
    if windows.total_width > MOST_LITERALS:
        return Nearest(known, False)
    graph, reached = work_around(problem).graph, problem.reached()
    demands = chip_demands(reached, graph.units)
    best = known
    for memory in (False, True):
        order = OrderLiterals(graph, demands, windows)
        if memory:
            ticks = order.model.new_int_var(0, TICKS, "period")
            model = PeriodModel(order, reached, demands, ticks, TICKS / longest_s)
            MemoryConstraints(model).add()
        start = None if best is None else best[graph.units]
        goal = np.asarray(wanted)[graph.units]
        answer = nearest_chips(order, graph, problem.routing, goal, start, effort_s)
        if answer.chip_of is None:
            if answer.proven:
                return answer
            continue
        found = np.zeros(problem.num_units, np.int32)
        found[graph.units] = answer.chip_of
        if not evaluate(problem, found).valid:
            continue
        moved = moved_units(problem, wanted, found).size
        if best is None or moved <= moved_units(problem, wanted, best).size:
            best = found
        if answer.proven:
            return Nearest(found, True)
    return Nearest(best, False)


def nearest_chips(
    order: OrderLiterals,
    graph: RuleGraph,
    routing: Routing,
    wanted: Ints,
    known: Ints | None = None,
    effort_s: float = EFFORT_S,
) -> Nearest:
    """As `nearest_partition`, with chips of nodes instead of units, by one run of CP-SAT.

    CP-SAT solves the rules as a complete model on one thread, deterministically. In the order
    encoding an edge is a clause for each chip.

    Args:
        order: literals of the graph's nodes, with further constraints; the rules are added.
        graph: with pins in its domains.
        routing: the rule for long dependencies.
        wanted: `[n]`, valid or not; also chips that do not exist.
        known: `[n]`, a valid partition to start from, or None.
        effort_s: deterministic seconds of CP-SAT.
    """
    if not bool((graph.low <= graph.high).all()):
        return Nearest(None, True)
    constrain_skips(order, graph.num_nodes, both_ways=True)
    if routing == "strict":
        constrain_triangles(order, graph)
    # That a node moves outweighs all distances of all nodes.
    outweighs = graph.num_nodes * graph.num_chips + 1
    goal = WeightedSum()
    for v, chip in enumerate(wanted.tolist()):
        # As differences: the relaxation of such a goal is that of a minimum cut.
        if order.may_be_on(v, chip):
            goal.add(order.since(v, chip), outweighs)
            goal.add(order.since(v, chip + 1), -outweighs)
        near = min(max(chip, 0), graph.num_chips - 1)
        for c in range(1, graph.num_chips):
            goal.add(order.since(v, c), 1 if c <= near else -1)
    order.model.maximize(goal.expression())
    order.hint(graph.low if known is None else known)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = 1
    parameters.max_deterministic_time = effort_s
    # Without skips and memory that is a minimum cut, whose relaxation is integral.
    parameters.linearization_level = 2
    # Long presolving gains nothing: most of the rules are clauses of two literals.
    parameters.cp_model_probing_level = 0
    parameters.symmetry_level = 0
    parameters.merge_at_most_one_work_limit = 0.0
    status = solver.solve(order.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Nearest(None, status == cp_model.INFEASIBLE)
    close = solver.best_objective_bound - solver.objective_value < 1.0
    return Nearest(order.chips(solver.boolean_value), status == cp_model.OPTIMAL or close)


ROLLOUTS = 256
"""Orders in which proposals are kept; each ends at another valid partition."""


def nearest_valid(
    problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator, effort_s: float = EFFORT_S
) -> Nearest:
    """As `nearest_partition`, where CP-SAT starts from what FIX finds in many orders.

    That is the answer where CP-SAT runs out of effort.
    """
    return nearest_partition(problem, chip_of, _by_fix(problem, chip_of, rng), effort_s)


def _by_fix(problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator) -> Ints | None:
    """The valid partition with the fewest moved units among those that FIX finds (MCM, Alg. 2).

    FIX keeps what the rules allow in the order in which it decides; we try many orders, among them
    that of the graph from both ends.

    Returns:
        `[N]`, or None where FIX finds nothing that fits the memory.
    """
    graph = rule_graph(problem)
    n = graph.num_nodes
    if n == 0 or n > MAX_CLOSURE_NODES:
        return None
    wanted = np.clip(chip_of[graph.units], 0, problem.num_chips - 1).astype(np.int32)
    orders = np.array([rng.permutation(n) for _ in range(ROLLOUTS)], np.int32)
    orders[0], orders[1] = np.arange(n), np.arange(n)[::-1]
    solver = BatchSolver.of(graph, problem.routing)
    proposals = np.tile(wanted, (ROLLOUTS, 1))
    # What cannot be kept goes to a chip near the wanted one.
    distance = np.abs(np.arange(problem.num_chips)[None, :] - wanted[:, None])
    weights = np.exp(-2.0 * distance).astype(np.float32)
    found = solver.fix(rng, proposals, weights, orders)
    if found[0, 0] < 0:
        return None
    # Fewest units moved, and then the shortest way.
    cost = (found != wanted).sum(axis=1) + np.abs(found - wanted).sum(axis=1) / (
        1.0 + n * problem.num_chips
    )
    for b in np.argsort(cost, kind="stable").tolist():
        partition = chip_of.copy()
        partition[graph.units] = found[b]
        if evaluate(problem, partition).valid:
            return partition
    return None
