"""A valid partition near one that is not, proven to be the nearest where that is within reach."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.mapping import Nearest
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.families.ring.analytic.fast_model import evaluate
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, rule_graph

ROLLOUTS = 256
"""Orders in which proposals are kept; each ends at another valid partition."""


EFFORT_S = 10.0
"""Deterministic seconds of CP-SAT for the proof that none is nearer."""


def nearest_valid(
    problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator, effort_s: float = EFFORT_S
) -> Nearest:
    """The valid partition with the fewest moved units.

    CP-SAT starts from what FIX finds in many orders, which is the answer where it runs out of
    effort.

    Args:
        problem: the problem.
        chip_of: `[N]`, chips in and out of range; entries of clonable units are not looked at.
        rng: source of randomness.
        effort_s: deterministic seconds of CP-SAT, twice.
    """
    from mcm_passes.families.ring.placement_constraints.nearest_model import nearest_partition

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
