"""Pipelines without search: work in proportion to speed, and one pass of coordinate descent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_models.pipelines.kernels import Ints, length_s
from mcm_models.pipelines.problem import Floats
from mcm_models.pipelines.tables import PipelineTables


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


@inner_njit
def complete(t: PipelineTables, parts: Ints, places: Ints, stage: int, placed: bool) -> None:
    """Fills in the ends of the stages from `stage` on, balanced.

    Args:
        t: the tables.
        parts: `[S + 1]`, known up to `stage`; 0 and the number of parts at the ends.
        places: `[S + 1]`, likewise.
        stage: the first one whose end is not known.
        placed: whether the device cut behind it is known already.
    """
    stages = len(parts) - 1
    for k in range(stage, stages - 1):
        if k > stage or not placed:
            places[k + 1] = ideal_place(t.servers, places[k], stages - k)
        parts[k + 1] = ideal_part(t, parts[k], places[k], places[k + 1], stages - k)


@entry_njit
def balanced_pipeline(t: PipelineTables, stages: int) -> tuple[Ints, Ints]:
    """Cuts and device cuts with both ends, `[S + 1]` each."""
    parts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    parts[stages], places[stages] = len(t.forward) - 1, t.speed.shape[0] - 1
    complete(t, parts, places, 0, False)
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
