"""The pipeline whose fullest device holds least, over all cuts and device cuts.

A stage holds no less when it takes more parts, so that longer ones are not looked at once it holds
more than the best pipeline so far.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit
from mcm_models.pipelines.kernels import Ints, memory_bytes
from mcm_models.pipelines.problem import PipelineProblem
from mcm_models.pipelines.tables import PipelineTables, pipeline_tables


def least_memory(problem: PipelineProblem) -> float:
    """Bytes on the fullest device of the pipeline that needs least; infinite where none is valid.

    Takes O(parts^2 * devices^2) steps for about equal stages.
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
            for i in range(k, 1 if k == 0 else parts - left + 1):
                from_part = parts if left == 1 else max(i + 1, weighted[i])
                if weighted[i] > parts - left + 1:
                    continue
                for a in range(k, 1 if k == 0 else b):
                    for j in range(from_part, parts - left + 2):
                        rest = least[k + 1, j, b]
                        if rest >= least[k, i, a]:
                            continue
                        held = memory_bytes(t, i, j, a, b, left)
                        if held >= least[k, i, a]:
                            break
                        least[k, i, a] = max(held, rest)
                        next_part[k, i, a], next_device[k, i, a] = j, b
    cuts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    for k in range(stages):
        cuts[k + 1] = next_part[k, cuts[k], places[k]]
        places[k + 1] = next_device[k, cuts[k], places[k]]
    return cuts, places, least[0, 0, 0]
