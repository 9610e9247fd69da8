"""The pipeline whose fullest device holds least, over all cuts and device cuts.

What a stage holds never falls as it takes more parts. So of the cuts up to some cut the one with
the roomiest rest is as good as the best, and where the two meet is found by bisection.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_models.pipelines.kernels import Ints, memory_bytes
from mcm_models.pipelines.problem import Floats, PipelineProblem
from mcm_models.pipelines.tables import PipelineTables, pipeline_tables


class _Rests(NamedTuple):
    """What is left of pipelines behind a cut, for all cuts.

    Attributes:
        row: `[parts + 1]`, bytes of the fullest device behind each cut.
        tree: see `_minimum_tree`.
    """

    row: Floats
    tree: Ints


def least_memory(problem: PipelineProblem) -> float:
    """Bytes on the fullest device of the pipeline that needs least; infinite where none is valid.

    Takes O(stages * parts * devices^2 * log parts) steps.
    """
    stages, parts, devices = problem.stages, problem.num_parts, problem.devices.num_devices
    if stages > min(parts, devices):
        return math.inf
    return float(_roomiest(pipeline_tables(problem), stages, problem.allowed_places)[2])


def roomiest_pipeline(
    t: PipelineTables, stages: int, allowed: NDArray[np.bool_]
) -> tuple[Ints, Ints] | None:
    """Cuts and device cuts with both ends of a pipeline that fits; None where none does."""
    cuts, places, most = _roomiest(t, stages, allowed)
    return (cuts, places) if most <= t.memory else None


@entry_njit
def _roomiest(
    t: PipelineTables, stages: int, allowed: NDArray[np.bool_]
) -> tuple[Ints, Ints, float]:
    parts, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    # Bytes of the fullest device from stage k on, by its first part and device.
    least = np.full((stages + 1, parts + 1, devices + 1), np.inf)
    next_part = np.zeros((stages, parts + 1, devices + 1), np.int64)
    next_device = np.zeros((stages, parts + 1, devices + 1), np.int64)
    least[stages, parts, devices] = 0.0
    # The first part behind each cut at which a stage from there has weights.
    weighted = np.searchsorted(t.weights, t.weights, side="right")
    for k in range(stages - 1, -1, -1):
        left = stages - k
        for b in range(devices if left == 1 else k + 1, devices - left + 2):
            if left > 1 and not allowed[b]:
                continue
            row = least[k + 1, :, b]
            rests = _Rests(row, _minimum_tree(row))
            for i in range(k, 1 if k == 0 else parts - left + 1):
                from_part = parts if left == 1 else max(i + 1, weighted[i])
                to_part = parts - left + 1
                if from_part > to_part or weighted[i] > to_part:
                    continue
                for a in range(k, 1 if k == 0 else b):
                    j = _meeting(t, rests, i, a, b, left, from_part, to_part)
                    for end in (j - 1, j):
                        if end < from_part:
                            continue
                        best = _smallest(rests, from_part, end)
                        held = max(memory_bytes(t, i, best, a, b, left), row[best])
                        if held < least[k, i, a]:
                            least[k, i, a] = held
                            next_part[k, i, a], next_device[k, i, a] = best, b
    cuts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    for k in range(stages):
        cuts[k + 1] = next_part[k, cuts[k], places[k]]
        places[k + 1] = next_device[k, cuts[k], places[k]]
    return cuts, places, least[0, 0, 0]


@inner_njit
def _meeting(
    t: PipelineTables,
    rests: _Rests,
    i: int,
    a: int,
    b: int,
    left: int,
    from_part: int,
    to_part: int,
) -> int:
    """The first end at which the stage holds as much as the roomiest rest, or the last."""
    low, high = from_part, to_part
    while low < high:
        middle = (low + high) // 2
        rest = rests.row[_smallest(rests, from_part, middle)]
        if memory_bytes(t, i, middle, a, b, left) >= rest:
            high = middle
        else:
            low = middle + 1
    return low


@inner_njit
def _minimum_tree(row: Floats) -> Ints:
    """A segment tree of where `row` is least, in 2 n entries."""
    size = len(row)
    tree = np.empty(2 * size, np.int64)
    tree[size:] = np.arange(size)
    for node in range(size - 1, 0, -1):
        first, second = tree[2 * node], tree[2 * node + 1]
        tree[node] = first if row[first] <= row[second] else second
    return tree


@inner_njit
def _smallest(rests: _Rests, first: int, last: int) -> int:
    """Where `row` is least from `first` to `last`."""
    row, tree = rests.row, rests.tree
    size = len(row)
    low, high, best = first + size, last + size + 1, first
    while low < high:
        if low & 1:
            if row[tree[low]] < row[best]:
                best = tree[low]
            low += 1
        if high & 1:
            high -= 1
            if row[tree[high]] < row[best]:
                best = tree[high]
        low //= 2
        high //= 2
    return best
