"""Recurrences whose weights do not fit together, and what packing them proves."""

from __future__ import annotations

from mcm_passes.families.ring.exact.packing_bound import packing_bound
from mcm_passes.mapping.bounds.bounds import lower_bound
from tests.generators.partition_problems import make_problem


def bound_of(problem, least_share=0.25):
    most_s = 2.0 * float(problem.compute_s.sum()) / float(problem.chip_speed.min()) + 1e-6
    least_s = least_share * lower_bound(problem).seconds
    return packing_bound(problem, least_s, most_s)


def steps(count, layers, work=4.0, gap=0.5, sram=1000, weight=400, chips=4):
    """Recurrences of `count` steps, one after the other, each with a weight of its own.

    Between two steps lies a unit of `gap`.
    """
    compute, edges, weights = [], [], []
    for _ in range(layers):
        users = []
        for _ in range(count):
            if compute:
                edges.append((len(compute) - 1, len(compute)))
            users.append(len(compute))
            compute.append(work)
            edges.append((len(compute) - 1, len(compute)))
            compute.append(gap)
        weights.append((weight, users))
    return make_problem(compute, edges, chips=chips, sram=sram, weights=weights)
