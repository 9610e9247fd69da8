"""Bounds on small machines that are above the best of all placements, or that no check shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.partition import Budget, LowerBound
from mcm_passes.mapping.bounds.bounds import fractional_work, lower_bound
from mcm_passes.mapping.bounds.heavy_chains import heavy_chains
from mcm_passes.mapping.machine.any_machine import exact_bound
from mcm_passes.mapping.models import periods_of
from mcm_passes.mapping.search.search import Search
from tests.generators.small_machines import machine_case
from tests.oracles.shown_bounds import verify_bound


def wrong_bounds(seed: int, seen: Counter[str]) -> list[str]:
    """Bounds of one random machine and problem that are wrong, in words.

    A third of the machines have chips of one kind, of two, and of three.

    Args:
        seed: of the machine and of the problem.
        seen: counts what was compared.
    """
    case = machine_case(seed, kinds=1 + seed % 3)
    problem, best_s = case.problem, case.best_s
    seen["machines"] += 1
    seen[case.topology.split('"')[1]] += 1
    seen["without a valid placement"] += not np.isfinite(best_s)
    search = Search(problem, periods_of(problem), Budget())
    known = lower_bound(problem)
    bounds = {
        "without a search": known,
        "of order ideals": exact_bound(problem, np.random.default_rng(0), search),
        "of work that kinds share": replace(fractional_work(problem), proof="fractional_work"),
    }
    if np.isfinite(best_s):
        low = LowerBound(0.2 * best_s, "a part of the optimum")
        bounds["of heavy units"] = heavy_chains(problem, low, 1.5 * best_s, 5.0)
    found: list[str] = []
    for name, bound in bounds.items():
        if bound is None or bound.seconds <= 0.0:
            continue
        seen[f"bounds {name}"] += 1
        if bound.seconds > best_s * (1 + 1e-9):
            found.append(f"{name}: {bound.seconds!r} is above {best_s!r}, {bound.argument}")
        if bound.proof and not verify_bound(problem.at_need(), bound):
            found.append(f"{name}: {bound.seconds!r} is not shown ({bound.proof})")
        more = replace(bound, seconds=bound.seconds * 1.01)
        if name == "of work that kinds share" and verify_bound(problem.at_need(), more):
            found.append(f"{name}: more than {bound.seconds!r} is shown")
        seen["bounds that are the optimum"] += bound.seconds >= best_s * (1 - 1e-9)
    return found
