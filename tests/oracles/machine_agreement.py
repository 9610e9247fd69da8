"""Where the analytic model, the lowered program and a plain account of a ring's rules differ."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from mcm_compiler.checking.lowered_figures import answered_s, carried_bytes
from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.families.ring.objectives.ring_objectives import RingLatency
from mcm_passes.mapping.machine.evaluation import MachineModel, evaluate
from mcm_passes.mapping.solving.solve import solve
from tests.generators.ring_cases import RingCase, random_placement, ring_case
from tests.oracles.objective_equality import differences
from tests.oracles.plain_objectives import PlainPlacement, all_figures
from tests.oracles.shown_bounds import verify_bound

PLACEMENTS = 4
"""Placements of each problem that are lowered."""


def disagreements(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """What differs on the problem of a seed, in words; empty where nothing does.

    Args:
        seed: of the model, the package and the placements.
        seen: counts what was compared.
    """
    case, counts = ring_case(seed), Counter[str]() if seen is None else seen
    counts["problems"] += 1
    found = _of_placements(case, np.random.default_rng(seed), counts)
    known = all_figures(case.problem)
    least_s = min(one.period_s for one in known)
    rng, budget = np.random.default_rng(0), Budget()
    best = solve(case.problem, Ideals(), rng, budget, strategy_text="ideals")
    if not best.bound.seconds <= least_s * (1 + 1e-9) or best.period_s < least_s * (1 - 1e-9):
        found.append(f"period {best.period_s!r}, at least {best.bound.seconds!r}: {least_s!r}")
    if not verify_bound(case.problem, best.bound):
        found.append(f"the bound {best.bound} is not shown")
    limits = case.problem.limits
    exact = not (limits.at_ends or limits.host_total_bytes_per_s) and case.routing == "relay"
    found += differences(case.problem, exact=exact)
    counts["objectives"] += 1
    return found


def _of_placements(case: RingCase, rng: np.random.Generator, counts: Counter[str]) -> list[str]:
    """Bytes on channels, latency and period of some placements."""
    machine, problem = case.machine, case.problem
    found: list[str] = []
    for _ in range(PLACEMENTS):
        chips = random_placement(case, rng)
        if not case.road.is_valid(chips):
            continue
        counts["placements"] += 1
        counts["with host_io = ends"] += problem.limits.at_ends
        counts["with shared channels"] += bool(machine.shared_channels)
        counts["with delays that differ"] += len(set(problem.limits.latencies_s)) > 1
        program, placed = case.road.lowered(chips), np.array(chips, np.int32)
        carried = carried_bytes(program, machine).tolist()
        if MachineModel.of(problem).loads(placed, machine).crossed.tolist() != carried:
            found.append(f"{chips}: channels carry {carried}")
        latency_s, plain = RingLatency(problem)(placed), PlainPlacement(problem, chips).figures()
        for name, one, other in (
            ("lowered latency", latency_s, answered_s(program, machine, problem)),
            ("latency", latency_s, plain.latency_s),
            ("period", evaluate(problem, placed).period_s, plain.period_s),
        ):
            if other is None or not math.isclose(one, other, rel_tol=1e-12):
                found.append(f"{chips}: {name} {one!r}, not {other!r}")
    return found
