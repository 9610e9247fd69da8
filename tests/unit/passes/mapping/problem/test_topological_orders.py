"""The order in which light units wait for their readers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.problem.topological_orders import _heaviest_weight, topological_orders
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


def test_each_unit_goes_with_the_largest_weight_that_it_shares():
    rng = np.random.default_rng(0)
    for _ in range(300):
        units, weights = int(rng.integers(1, 9)), int(rng.integers(0, 9))
        rows = [rng.permutation(units)[: rng.integers(1, units + 1)] for _ in range(weights)]
        sizes = rng.integers(0, 4, weights)
        problem = SimpleNamespace(
            num_units=units,
            weight_ptr=np.cumsum([0, *map(len, rows)]),
            weight_users=np.concatenate([np.zeros(0, int), *rows]).astype(int),
            weight_bytes=sizes,
        )
        fewest = int(rng.integers(1, 3))
        shared = [
            [w for w, row in enumerate(rows) if len(row) >= fewest and u in row]
            for u in range(units)
        ]
        best = [
            max((w for w in of if sizes[w]), key=lambda w: (sizes[w], -w), default=-1)
            for of in shared
        ]
        assert _heaviest_weight(problem, fewest).tolist() == best
