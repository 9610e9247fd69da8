"""Sums of work around units against plain sets, on graphs of more than one word of bits."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_passes.mapping.bounds.work_around import work_around
from tests.generators.partition_problems import make_problem


def _edges(kind, n):
    if kind == "chain":
        return [(u, u + 1) for u in range(n - 1)]
    if kind == "beside":
        return [(0, u) for u in range(1, n - 1)] + [(u, n - 1) for u in range(1, n - 1)]
    random = np.random.default_rng(n)
    return [(int(random.integers(max(v - 9, 0), v)), v) for v in range(1, n) for _ in range(2)]


@pytest.mark.parametrize("kind", ["chain", "beside", "random"])
@pytest.mark.parametrize("n", [3, 63, 64, 65, 131])
def test_work_before_and_after_each_unit_is_that_of_all_paths(kind, n):
    edges = _edges(kind, n)
    weights = [(100 + u, [u]) for u in range(0, n, 3)]
    problem = make_problem([1.0 + u % 7 for u in range(n)], edges, chips=4, weights=weights)
    around = work_around(problem)
    for ends, seconds, room, gates in (
        (edges, around.before_s, around.before_room, around.gate_before),
        ([(b, a) for a, b in edges], around.after_s, around.after_room, around.gate_after),
    ):
        sets = [set() for _ in range(n)]
        for _ in range(n if kind == "random" else 2):
            for a, b in sorted(ends, reverse=ends is not edges):
                sets[b] |= sets[a] | {a}
        for v, before in enumerate(sets):
            assert seconds[v] == pytest.approx(sum(problem.compute_s[u] for u in before))
            assert room[v] == sum(around.own_room[u] for u in before)
            whole = [
                u for u in before if all(u == w or u in sets[w] or w in sets[u] for w in before)
            ]
            assert gates[v] == (max(whole, key=lambda u: len(sets[u])) if whole else -1)
