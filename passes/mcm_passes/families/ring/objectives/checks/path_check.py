"""Bounds on latencies that need no search, in plain Python."""

from __future__ import annotations

import math

from mcm_compiler.contracts.partition import PartitionProblem


def path_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Whether some way from an input to a result takes that long, wherever its units are."""
    limits, fastest = problem.limits, max(problem.chip_speed.tolist(), default=1.0)
    made: list[list[int]] = [[] for _ in range(problem.num_units)]
    ready = [0.0] * problem.num_units
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        if maker >= 0:
            made[maker].append(t)
            continue
        for v in _readers(problem, t):
            ready[v] = max(ready[v], int(problem.tensor_bytes[t]) / limits.host_bytes_per_s)
    for u in range(problem.num_units):
        done_s = ready[u] + float(problem.compute_s[u]) / fastest
        leaving = [t for t in made[u] if problem.tensor_to_host[t] and not problem.clonable[u]]
        largest = max((int(problem.tensor_bytes[t]) for t in leaving), default=0)
        if done_s + largest / limits.host_bytes_per_s >= latency_s:
            return True
        for t in made[u]:
            for v in _readers(problem, t):
                ready[v] = max(ready[v], done_s)
    return False


def work_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Whether the chips that units can be on cannot do all work in less."""
    chips = min(problem.num_chips, problem.clonable.tolist().count(False))
    speed = math.fsum(problem.chip_speed.tolist()[:chips])
    return chips > 0 and math.fsum(problem.compute_s.tolist()) / speed >= latency_s


def _readers(problem: PartitionProblem, t: int) -> list[int]:
    return problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]].tolist()
