"""Checking bounds without trusting whoever claims them.

Each kind of argument is recomputed from the problem in plain Python, by other code than the one
that finds bounds; a bound holds if the argument rules out every period below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mcm_compiler.partition import LowerBound, PartitionProblem
from mcm_compiler.ring_rules import dependency_edges
from mcm_passes.exact.ideal_check import IdealCheck
from mcm_passes.partitioning.fast_model import aligned

MARGIN = 1e-8
"""Relative room between a claim and what is checked, for sums taken in another order."""

MOST_WINDOWS = 2_000_000
"""Windows that a check over order ideals may weigh."""


def verify_bound(problem: PartitionProblem, bound: LowerBound) -> bool:
    """Whether `bound` is shown to hold, by an argument that is carried out here again.

    The kind of argument is `bound.proof`. A bound of CP-SAT comes without a proof that could be
    followed; it is shown to hold if a simpler argument or the order ideals of the graph, where
    these are few, rule out every shorter period. False means "not shown", not "wrong".

    Args:
        problem: what was placed.
        bound: the claim; only its seconds and the name of its proof are looked at.
    """
    if bound.seconds <= 0.0:
        return True
    period_s = bound.seconds * (1.0 - MARGIN)
    checks = [_CHECKS[bound.proof]] if bound.proof in _CHECKS else list(_CHECKS.values())
    return any(check(problem, period_s) for check in checks)


def _heaviest_unit(problem: PartitionProblem, period_s: float) -> bool:
    return max(problem.compute_s.tolist(), default=0.0) / max(problem.chip_speed) >= period_s


def _total_work(problem: PartitionProblem, period_s: float) -> bool:
    chips = min(problem.num_chips, problem.clonable.tolist().count(False))
    speed = math.fsum(problem.chip_speed[:chips])
    return math.fsum(problem.compute_s) >= period_s * speed > 0.0


def _host_transfers(problem: PartitionProblem, period_s: float) -> bool:
    """The largest tensor alone, or the sum over all channels."""
    limits = problem.limits
    fixed = problem.clonable.tolist().count(False)
    channels = 1 if limits.host_io == "ends" else min(problem.num_chips, fixed)
    room = period_s * limits.host_bytes_per_s
    read = np.diff(problem.tensor_ptr) > 0
    made = problem.tensor_producer >= 0
    for wanted in (~made & read, made & problem.tensor_to_host):
        sizes = problem.tensor_bytes[wanted].tolist()
        # Whole bytes: what is sent over several channels is counted as the search counts it.
        if sizes and fixed and (max(sizes) >= room or sum(sizes) >= math.floor(room) * channels):
            return True
    return False


def _streamed_weights(problem: PartitionProblem, period_s: float) -> bool:
    limits = problem.limits
    beyond = sum(problem.weight_bytes.tolist()) - sum(limits.sram_bytes)
    rate = problem.num_chips * limits.stream_bytes_per_s
    return problem.streams and beyond >= period_s * rate


def _large_tensors(problem: PartitionProblem, period_s: float) -> bool:
    """Units tied together by tensors that no link carries in time."""
    group = list(range(problem.num_units))

    def root(u: int) -> int:
        while group[u] != u:
            group[u] = group[group[u]]
            u = group[u]
        return u

    for t, u in enumerate(problem.tensor_producer.tolist()):
        too_large = problem.tensor_bytes[t] >= period_s * problem.limits.link_bytes_per_s
        if u < 0 or problem.clonable[u] or not too_large:
            continue
        for v in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]:
            group[root(int(v))] = root(u)
    work = [0.0] * problem.num_units
    for u in range(problem.num_units):
        if not problem.clonable[u]:
            work[root(u)] += float(problem.compute_s[u])
    return max(work, default=0.0) / max(problem.chip_speed) >= period_s


def _around_units(problem: PartitionProblem, period_s: float) -> bool:
    """Chips filled from both ends, by sand, along paths and past waists."""
    above, below, edges = _closures(problem)
    fixed = np.flatnonzero(~problem.clonable).tolist()
    if not fixed:
        return False
    work = problem.compute_s.tolist()
    room = [0.0] * problem.num_units
    for w, size in enumerate(aligned(problem.weight_bytes).tolist()):
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]].tolist()
        if len(users) == 1 and not problem.streams:
            room[users[0]] += size
    chips = problem.num_chips
    seconds = (problem.chip_speed * period_s).tolist()
    sram = [float(size) for size in problem.limits.sram_bytes]
    pins = problem.pinned_chip.tolist()
    backward = [-1 if pin < 0 else chips - 1 - pin for pin in pins]
    turned = [(v, u) for u, v in edges]
    low, high = dict.fromkeys(fixed, 0), dict.fromkeys(fixed, 0)
    for own, capacity in ((work, seconds), (room, sram)):
        forward = _fill(fixed, edges, above, own, capacity, pins)
        from_end = _fill(fixed[::-1], turned, below, own, capacity[::-1], backward)
        low = {v: max(low[v], forward[v]) for v in fixed}
        high = {v: max(high[v], from_end[v]) for v in fixed}
    return any(low[v] > chips - 1 - high[v] for v in fixed)


def _fill(
    order: list[int],
    edges: list[tuple[int, int]],
    before: list[set[int]],
    own: list[float],
    capacity: list[float],
    pins: list[int],
) -> dict[int, int]:
    """The first chip that each unit can be on; the number of chips where there is none."""
    leads: dict[int, list[int]] = {v: [] for v in order}
    for u, v in edges:
        leads[v].append(u)
    state: dict[int, tuple[int, float]] = {}
    place = {v: i for i, v in enumerate(order)}
    for v in order:
        total = math.fsum(own[u] for u in before[v])
        best = max([_pour((0, 0.0), total, capacity), *(state[u] for u in leads[v])])
        # The nearest unit that all other ancestors come before or after.
        earlier = sorted(before[v], key=place.__getitem__, reverse=True)
        for i, u in enumerate(earlier):
            if len(before[u]) == len(earlier) - 1 - i and all(u in before[w] for w in earlier[:i]):
                between = math.fsum(own[w] for w in earlier[:i])
                best = max(best, _pour(state[u], between, capacity))
                break
        chip, load = max(best, (pins[v], 0.0))
        while chip < len(capacity) and load + own[v] >= capacity[chip] * (1.0 + 1e-12):
            chip, load = chip + 1, 0.0
        state[v] = (chip, load + own[v])
    return {v: chip for v, (chip, _) in state.items()}


def _pour(start: tuple[int, float], amount: float, capacity: list[float]) -> tuple[int, float]:
    chip, load = start[0], start[1] + amount
    while chip < len(capacity) and load > capacity[chip]:
        load -= capacity[chip]
        chip += 1
    return chip, load


def _closures(
    problem: PartitionProblem,
) -> tuple[list[set[int]], list[set[int]], list[tuple[int, int]]]:
    source, target = dependency_edges(problem)
    edges = sorted(set(zip(source.tolist(), target.tolist(), strict=True)), key=lambda e: e[::-1])
    above: list[set[int]] = [set() for _ in range(problem.num_units)]
    below: list[set[int]] = [set() for _ in range(problem.num_units)]
    for u, v in edges:
        above[v] |= above[u] | {u}
    for v in range(problem.num_units):
        for u in above[v]:
            below[u].add(v)
    return above, below, edges


def _ideals(problem: PartitionProblem, period_s: float) -> bool:
    return IdealCheck(problem, MOST_WINDOWS).none_below(period_s) is True


_CHECKS: dict[str, Callable[[PartitionProblem, float], bool]] = {
    "heaviest_unit": _heaviest_unit,
    "total_work": _total_work,
    "host_transfers": _host_transfers,
    "streamed_weights": _streamed_weights,
    "tensors_too_large_to_cross": _large_tensors,
    "work_around_a_unit": _around_units,
    "chain_of_units": _around_units,
    "flow": _around_units,
    "ideals": _ideals,
}
