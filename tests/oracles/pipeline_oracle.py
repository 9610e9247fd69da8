"""The length of a pipeline after docs/explanation/pipelines.md, and the best one by trying all.

Plain Python over the problem alone: no tables, no kernels, nothing of the search.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise


def oracle_length(problem, cuts, places) -> float:
    """Seconds of an iteration; infinite where a stage has no weights or does not fit."""
    row = problem.devices
    parts = list(pairwise([0, *cuts, problem.num_parts]))
    ranges = list(pairwise([0, *places, row.num_devices]))
    stages, batches = len(parts), problem.micro_batches
    forward, backward, reductions = [], [], []
    for number, ((i, j), (a, b)) in enumerate(zip(parts, ranges, strict=True)):
        speeds, servers = row.speed[a:b], list(row.server_of[a:b])
        weights = sum(problem.weight_bytes[i:j])
        in_flight = batches if problem.schedule == "gpipe" else min(stages - number, batches)
        in_flight = in_flight if problem.training else 1
        kept = sum(problem.kept_bytes[i:j])
        if problem.recompute:
            activations = in_flight * problem.cut_bytes[i] + kept
        else:
            activations = in_flight * kept
        beyond, width = 1.0, len(speeds) * problem.rows_over
        if problem.rows is not None:
            beyond = math.ceil(problem.rows / width) * width / problem.rows
        held = sum(problem.state_bytes[i:j]) + activations * beyond * max(speeds) / sum(speeds)
        if problem.rows is not None and width > problem.rows:
            return math.inf
        if weights <= 0 or held > row.memory_bytes * (1 + 1e-12):
            return math.inf
        rate = sum(speeds) / beyond
        forward.append(sum(problem.forward_s[i:j]) / rate)
        backward.append(sum(problem.backward_s[i:j]) / rate if problem.training else 0.0)
        count, each = len(set(servers)), max(servers.count(s) for s in servers)
        reduction = 0.0
        if problem.training:
            reduction = 2 * (each - 1) / each * weights / row.intra_bytes_per_s
            reduction += 2 * (count - 1) / count * weights / row.inter_bytes_per_s
            reduction += 2 * (each - 1) * row.intra_latency_s
            reduction += 2 * (count - 1) * row.inter_latency_s
        reductions.append(reduction)
    slots = []
    for k in range(stages):
        slots.append((forward[k], backward[k]))
        if k + 1 < stages:
            over = _transfer(problem, parts[k][1], ranges[k], ranges[k + 1])
            slots.append((over, over if problem.training else 0.0))
    if problem.schedule == "gpipe":
        longest = max(f for f, _ in slots) + max(b for _, b in slots)
    else:
        longest = max(f + b for f, b in slots)
    ending = max(
        reduction - sum(b for _, b in slots[: 2 * k]) for k, reduction in enumerate(reductions)
    )
    return sum(f + b for f, b in slots) + (batches - 1) * longest + ending


def _transfer(problem, cut, sender, receiver) -> float:
    row, size = problem.devices, problem.cut_bytes[cut]
    if len(set(row.server_of[sender[0] : receiver[1]])) == 1:
        width = min(sender[1] - sender[0], receiver[1] - receiver[0])
        return size / (row.intra_bytes_per_s * width) + row.intra_latency_s
    share = 0.0
    for a, b in (sender, receiver):
        whole = sum(row.speed[a:b])
        for server in set(row.server_of[a:b]):
            here = sum(row.speed[d] for d in range(a, b) if row.server_of[d] == server)
            share = max(share, here / whole)
    return size * share / row.inter_bytes_per_s + row.inter_latency_s


def oracle_best(problem) -> float:
    """Length of the best of all pipelines; infinite where none fits."""
    inner = problem.stages - 1
    return min(
        (
            oracle_length(problem, cuts, places)
            for cuts in combinations(range(1, problem.num_parts), inner)
            for places in combinations(range(1, problem.devices.num_devices), inner)
        ),
        default=math.inf,
    )
