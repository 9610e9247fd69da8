"""When one sample is answered, by rounds of waiting instead of events."""

from __future__ import annotations

from mcm_compiler.contracts.placement import PlacementProblem


def plain_latency(problem: PlacementProblem, place: list[int]) -> float:
    """With a core for each operator; infinite where something waits for itself.

    `place` is 0 to K - 1 for accelerators and K for a CPU.
    """
    n, k = problem.num_operators, problem.max_accelerators
    edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
    finish = [0.0] * n
    for _ in range(n + 2):
        before = list(finish)
        for v in range(n):
            if place[v] == k:
                waits = [before[u] for u, w in edges if w == v]
                finish[v] = max(waits, default=0.0) + problem.cpu_time[v]
                continue
            part = {w for w in range(n) if place[w] == place[v]}
            incoming = {u for u, w in edges if w in part and u not in part}
            outgoing = {u for u, w in edges if u in part and w not in part}
            finish[v] = (
                max((before[u] for u in incoming), default=0.0)
                + sum(problem.transfer_time[u] for u in incoming | outgoing)
                + sum(problem.accelerator_time[w] for w in part)
            )
        if finish == before:
            return max(finish)
    return float("inf")
