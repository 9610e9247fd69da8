"""The order in which light units wait for their readers."""

from __future__ import annotations

import numpy as np

from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.problem.topological_orders import topological_orders
from tests.generators.partition_problems import make_problem


def test_light_units_come_right_before_their_first_reader():
    """Two recurrences that share a weight each; light units hand steps of one to the other."""
    steps = 4
    heavy = [*range(steps), *range(2 * steps, 3 * steps)]
    compute = [9.0 if u in heavy else 0.5 for u in range(3 * steps)]
    edges = [(t, t + 1) for t in range(steps - 1)]
    edges += [(2 * steps + t, 2 * steps + t + 1) for t in range(steps - 1)]
    edges += [(t, steps + t) for t in range(steps)]
    edges += [(steps + t, 2 * steps + t) for t in range(steps)]
    weights = [(500, list(range(steps))), (500, list(range(2 * steps, 3 * steps)))]
    problem = make_problem(compute, edges, weights=weights, sram=600)
    orders = {order.name: order.units.tolist() for order in topological_orders(problem, 7)}
    delayed = orders["delayed"]
    assert sorted(delayed) == list(range(problem.num_units))
    source, target = dependency_edges(problem)
    place = np.argsort(delayed)
    assert (place[source] < place[target]).all()
    for t in range(steps):
        assert place[2 * steps + t] == place[steps + t] + 1
    assert [u for u in delayed if u in heavy] == [u for u in orders["resident"] if u in heavy]
