"""A place for operators that cost nothing wherever they are."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement.device_groups import DeviceGroups


def with_free(
    problem: PlacementProblem, groups: DeviceGroups, device_of: Ints, step_of: Ints
) -> Ints:
    """Devices of all operators: free ones where they are read first, or else on the first device.

    Args:
        problem: the problem.
        groups: its groups.
        device_of: `[G]`.
        step_of: `[G]`, place of each group's device along the flow of data.

    Returns:
        `[N]`.
    """
    placed = np.where(groups.group_of >= 0, device_of[groups.group_of], -1).astype(np.int32)
    step = np.where(groups.group_of >= 0, step_of[groups.group_of], -1)
    if not groups.free:
        return placed
    readers: dict[int, list[int]] = {v: [] for v in groups.free}
    edges = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)
    for u, v in edges:
        if u in readers:
            readers[u].append(v)
    start = int(step_of.argmin())
    # Readers come before what they read in `free`.
    for v in groups.free:
        first = min(readers[v], key=lambda r: int(step[r]), default=None)
        placed[v] = device_of[start] if first is None else placed[first]
        step[v] = step_of[start] if first is None else step[first]
    return placed
