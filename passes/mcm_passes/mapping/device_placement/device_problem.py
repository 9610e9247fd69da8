"""A placement problem as the arrays that partition strategies work on."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.contracts.target import PackageLimits
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


BUFFERS = 8
"""Buffers that a tensor may take on one chip: two at each end of a channel, and some to compute."""

MOST_LINK_STEPS = 1 << 30
"""Bytes that stand for the longest transfer, at most."""

SPARE_SHARE = 1e-3
"""Memory that the tensors may take which stand for transfers, as a share of a device's."""

LEAST_MEMORY, MOST_MEMORY = 2.0**52, 2.0**60
"""Between these the memory of a device is that of the file; else all bytes are scaled."""


def partition_problem(
    problem: PlacementProblem, groups: DeviceGroups, rule: Rule
) -> PartitionProblem:
    """Groups as units, accelerators as chips of a ring, times of the file as seconds.

    A link takes an output's transfer time, in whole bytes and never more, so that a bound of these
    arrays is one of the problem; the host costs nothing. Those bytes are next to nothing compared
    with the memory of the file, which counts operators alone, as do the chips here.

    Args:
        problem: the problem, for which CPUs are not looked at.
        groups: its groups.
        rule: the routing; `none` becomes `relay`, which allows the same partitions.
    """
    largest = max(problem.memory_bytes, float(groups.size_bytes.sum()), 1.0)
    scale = max(1.0, LEAST_MEMORY / max(problem.memory_bytes, 1.0))
    scale = min(scale, MOST_MEMORY / largest)
    memory = problem.memory_bytes * scale
    count = groups.producer.size + groups.count
    steps = min(MOST_LINK_STEPS, max(64, int(SPARE_SHARE * memory / (BUFFERS * count))))
    longest = float(groups.transfer_time.max(initial=0.0))
    rate = steps / longest if longest > 0.0 else 1.0
    tensor_bytes = np.floor(groups.transfer_time * rate).astype(np.int64)
    names = _group_names(problem, groups)
    weight = np.flatnonzero(groups.size_bytes > 0.0)
    weight_bytes = np.ceil(groups.size_bytes[weight] * scale).astype(np.int64)
    # What alignment and the channels of all tensors take, so that memory is the file's.
    alignment = PackageLimits.buffer_alignment_bytes
    spare = alignment * groups.count + BUFFERS * int((tensor_bytes + alignment).sum())
    chips = problem.max_accelerators
    return PartitionProblem(
        names=names,
        members=tuple((name,) for name in names),
        compute_s=groups.accelerator_time.copy(),
        clonable=np.zeros(groups.count, np.bool_),
        pinned_chip=np.full(groups.count, -1, np.int32),
        tensor_names=tuple(names[g] for g in groups.producer.tolist()),
        tensor_bytes=tensor_bytes,
        tensor_producer=groups.producer.copy(),
        tensor_ptr=np.cumsum([0, *(len(r) for r in groups.readers)]).astype(np.int64),
        tensor_consumers=np.array([g for r in groups.readers for g in r], np.int32),
        tensor_to_host=np.zeros(groups.producer.size, np.bool_),
        relay_s=np.zeros(groups.producer.size),
        weight_names=tuple(names[g] for g in weight.tolist()),
        weight_bytes=weight_bytes,
        weight_ptr=np.arange(weight.size + 1, dtype=np.int64),
        weight_users=weight.astype(np.int32),
        limits=PackageLimits(
            num_chips=chips,
            sram_bytes=(int(memory) + spare,) * chips,
            link_bytes_per_s=rate,
            hop_latency_s=0.0,
            host_io="any",
            host_bytes_per_s=float("inf"),
        ),
        routing="strict" if rule == "strict" else "relay",
    )


def _group_names(problem: PlacementProblem, groups: DeviceGroups) -> tuple[str, ...]:
    """Name of the first operator of each group in the file."""
    first = np.full(groups.count, problem.num_operators)
    kept = np.flatnonzero(groups.group_of >= 0)
    np.minimum.at(first, groups.group_of[kept], kept)
    return tuple(problem.names[v] for v in first.tolist())
