"""Cuts along an order whose windows are weighed one by one, against all cuts."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from hypothesis import given, settings

from mcm_passes.families.ring.contiguous.contiguous_dp import RoutedWindows
from mcm_passes.families.ring.contiguous.contiguous_windows import chips_from_cuts
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.topological_orders import tile_major, topological_orders
from tests.generators.partition_problems import make_problem, problems


@given(problems(max_units=7))
@settings(max_examples=150, deadline=None)
def test_the_fewest_chips_are_found_where_routers_forward(problem):
    limits = dataclasses.replace(
        problem.limits,
        forwarding="router",
        host_io="any",
        host_total_bytes_per_s=0.0,
        stream_bytes_per_s=0.0,
        stream_total_bytes_per_s=0.0,
        link_bytes_per_s=1e15,
    )
    limits = limits.first(min(problem.num_chips, 3))
    problem = dataclasses.replace(problem, routing="relay", limits=limits).at_need()
    order = topological_orders(problem, 1)[0].units
    n, best = order.size, {}
    for chips in range(1, min(problem.num_chips, n) + 1):
        for inner in itertools.combinations(range(1, n), chips - 1):
            chip_of = chips_from_cuts(problem, order, np.array([0, *inner, n]))
            result = evaluate(problem, chip_of)
            if result.valid:
                best[chips] = min(result.period_s, best.get(chips, np.inf))
    windows = RoutedWindows(problem, order)
    for chips, period_s in best.items():
        assert 0 < windows.cuts_within(period_s * (1 + 1e-9)).size <= chips + 1
    found = windows.cuts_within(np.inf)
    assert (found.size > 0) == bool(best)
    if found.size:
        assert evaluate(problem, chips_from_cuts(problem, order, found)).valid


def tiled(layers: int, tiles: int, weight: int):
    """Rows of a network: tile r of a layer reads tiles r and r - 1 of the layer before."""
    edges = [
        ((k - 1) * tiles + s, k * tiles + r)
        for k in range(1, layers)
        for r in range(tiles)
        for s in {max(r - 1, 0), r}
    ]
    weights = [(weight, list(range(k * tiles, (k + 1) * tiles))) for k in range(layers)]
    return make_problem([1] * layers * tiles, edges, chips=4, sram=4000, weights=weights)


def most_live(problem, order) -> int:
    """The most tensors between a unit that has run and one that has not."""
    position, most = np.argsort(order), 0
    for cut in range(order.size):
        live = 0
        for u in range(order.size):
            made = problem.tensor_producer == u
            rows = [
                problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
                for t in np.flatnonzero(made)
            ]
            read = [position[v] for row in rows for v in row]
            assert all(at > position[u] for at in read)
            live += int(position[u] < cut and any(at >= cut for at in read))
        most = max(most, live)
    return most


def test_tiles_go_as_far_as_weights_are_at_hand():
    problem = tiled(4, 8, 500)
    given_order = topological_orders(problem, 1)[0].units
    through, two, alone = (tile_major(problem, share).units for share in (0.6, 0.3, 0.01))
    assert most_live(problem, through) < most_live(problem, given_order)
    assert sorted(two[:16].tolist()) == list(range(16))
    assert sorted(alone[:8].tolist()) == list(range(8))
