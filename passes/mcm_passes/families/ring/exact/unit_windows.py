"""The bound that windows of chips give: the period below which some unit has no chip left."""

from __future__ import annotations

from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_passes.families.ring.exact.flow_bound import flow_bound
from mcm_passes.mapping.bounds import bounds
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.problem.rule_graph import rule_graph


def windows_of_units(problem: PartitionProblem, least_s: float) -> LowerBound:
    """The period below which some unit has no chip left; see `chip_windows`.

    Args:
        problem: the problem.
        least_s: a bound that is known already.
    """
    graph = rule_graph(problem)
    if not 0 < graph.num_nodes <= bounds.MAX_CLOSURE_UNITS:
        return LowerBound(0.0, "no unit")
    most_s = 2.0 * float(problem.compute_s.sum()) / float(problem.chip_speed.min())
    around = work_around(problem, graph)
    return flow_bound(problem, graph, around, None, least_s, max(most_s, least_s))
