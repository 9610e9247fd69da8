"""Dynamic programming over chains of ideals, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.mapping.device_placement.training_order import BackwardPaths
from mcm_passes.mapping.problem.rule_graph import Words


class Ideals(NamedTuple):
    """I ideals of G groups.

    Attributes:
        members: `[I, words]`, bitsets, by `IdealWork.least`.
        first: the empty ideal.
        last: the full one.
    """

    members: Words
    first: int
    last: int


class GroupPaths(NamedTuple):
    """Between which groups there are paths.

    Attributes:
        ancestors: `[G, words]`, bitsets.
        descendants: `[G, words]`, bitsets.
    """

    ancestors: Words
    descendants: Words


class IdealWork(NamedTuple):
    """Sums over each of I ideals.

    Attributes:
        least: `[I]`, time on the faster kind of device.
        accelerator: `[I]`, time of what accelerators can run.
        barred: `[I]`, groups that accelerators cannot run.
        cpu: `[I]`.
        size_bytes: `[I]`.
        crossing: `[I]`, transfer time of outputs that are split by the ideal.
    """

    least: Floats
    accelerator: Floats
    barred: Longs
    cpu: Floats
    size_bytes: Floats
    crossing: Floats


class SplitOutputs(NamedTuple):
    """T outputs and the ideals that split them.

    Attributes:
        producer: `[T]`.
        readers: `[T, words]`, bitsets.
        transfer_time: `[T]`.
        split_ptr: `[I + 1]`, CSR of the outputs with ends on both sides of each ideal.
        split: those outputs.
    """

    producer: Ints
    readers: Words
    transfer_time: Floats
    split_ptr: Longs
    split: Ints


class ChainLimits(NamedTuple):
    """Limits of a chain.

    Attributes:
        accelerators: at most this many steps on accelerators.
        cpus: at most this many on CPUs.
        memory_bytes: of each accelerator.
        relay: outputs enter and leave each device on their way.
        adjacent: what arrives is read by its last readers.
        between: no device is on a path next to an output that passes it.
    """

    accelerators: int
    cpus: int
    memory_bytes: float
    relay: bool
    adjacent: bool
    between: bool


@entry_njit
def split_outputs(members: Words, producer: Ints, readers: Words) -> tuple[Longs, Ints]:
    """CSR of the outputs that each ideal splits: some of producer and readers within, some not.

    Args:
        members: `[I, words]`, bitsets of the ideals.
        producer: `[T]`, group that makes each output.
        readers: `[T, words]`, bitsets of the groups that read it.
    """
    count = members.shape[0]
    ptr = np.zeros(count + 1, np.int64)
    split = np.empty(1024, np.int32)
    found = 0
    for i in range(count):
        for t in range(producer.size):
            if _is_split(members, producer, readers, i, t):
                if found == split.size:
                    split = np.concatenate((split, np.empty_like(split)))
                split[found] = t
                found += 1
        ptr[i + 1] = found
    return ptr, split[:found].copy()


@entry_njit
def best_chains(
    ideals: Ideals,
    work: IdealWork,
    outputs: SplitOutputs,
    passed: BackwardPaths,
    paths: GroupPaths,
    limits: ChainLimits,
    ceiling: float,
) -> tuple[Floats, Ints]:
    """`[A + 1, P + 1, I]` each: the least period of this many devices up to an ideal, and the step.

    A step is twice the ideal before, plus 1 for a CPU. Periods above `ceiling` are infinite.

    Args:
        ideals: which a chain goes along.
        work: sums over them.
        outputs: what they split.
        passed: what no device may hold the ends of alone.
        paths: between the groups.
        limits: what a chain has to keep.
        ceiling: most that a device may take.
    """
    members, first, last = ideals
    count = members.shape[0]
    shape = (limits.accelerators + 1, limits.cpus + 1, count)
    best = np.full(shape, np.inf)
    came_from = np.full(shape, -1, np.int32)
    best[0, 0, first] = 0.0
    total = work.least[last]
    for a in range(limits.accelerators + 1):
        for p in range(limits.cpus + 1):
            left = limits.accelerators - a + limits.cpus - p
            if left == 0:
                continue
            # What stays behind the next device has to fit on the others.
            least = total - (left - 1) * ceiling if left > 1 else total
            least -= 1e-9 * total
            for i in range(count):
                period = best[a, p, i]
                if not period <= ceiling or i == last:
                    continue
                begin = np.searchsorted(work.least, max(least, work.least[i]))
                end = np.searchsorted(work.least, work.least[i] + ceiling, side="right")
                for j in range(begin, end):
                    if j == i or not _within(members, i, j):
                        continue
                    if a < limits.accelerators and period < best[a + 1, p, j]:
                        most = min(ceiling, best[a + 1, p, j])
                        load = _load(members, work, outputs, limits, i, j, most)
                        if (
                            limits.between
                            and load < most
                            and _lies_beside(members, outputs, paths, i, j)
                        ):
                            load = np.inf
                        better = load <= ceiling and max(load, period) < best[a + 1, p, j]
                        if better and _whole(members, passed, i, j):
                            best[a + 1, p, j] = max(load, period)
                            came_from[a + 1, p, j] = 2 * i
                    if p < limits.cpus and period < best[a, p + 1, j]:
                        load = work.cpu[j] - work.cpu[i]
                        better = load <= ceiling and max(load, period) < best[a, p + 1, j]
                        if better and _whole(members, passed, i, j):
                            best[a, p + 1, j] = max(load, period)
                            came_from[a, p + 1, j] = 2 * i + 1
    return best, came_from


@inner_njit
def _within(members: Words, i: int, j: int) -> bool:
    beyond = False
    for k in range(members.shape[1]):
        beyond |= (members[i, k] & ~members[j, k]) != 0
    return not beyond


@inner_njit
def _whole(members: Words, passed: BackwardPaths, i: int, j: int) -> bool:
    """Return whether a device from ideal i to ideal j has all between its ends."""
    for b in range(passed.group.size):
        g = passed.group[b]
        own = (members[j, g >> 6] & ~members[i, g >> 6]) >> np.uint64(g & 63) & np.uint64(1)
        if own:
            continue
        begins, ends = False, False
        for k in range(members.shape[1]):
            inside = members[j, k] & ~members[i, k]
            begins |= (passed.before[b, k] & inside) != 0
            ends |= (passed.behind[b, k] & inside) != 0
        if begins and ends:
            return False
    return True


@inner_njit
def _load(
    members: Words,
    work: IdealWork,
    outputs: SplitOutputs,
    limits: ChainLimits,
    i: int,
    j: int,
    most: float,
) -> float:
    """Load of an accelerator that takes over at ideal i and hands over at ideal j.

    Infinite where it cannot, or where the load is more than `most`.
    """
    if work.barred[j] != work.barred[i]:
        return np.inf
    if work.size_bytes[j] - work.size_bytes[i] > limits.memory_bytes:
        return np.inf
    load = work.accelerator[j] - work.accelerator[i]
    if load > most:
        return np.inf
    if limits.relay:
        return load + work.crossing[i] + work.crossing[j]
    words = members.shape[1]
    for side in range(2):
        ideal = j if side else i
        for e in range(outputs.split_ptr[ideal], outputs.split_ptr[ideal + 1]):
            t = outputs.split[e]
            p = outputs.producer[t]
            own = (members[j, p >> 6] & ~members[i, p >> 6]) >> np.uint64(p & 63) & np.uint64(1)
            reads, elsewhere, before = False, False, False
            for k in range(words):
                inside = members[j, k] & ~members[i, k]
                reads |= (outputs.readers[t, k] & inside) != 0
                elsewhere |= (outputs.readers[t, k] & ~inside) != 0
                before |= (outputs.readers[t, k] & ~members[i, k]) != 0
                if not side and limits.adjacent and outputs.readers[t, k] & ~members[j, k]:
                    return np.inf
            # Counted at the other end.
            if side and _is_split(members, outputs.producer, outputs.readers, i, t):
                continue
            if (own and elsewhere) or (not own and reads):
                load += outputs.transfer_time[t]
        if load > most:
            return np.inf
    return load


@inner_njit
def _is_split(members: Words, producer: Ints, readers: Words, ideal: int, t: int) -> bool:
    """Return whether output t has ends on both sides of the ideal."""
    p = producer[t]
    has_inside = members[ideal, p >> 6] >> np.uint64(p & 63) & np.uint64(1) != 0
    has_outside = not has_inside
    for k in range(members.shape[1]):
        has_inside |= (readers[t, k] & members[ideal, k]) != 0
        has_outside |= (readers[t, k] & ~members[ideal, k]) != 0
    return has_inside and has_outside


@inner_njit
def _lies_beside(members: Words, outputs: SplitOutputs, paths: GroupPaths, i: int, j: int) -> bool:
    """Return whether a window holds a group on a path next to an output that passes it."""
    words = members.shape[1]
    for e in range(outputs.split_ptr[i], outputs.split_ptr[i + 1]):
        t = outputs.split[e]
        u = outputs.producer[t]
        if not members[i, u >> 6] >> np.uint64(u & 63) & np.uint64(1):
            continue
        for v in range(64 * words):
            k = v >> 6
            if (outputs.readers[t, k] & ~members[j, k]) >> np.uint64(v & 63) & np.uint64(1):
                for w in range(words):
                    between = paths.descendants[u, w] & paths.ancestors[v, w]
                    if members[j, w] & ~members[i, w] & between:
                        return True
    return False
