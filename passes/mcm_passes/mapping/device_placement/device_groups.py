"""Operators that share a device in some best placement, as single nodes for the search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.dags import following_lists, strong_components, topological
from mcm_compiler.contracts.partition import Bools, Floats, Ints, PartitionProblem
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import bytes_text
from mcm_passes.mapping.device_placement.device_loads import (
    MEMORY_SLACK,
    clonable_operators,
    totals,
)
from mcm_passes.mapping.device_placement.training_order import order_edges

Pairs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DeviceGroups:
    """G groups in a topological order.

    Attributes:
        group_of: `[N]`, group of each operator; -1 for those that cost nothing wherever they are.
        accelerator_time: `[G]`, infinite where an accelerator cannot run the group.
        cpu_time: `[G]`.
        size_bytes: `[G]`.
        edges: `[E, 2]`, the order of groups, distinct.
        producer: `[T]`, group of each output that another group reads.
        transfer_time: `[T]`.
        readers: `[T]`, other groups that read it.
        free: operators without a group, each behind all operators that read it.
    """

    group_of: Ints
    accelerator_time: Floats
    cpu_time: Floats
    size_bytes: Floats
    edges: Pairs
    producer: Ints
    transfer_time: Floats
    readers: tuple[tuple[int, ...], ...]
    free: tuple[int, ...]

    @property
    def count(self) -> int:
        """G."""
        return int(self.size_bytes.size)


def device_groups(problem: PlacementProblem) -> DeviceGroups:
    """Joins what has to share a device or loses nothing by it, and leaves out what is free.

    Has to: operators of one color, and what is on cycles between colors. Loses nothing: a group
    that takes no time on any device, no memory that could be missing, and exchanges data with one
    other group only. Free is what each device may have for nothing (`clonable_operators`).
    """
    group_of = problem.color.astype(np.int64)
    source, target = order_edges(problem)
    while True:
        group_of = components(group_of, source, target)
        joined = _join_idle(problem, group_of)
        if joined is None:
            break
        group_of = joined
    group_of = in_order(group_of, source, target)
    dear = np.bincount(group_of, ~clonable_operators(problem), int(group_of.max()) + 1) > 0
    free = ~dear & dear.any()
    left_out = _readers_first(problem, free[group_of])
    number = np.where(free, -1, np.cumsum(~free) - 1)
    group_of = number[group_of]
    kept = group_of >= 0
    size = int(group_of.max()) + 1
    time = np.where(problem.on_accelerator, problem.accelerator_time, np.inf)
    edges = _distinct(group_of[source], group_of[target])
    producer, transfer, readers = _outputs(problem, group_of)
    return DeviceGroups(
        group_of=group_of.astype(np.int32),
        accelerator_time=totals(time[kept], group_of[kept], size),
        cpu_time=totals(problem.cpu_time[kept], group_of[kept], size),
        size_bytes=totals(problem.size_bytes[kept], group_of[kept], size),
        edges=edges[(edges >= 0).all(axis=1)],
        producer=np.array(producer, np.int32),
        transfer_time=np.array(transfer, np.float64),
        readers=tuple(readers),
        free=left_out,
    )


def _idle(problem: PlacementProblem, group_of: Pairs, size: int) -> Bools:
    """`[size]`, groups that take no time on any device and no memory that could be missing."""
    cost = problem.accelerator_time + problem.cpu_time
    if problem.size_bytes.sum() > problem.memory_bytes:
        cost = cost + problem.size_bytes
    barred = np.bincount(group_of, ~problem.on_accelerator, size)
    return (np.bincount(group_of, cost, size) == 0.0) & (barred == 0)


def _distinct(source: Pairs, target: Pairs) -> Pairs:
    keep = source != target
    return np.unique(np.stack([source[keep], target[keep]], axis=1), axis=0)


def _following(group_of: Pairs, source: Ints, target: Ints) -> list[list[int]]:
    pairs = _distinct(group_of[source], group_of[target])
    return following_lists(int(group_of.max()) + 1, pairs.tolist())


def components(group_of: Pairs, source: Ints, target: Ints) -> Pairs:
    """Strongly connected components of the groups, renumbered."""
    return np.array(strong_components(_following(group_of, source, target)))[group_of]


def _join_idle(problem: PlacementProblem, group_of: Pairs) -> Pairs | None:
    """Groups without time and memory, and with one neighbour, joined to it; None if there is none.

    Its order edges lead to that neighbour as well, so joining makes no cycle.
    """
    size = int(group_of.max()) + 1
    idle = _idle(problem, group_of, size)
    near: list[set[int]] = [set() for _ in range(size)]
    pairs = _distinct(group_of[problem.edge_source], group_of[problem.edge_target])
    for a, b in pairs.tolist():
        near[a].add(b)
        near[b].add(a)
    into = np.arange(size)
    for g in np.flatnonzero(idle).tolist():
        # Two that are each other's only neighbour: the second joins nothing.
        if len(near[g]) == 1 and into[next(iter(near[g]))] != g:
            into[g] = next(iter(near[g]))
    if (into == np.arange(size)).all():
        return None
    while (into[into] != into).any():
        into = into[into]
    return np.unique(into, return_inverse=True)[1][group_of].astype(np.int64)


def in_order(group_of: Pairs, source: Ints, target: Ints) -> Pairs:
    """Groups numbered in a topological order: among those that are ready the first in the file."""
    first = np.full(int(group_of.max()) + 1, group_of.size)
    np.minimum.at(first, group_of, np.arange(group_of.size))
    place = np.empty_like(first)
    order = topological(_following(group_of, source, target), first.tolist())
    place[order] = np.arange(first.size)
    return place[group_of]


def _readers_first(problem: PlacementProblem, chosen: Bools) -> tuple[int, ...]:
    """The chosen operators, each behind all chosen ones that read it."""
    inside = chosen[problem.edge_source] & chosen[problem.edge_target]
    edges = zip(
        problem.edge_target[inside].tolist(), problem.edge_source[inside].tolist(), strict=True
    )
    order = topological(following_lists(problem.num_operators, edges))
    return tuple(v for v in order if chosen[v])


def _outputs(
    problem: PlacementProblem, group_of: Pairs
) -> tuple[list[int], list[float], list[tuple[int, ...]]]:
    """Producers, transfer times and readers of outputs that cost and that others read.

    Outputs of one group that the same groups read travel together.
    """
    readers: list[set[int]] = [set() for _ in range(problem.num_operators)]
    for u, v in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        if group_of[u] != group_of[v] and min(group_of[u], group_of[v]) >= 0:
            readers[u].add(int(group_of[v]))
    together: dict[tuple[int, tuple[int, ...]], float] = {}
    for u, reading in enumerate(readers):
        if reading:
            key = int(group_of[u]), tuple(sorted(reading))
            together[key] = together.get(key, 0.0) + float(problem.transfer_time[u])
    return ([key[0] for key in together], list(together.values()), [key[1] for key in together])


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


def answerable_groups(problem: PlacementProblem, rule: Rule) -> DeviceGroups:
    """The groups of a problem that a placement may exist for, as far as that shows.

    Raises:
        CompileError: MCM-F005 for CPUs or a backward pass on a ring, MCM-F006 for no device, and as
            `refuse_impossible`.
    """
    at = problem.source
    if rule != "none" and problem.max_cpus:
        message = f"the problem has {problem.max_cpus} CPUs, and the rules of the ring have none"
        hint = "give --max-cpus 0, or --rule none"
        raise CompileError.of("MCM-F005", message, at=at, hint=hint)
    if rule != "none" and problem.backward.any():
        message = (
            f"{int(problem.backward.sum())} of the nodes belong to a backward pass, whose data "
            "flows against the ring"
        )
        raise CompileError.of("MCM-F005", message, at=at, hint="give --rule none")
    CompileError.raise_any(no_device(problem))
    groups = device_groups(problem)
    refuse_impossible(problem, groups)
    return groups


def no_device(problem: PlacementProblem) -> list[Diagnostic]:
    """MCM-F006 for a problem without devices."""
    if problem.max_accelerators + problem.max_cpus:
        return []
    message = "there is no device: maxFPGAs and maxCPUs are 0"
    hint = "give --max-accelerators or --max-cpus"
    return [Diagnostic("MCM-F006", message, at=problem.source, hint=hint)]


def refuse_impossible(problem: PlacementProblem, groups: DeviceGroups) -> None:
    """Refuses problems of which no placement keeps the memory or the kinds of devices.

    Raises:
        CompileError: MCM-F006, one diagnostic per reason.
    """
    if problem.max_cpus:
        return
    at, room = problem.source, problem.memory_bytes * (1.0 + MEMORY_SLACK)
    faults: list[Diagnostic] = []
    for g in np.flatnonzero(~np.isfinite(groups.accelerator_time))[:5].tolist():
        message = f"{_named(problem, groups, g)} runs on no accelerator, and there is no CPU"
        faults.append(Diagnostic("MCM-F006", message, at=at, hint="give --max-cpus 1"))
    for g in np.flatnonzero(groups.size_bytes > room)[:5].tolist():
        message = (
            f"{_named(problem, groups, g)} needs {bytes_text(int(groups.size_bytes[g]))} on one "
            f"device, and an accelerator has {bytes_text(int(problem.memory_bytes))}"
        )
        faults.append(Diagnostic("MCM-F006", message, at=at, hint="give --max-cpus 1"))
    total, have = float(groups.size_bytes.sum()), room * problem.max_accelerators
    if not faults and total > have:
        message = (
            f"all nodes need {bytes_text(int(total))}, and {problem.max_accelerators} accelerators "
            f"have {bytes_text(int(have))}"
        )
        hint = "give more devices (--max-accelerators, --max-cpus)"
        faults.append(Diagnostic("MCM-F006", message, at=at, hint=hint))
    CompileError.raise_any(faults)


def not_found(
    problem: PlacementProblem, rule: Rule, reason: str, hint: str | None = None
) -> CompileError:
    """MCM-F007."""
    if hint is None:
        hint = "give more devices (--max-accelerators, --max-cpus)"
        if rule == "strict":
            hint = "give --rule relay or --rule none, or more devices (--max-accelerators)"
    return CompileError.of(
        "MCM-F007", f"no valid placement: {reason}", at=problem.source, hint=hint
    )


def _named(problem: PlacementProblem, groups: DeviceGroups, g: int) -> str:
    own = np.flatnonzero(groups.group_of == g)
    name = quote(problem.names[int(own[problem.size_bytes[own].argmax()])])
    return name if own.size == 1 else f"{name} with {own.size - 1} more nodes that stay with it"
