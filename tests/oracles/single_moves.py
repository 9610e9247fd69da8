"""All moves of single units that make a placement on a ring faster, by trying every one of them.

The rules stand here once more, for rings under relay routing with memory for everything; loads are
those of the plain evaluator of the demand table.
"""

from __future__ import annotations

import math

import numpy as np

from mcm_passes.mapping.loads.demand_table import Resource, demand_table
from tests.oracles.reference_loads import reference_loads


def plain_period(problem, chip_of) -> float:
    """Seconds between inferences of one pipeline; infinite where a rule is broken."""
    chips = [int(c) for c in chip_of]
    fixed = [u for u in range(len(chips)) if not problem.clonable[u]]
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        if maker < 0 or problem.clonable[maker]:
            continue
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        # A copied reader has no place of its own; it reads nothing that another chip makes.
        if any(chips[u] < chips[maker] for u in readers.tolist() if not problem.clonable[u]):
            return math.inf
    used = {chips[u] for u in fixed}
    if used != set(range(len(used))):
        return math.inf
    limits = problem.limits
    loads = reference_loads(problem, demand_table(problem), chip_of)
    speeds = limits.chip_speed or (1.0,) * limits.num_chips
    times = [b / s for b, s in zip(loads[Resource.BUSY].tolist(), speeds, strict=True)]
    times += [b / limits.link_bytes_per_s for b in loads[Resource.LINK].tolist()]
    for resource in (Resource.HOST_IN, Resource.HOST_OUT):
        times += [b / limits.host_bytes_per_s for b in loads[resource].tolist()]
        if limits.host_total_bytes_per_s:
            times.append(math.fsum(loads[resource].tolist()) / limits.host_total_bytes_per_s)
    return max(times)


def faster_moves(problem, chip_of) -> dict[tuple[int, int], float]:
    """The period with a unit moved, by unit and chip, of all moves that are faster than none."""
    now_s = plain_period(problem, chip_of)
    found: dict[tuple[int, int], float] = {}
    for unit in np.flatnonzero(~problem.clonable).tolist():
        for chip in range(problem.num_chips):
            changed = np.array(chip_of)
            changed[unit] = chip
            period_s = plain_period(problem, changed)
            if period_s < now_s * (1.0 - 1e-6):
                found[unit, chip] = period_s
    return found
