"""The length of a pipeline's iteration, one pipeline at a time, compiled: searches call it.

With forward time F_s and backward time B_s of a micro-batch on stage s, where the transfer between
two stages counts as a stage of its own, and M micro-batches:

    fill, steady state and drain
        1F1B   sum_s (F_s + B_s) + (M - 1) max_s (F_s + B_s)
        GPipe  sum_s (F_s + B_s) + (M - 1) (max_s F_s + max_s B_s)
    reduction of gradients
        max_s (R_s - sum_{t < s} B_t)

The first is the length of M jobs through stages in a row (Huang et al. 2019, *GPipe*, section 2.3;
Fan et al. 2021, *DAPPLE*, section III). The reduction of a stage starts when its last backward
pass is done, which is earlier the later the stage, by the backward passes that are still to come
(DAPPLE's ending phase). Transfers do not slow reductions down, and no launch grows with the number
of devices.

Pipelines without search are balanced: work in proportion to speed, and one pass of coordinate
descent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit, inner_njit
from mcm_models.pipelines.problem import Floats, PipelineTables

Ints = NDArray[np.int64]


@expanded_njit
def forward_s(t: PipelineTables, i: int, j: int, a: int, b: int) -> float:
    """Seconds of a micro-batch forward through parts i to j - 1 on devices a to b - 1."""
    return (t.forward[j] - t.forward[i]) / t.speed[a, b]


@expanded_njit
def backward_s(t: PipelineTables, i: int, j: int, a: int, b: int) -> float:
    """Seconds backward."""
    return (t.backward[j] - t.backward[i]) / t.speed[a, b]


@expanded_njit
def reduction_s(t: PipelineTables, i: int, j: int, a: int, b: int) -> float:
    """Seconds of the reduction of gradients."""
    weights = t.weights[j] - t.weights[i]
    return weights * t.reduce[a, b] + t.reduce_start[a, b] if weights > 0.0 else 0.0


@entry_njit
def transfer_s(t: PipelineTables, j: int, a: int, b: int, c: int) -> float:
    """Seconds of a micro-batch over cut j, from devices a to b - 1 to devices b to c - 1.

    See `length.transfer_share`.
    """
    if t.servers[a, c] == 1.0:
        return t.cut[j] * t.network.intra / min(b - a, c - b) + t.network.intra_latency
    share = max(t.busiest[a, b], t.busiest[b, c])
    return t.cut[j] * t.network.inter * share + t.network.inter_latency


@expanded_njit
def memory_bytes(t: PipelineTables, i: int, j: int, a: int, b: int, stages_left: int) -> float:
    """Bytes on the fullest device of a stage.

    Args:
        t: the tables.
        i: its first part.
        j: part behind its last.
        a: its first device.
        b: device behind its last.
        stages_left: stages from this one to the last.
    """
    in_flight = t.micro_batches if t.gpipe > 0.0 else min(float(stages_left), t.micro_batches)
    if t.both_ways == 0.0:
        in_flight = 1.0
    kept = t.kept[j] - t.kept[i]
    activations = in_flight * t.cut[i] + kept if t.recompute > 0.0 else in_flight * kept
    return t.state[j] - t.state[i] + activations * t.share[a, b]


@expanded_njit
def fits(t: PipelineTables, i: int, j: int, a: int, b: int, stages_left: int) -> bool:
    """Return whether a stage has weights and fits memory; arguments as those of `memory_bytes`."""
    if t.weights[j] - t.weights[i] <= 0.0:
        return False
    return memory_bytes(t, i, j, a, b, stages_left) <= t.memory


@entry_njit
def length_s(t: PipelineTables, parts: Ints, places: Ints) -> float:
    """Seconds of one iteration; infinite if a stage is empty, has no weights or does not fit.

    Args:
        t: the tables.
        parts: `[S + 1]`, 0, the cuts, and the number of parts.
        places: `[S + 1]`, 0, the device cuts, and the number of devices.
    """
    stages = len(parts) - 1
    for k in range(stages):
        i, j, a, b = parts[k], parts[k + 1], places[k], places[k + 1]
        if i >= j or a >= b or not fits(t, i, j, a, b, stages - k):
            return np.inf
    return unchecked_length_s(t, parts, places)


@entry_njit
def unchecked_length_s(t: PipelineTables, parts: Ints, places: Ints) -> float:
    """As `length_s`, of stages that are not empty, whether or not they fit."""
    stages = len(parts) - 1
    total, drained, ending = 0.0, 0.0, 0.0
    most, most_forward, most_backward = 0.0, 0.0, 0.0
    for k in range(stages):
        i, j, a, b = parts[k], parts[k + 1], places[k], places[k + 1]
        ahead, back = forward_s(t, i, j, a, b), backward_s(t, i, j, a, b)
        ending = max(ending, reduction_s(t, i, j, a, b) - drained)
        total += ahead + back
        drained += back
        most = max(most, ahead + back)
        most_forward, most_backward = max(most_forward, ahead), max(most_backward, back)
        if k + 1 < stages:
            ahead = transfer_s(t, j, a, b, places[k + 2])
            back = ahead * t.both_ways
            total += ahead + back
            drained += back
            most = max(most, ahead + back)
            most_forward, most_backward = max(most_forward, ahead), max(most_backward, back)
    if t.gpipe > 0.0:
        most = most_forward + most_backward
    return total + (t.micro_batches - 1.0) * most + ending


@inner_njit
def ideal_place(servers: Floats, a: int, left: int) -> int:
    """Where a stage that begins at device a would end: even shares, moved to the start of a server.

    Args:
        servers: `[D + 1, D + 1]`, of the tables.
        a: its first device.
        left: stages from this one to the last, at least 2.
    """
    devices = servers.shape[0] - 1
    even = (devices - a) / left
    nearest, distance = 0, np.inf
    for b in range(a + 1, devices - left + 2):
        if servers[b - 1, b + 1] == 2.0 and abs(b - a - even) < distance:
            nearest, distance = b, abs(b - a - even)
    if distance <= 0.5 * even:
        return nearest
    return min(max(a + int(np.rint(even)), a + 1), devices - left + 1)


@entry_njit
def ideal_part(t: PipelineTables, i: int, a: int, b: int, left: int) -> int:
    """Where a stage that begins at part i would end on devices a to b - 1: its share of the work.

    Args:
        t: the tables.
        i: its first part.
        a: its first device.
        b: device behind its last.
        left: stages from this one to the last, at least 2.
    """
    parts, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    done = t.forward[i] + t.backward[i]
    rest = t.forward[parts] + t.backward[parts] - done
    goal = done + rest * t.speed[a, b] / t.speed[a, devices]
    low, high = i + 1, parts - left + 1
    while low < high:
        middle = (low + high) // 2
        if t.forward[middle] + t.backward[middle] < goal:
            low = middle + 1
        else:
            high = middle
    before = goal - t.forward[low - 1] - t.backward[low - 1]
    if low - 1 > i and before < t.forward[low] + t.backward[low] - goal:
        return low - 1
    return low


@entry_njit
def balanced_pipeline(t: PipelineTables, stages: int) -> tuple[Ints, Ints]:
    """Cuts and device cuts with both ends, `[S + 1]` each."""
    parts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    parts[stages], places[stages] = len(t.forward) - 1, t.speed.shape[0] - 1
    for k in range(stages - 1):
        left = stages - k
        places[k + 1] = ideal_place(t.servers, places[k], left)
        parts[k + 1] = ideal_part(t, parts[k], places[k], places[k + 1], left)
    return parts, places


@entry_njit
def descend(
    t: PipelineTables, parts: Ints, places: Ints, allowed: NDArray[np.bool_] | None = None
) -> float:
    """One pass of coordinate descent in place; the length that is reached.

    Every device cut and every cut in turn, from the first to the last, moves to where the
    iteration is shortest while the others stay.

    Args:
        t: the tables.
        parts: `[S + 1]` with both ends.
        places: `[S + 1]` with both ends.
        allowed: `[D + 1]`, where device cuts may move to; None for all.
    """
    best = length_s(t, parts, places)
    for k in range(1, len(parts) - 1):
        for part in range(2):
            row = parts if part else places
            kept = row[k]
            for value in range(row[k - 1] + 1, row[k + 1]):
                if allowed is not None and part == 0 and not allowed[value]:
                    continue
                row[k] = value
                length = length_s(t, parts, places)
                if length < best:
                    best, kept = length, value
            row[k] = kept
    return best
