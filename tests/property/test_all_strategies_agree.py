"""Every strategy that claims exactness against brute force, one problem feature at a time.

`test_exact_search` draws everything at once; here no feature can hide behind another.
"""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, LowerBound
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.exact.cpsat import CpSat
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.mapping.machine.evaluation import evaluate, period
from tests.generators.partition_problems import make_problem
from tests.oracles.best_period import best_period
from tests.oracles.shown_bounds import verify_bound

CHIPS = 3

GRAPHS = 4
"""Graphs for each feature and rule, of 4 to 7 units."""

FEATURES = (
    "nothing",
    "memory",
    "shared weights",
    "pins",
    "streams",
    "ends of the ring",
    "slow channels",
    "speeds",
    "clones",
)


def connected_graph(rng, n):
    edges = {(int(rng.integers(v)), v) for v in range(1, n)}
    edges |= {(u, v) for v in range(n) for u in range(v) if rng.random() < 0.25}
    return sorted(edges)


def drawn(feature, routing, seed):
    """A connected problem that has one feature beside work and transfers."""
    rng = np.random.default_rng([FEATURES.index(feature), seed, routing == "strict"])
    n = 4 + seed % 4
    edges = connected_graph(rng, n)
    compute = rng.integers(1, 10, n).tolist()
    own = [(int(rng.integers(100, 900)), [u]) for u in range(n)]
    given = {
        "memory": {"weights": own, "sram": 2600, "tensor_bytes": 64},
        "shared weights": {
            "weights": [(900, [0, n - 1]), (700, [0, 1, n - 1]), *own[1:]],
            "sram": 3800,
            "tensor_bytes": 64,
        },
        "pins": {"pins": [(n - 1, int(rng.integers(1, CHIPS))), (0, 0)]},
        "streams": {"weights": own, "sram": 1500, "stream": 2e8, "tensor_bytes": 64},
        "ends of the ring": {"host_io": "ends", "tensor_bytes": 500},
        "slow channels": {"link": 2e8, "tensor_bytes": lambda i: 300 + 170 * i % 900},
        "speeds": {"speeds": (1.0, 2.0, 0.5)},
    }.get(feature, {})
    if feature == "clones":
        edges = sorted({*edges, (0, 1), (0, n - 1)})
        given = {"clonable": [0]}
    return make_problem(compute, edges, chips=CHIPS, routing=routing, relay_us=1.5, **given)


def best_of_all(problem):
    return best_period(problem, num_chips=CHIPS)


def solved(strategy, problem):
    outcome = strategy.solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
    )
    assert outcome.chip_of is None or evaluate(problem, outcome.chip_of).valid
    found = float("inf") if outcome.chip_of is None else period(problem, outcome.chip_of)
    return outcome, found


@pytest.mark.parametrize("seed", range(GRAPHS))
@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("feature", FEATURES)
def test_exact_strategies_agree_with_enumeration(feature, routing, seed):
    problem = drawn(feature, routing, seed)
    best = best_of_all(problem)
    exact = [CpSat(ideals=0, tolerance=1e-6), CpSat(tolerance=1e-6)]
    for strategy in exact if routing == "strict" else [*exact, Ideals()]:
        outcome, found = solved(strategy, problem)
        if problem.streams:
            # Estimates count buffers for streamed weights that no proof may count on.
            assert not outcome.infeasible or best_of_all(problem.at_need()) == float("inf")
        else:
            assert outcome.infeasible == (best == float("inf"))
        assert found == best or found == pytest.approx(best, rel=3e-6)
        if best < float("inf"):
            assert outcome.bound.seconds == pytest.approx(best, rel=3e-6)
            assert verify_bound(problem, outcome.bound)
            for proof in ("ideals", "cpsat"):
                assert not verify_bound(problem, LowerBound(best * 1.00001, "", proof))


@pytest.mark.parametrize("seed", range(GRAPHS))
@pytest.mark.parametrize("feature", ["nothing", "pins", "ends of the ring", "speeds"])
def test_the_monotone_path_program_is_exact_on_chains(feature, seed):
    problem = drawn(feature, "relay", seed)
    n = problem.num_units
    chain = make_problem(
        (problem.compute_s * 1e6).tolist(),
        [(u, u + 1) for u in range(n - 1)],
        chips=CHIPS,
        host_io=problem.limits.host_io,
        speeds=problem.limits.chip_speed,
        pins=[(u, int(c)) for u, c in enumerate(problem.pinned_chip) if c >= 0],
        link=problem.limits.link_bytes_per_s,
        relay_us=1.5,
        tensor_bytes=500,
    )
    _, found = solved(ContiguousDp(), chain)
    assert found == pytest.approx(best_of_all(chain), rel=3e-6)
