"""Bounds on latencies that need no search, in plain Python."""

from __future__ import annotations

import math

from mcm_compiler.contracts.partition import PartitionProblem


def path_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Whether some way from an input to a result takes that long, wherever its units are."""
    fastest = max(problem.chip_speed.tolist(), default=1.0)
    made: list[list[int]] = [[] for _ in range(problem.num_units)]
    ready = [0.0] * problem.num_units
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        if maker >= 0:
            made[maker].append(t)
            continue
        for v in _readers(problem, t):
            ready[v] = max(ready[v], _host_s(problem, t))
    for u in range(problem.num_units):
        done_s = ready[u] + float(problem.compute_s[u]) / fastest
        leaving = [t for t in made[u] if problem.tensor_to_host[t] and not problem.clonable[u]]
        if done_s + max((_host_s(problem, t) for t in leaving), default=0.0) >= latency_s:
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


def host_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Whether the channel that all chips share cannot carry all inputs, or all outputs, in less."""
    rate = problem.limits.host_total_bytes_per_s
    if rate <= 0.0:
        return False
    used = [not clonable for clonable in problem.clonable.tolist()]
    moved: tuple[list[int], list[int]] = ([], [])
    for t in range(len(problem.tensor_bytes) - 1, -1, -1):
        maker, size = int(problem.tensor_producer[t]), int(problem.tensor_bytes[t])
        # Readers come after makers, so that it is known whether a copy of one is ever made.
        read = any(used[v] for v in _readers(problem, t))
        if maker < 0:
            moved[0].extend([size] * read)
            continue
        if problem.tensor_to_host[t] and not problem.clonable[maker]:
            moved[1].append(size)
        used[maker] |= read
    limits = problem.limits
    return any(
        sum(sizes) / rate + min(sizes) / limits.host_bytes_per_s + limits.host_latency_s
        >= latency_s
        for sizes in moved
        if sizes
    )


def _host_s(problem: PartitionProblem, t: int) -> float:
    """Seconds of a tensor between the host and a chip."""
    limits, size = problem.limits, int(problem.tensor_bytes[t])
    shared_s = size / (limits.host_total_bytes_per_s or math.inf)
    return size / limits.host_bytes_per_s + limits.host_latency_s + shared_s


def _readers(problem: PartitionProblem, t: int) -> list[int]:
    return problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]].tolist()
