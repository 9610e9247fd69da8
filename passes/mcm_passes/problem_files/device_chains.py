"""The best chain of order ideals under the device-placement cost: one device per step.

Tarnawski et al. 2020, section 5.1: contiguous parts of a graph that can be put in a row are the
differences of a chain of ideals, so that dynamic programming over ideals and numbers of devices
finds the optimum. Ours looks only at ideals that the devices before can have done, and whose rest
the devices behind can still do, within a period that is known to be reachable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs
from mcm_compiler.placement import PlacementProblem
from mcm_passes.problem_files.device_groups import DeviceGroups
from mcm_passes.problem_files.device_loads import MEMORY_SLACK
from mcm_passes.solver.rule_graph import RuleGraph, Words, closure

Reading = Literal["none", "relay", "adjacent", "between"]
"""Which chains count. `none`: all. `relay`: all, and what passes a device costs there. `adjacent`:
those where every dependency spans at most one device, which is more than the triangle rule asks.
`between`: those where no device lies on a path beside a dependency that passes it, which is less
than the triangle rule asks."""

FIRST_SHARE, LAST_SHARE = 1 / 32, 16.0
"""How far the ceilings of a search lie above the least period that is conceivable."""

SLACK = 1e-12
"""Relative room for sums that are taken in another order."""


@dataclass(frozen=True, eq=False)
class DeviceChain:
    """A placement that a chain of ideals stands for.

    Attributes:
        device_of: `[G]`, accelerators first, each kind in the order of the chain.
        step_of: `[G]`, place in the chain.
        period: its largest load.
    """

    device_of: Ints
    step_of: Ints
    period: float


class _Work(NamedTuple):
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


class _Outputs(NamedTuple):
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


class _Limits(NamedTuple):
    accelerators: int
    cpus: int
    memory_bytes: float
    relay: bool
    adjacent: bool
    between: bool


class ChainSearch:
    """Groups and some of their ideals, prepared for dynamic programming.

    Args:
        problem: the problem.
        groups: its groups.
        members: `[I, words]`, bitsets of distinct ideals, the empty and the full one among them.
    """

    def __init__(self, problem: PlacementProblem, groups: DeviceGroups, members: Words) -> None:
        self._before, self._behind = closure(group_order(groups))
        cpus = problem.max_cpus > 0
        can = np.isfinite(groups.accelerator_time)
        on_accelerator = np.where(can, groups.accelerator_time, 0.0)
        least = np.minimum(groups.accelerator_time, groups.cpu_time) if cpus else on_accelerator
        inside = _bits(members, groups.count)
        order = np.lexsort((np.arange(len(members)), inside @ least))
        self._members, inside = np.ascontiguousarray(members[order]), inside[order]
        words = members.shape[1]
        readers = np.zeros((groups.producer.size, words), np.uint64)
        for t, reading in enumerate(groups.readers):
            for g in reading:
                readers[t, g >> 6] |= np.uint64(1) << np.uint64(g & 63)
        ptr, split = _split(self._members, groups.producer, readers)
        crossing = np.zeros(len(members))
        owner = np.repeat(np.arange(len(members)), np.diff(ptr))
        np.add.at(crossing, owner, groups.transfer_time[split])
        self._outputs = _Outputs(groups.producer, readers, groups.transfer_time, ptr, split)
        self._work = _Work(
            least=inside @ least,
            accelerator=inside @ on_accelerator,
            barred=(inside @ ~can).astype(np.int64),
            cpu=inside @ groups.cpu_time,
            size_bytes=inside @ groups.size_bytes,
            crossing=crossing,
        )
        sizes = inside.sum(axis=1)
        self._first, self._last = int(sizes.argmin()), int(sizes.argmax())
        self._problem = problem
        self._count = groups.count

    def optimum(self, reading: Reading) -> DeviceChain | None:
        """The chain with the smallest period, and the fewest devices among equals, if there is any.

        Looks for it below ceilings that rise from the least that all devices together need.
        """
        devices = self._problem.max_accelerators + self._problem.max_cpus
        least = float(self._work.least[self._last]) / devices
        share = FIRST_SHARE if least > 0.0 else np.inf
        while share < LAST_SHARE:
            found = self.below(reading, least * (1.0 + share))
            if found is not None:
                return found
            share *= 2.0
        return self.below(reading, np.inf)

    def below(self, reading: Reading, ceiling: float) -> DeviceChain | None:
        """As `optimum`, among chains with a period up to `ceiling`."""
        problem = self._problem
        limits = _Limits(
            problem.max_accelerators,
            problem.max_cpus,
            problem.memory_bytes * (1.0 + MEMORY_SLACK),
            reading == "relay",
            reading == "adjacent",
            reading == "between",
        )
        best, came_from = _best_chains(
            self._members,
            self._work,
            self._outputs,
            limits,
            self._before,
            self._behind,
            self._first,
            self._last,
            ceiling * (1.0 + SLACK),
        )
        last = best[:, :, self._last]
        if not np.isfinite(last.min()):
            return None
        # argmin gives the first: fewest accelerators, then fewest CPUs.
        a, p = (int(k) for k in np.unravel_index(last.argmin(), last.shape))
        period, at = float(last[a, p]), self._last
        device_of = np.zeros(self._count, np.int32)
        step_of = np.zeros(self._count, np.int32)
        while a or p:
            step = int(came_from[a, p, at])
            before, on_cpu = step >> 1, step & 1
            a, p = a - (1 - on_cpu), p - on_cpu
            device = problem.max_accelerators + p if on_cpu else a
            own = self._members[at] & ~self._members[before]
            inside = _bits(own[None], self._count)[0] > 0
            device_of[inside], step_of[inside] = device, a + p
            at = before
        return DeviceChain(device_of, step_of, period)


def group_order(groups: DeviceGroups) -> RuleGraph:
    """The groups and their order, as the graph that ideals are made from."""
    source, target = groups.edges[:, 0], groups.edges[:, 1]
    back = np.lexsort((source, target))
    ptr = [
        np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=groups.count))])
        for ends in (source, target)
    ]
    nowhere = np.zeros(groups.count, np.int32)
    return RuleGraph(
        units=np.arange(groups.count, dtype=np.int32),
        num_chips=1,
        next_ptr=ptr[0].astype(np.int64),
        next_nodes=target.astype(np.int32),
        before_ptr=ptr[1].astype(np.int64),
        before_nodes=source[back].astype(np.int32),
        low=nowhere,
        high=nowhere,
    )


def _bits(members: Words, count: int) -> Floats:
    """`[I, count]`, 1 where an ideal holds a group."""
    raw = members.astype("<u8").view(np.uint8)
    return np.unpackbits(raw, axis=1, count=count, bitorder="little").astype(np.float64)


@njit(cache=True)
def _split(members: Words, producer: Ints, readers: Words) -> tuple[Longs, Ints]:
    count, words = members.shape
    ptr = np.zeros(count + 1, np.int64)
    split = np.empty(1024, np.int32)
    found = 0
    for i in range(count):
        for t in range(producer.size):
            p = producer[t]
            has_inside = members[i, p >> 6] >> np.uint64(p & 63) & np.uint64(1) != 0
            has_outside = not has_inside
            for k in range(words):
                has_inside |= (readers[t, k] & members[i, k]) != 0
                has_outside |= (readers[t, k] & ~members[i, k]) != 0
            if has_inside and has_outside:
                if found == split.size:
                    split = np.concatenate((split, np.empty_like(split)))
                split[found] = t
                found += 1
        ptr[i + 1] = found
    return ptr, split[:found].copy()


@njit(cache=True)
def _best_chains(
    members: Words,
    work: _Work,
    outputs: _Outputs,
    limits: _Limits,
    ancestors: Words,
    descendants: Words,
    first: int,
    last: int,
    ceiling: float,
) -> tuple[Floats, Ints]:
    """`[A + 1, P + 1, I]` each: the least period of so many devices up to an ideal, and the step.

    A step is twice the ideal before, plus 1 for a CPU. Periods above `ceiling` are infinite.
    """
    count, words = members.shape
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
                        if limits.between and load < most:
                            arrived = outputs.split_ptr[i], outputs.split_ptr[i + 1]
                            for e in range(*arrived):
                                if _beside(members, outputs, ancestors, descendants, i, j, e):
                                    load = np.inf
                        if load <= ceiling and max(load, period) < best[a + 1, p, j]:
                            best[a + 1, p, j] = max(load, period)
                            came_from[a + 1, p, j] = 2 * i
                    if p < limits.cpus and period < best[a, p + 1, j]:
                        load = work.cpu[j] - work.cpu[i]
                        if load <= ceiling and max(load, period) < best[a, p + 1, j]:
                            best[a, p + 1, j] = max(load, period)
                            came_from[a, p + 1, j] = 2 * i + 1
    return best, came_from


@njit(cache=True)
def _within(members: Words, i: int, j: int) -> bool:
    for k in range(members.shape[1]):
        if members[i, k] & ~members[j, k]:
            return False
    return True


@njit(cache=True)
def _load(
    members: Words,
    work: _Work,
    outputs: _Outputs,
    limits: _Limits,
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
            if side and _splits(members, outputs, i, t):
                continue
            if (own and elsewhere) or (not own and reads):
                load += outputs.transfer_time[t]
        if load > most:
            return np.inf
    return load


@njit(cache=True)
def _splits(members: Words, outputs: _Outputs, ideal: int, t: int) -> bool:
    """Whether output t has ends on both sides of the ideal; it was then counted there."""
    p = outputs.producer[t]
    has_inside = members[ideal, p >> 6] >> np.uint64(p & 63) & np.uint64(1) != 0
    has_outside = not has_inside
    for k in range(members.shape[1]):
        has_inside |= (outputs.readers[t, k] & members[ideal, k]) != 0
        has_outside |= (outputs.readers[t, k] & ~members[ideal, k]) != 0
    return has_inside and has_outside


@njit(cache=True)
def _beside(
    members: Words,
    outputs: _Outputs,
    ancestors: Words,
    descendants: Words,
    i: int,
    j: int,
    e: int,
) -> bool:
    """Whether the device lies on a path beside the split output e of ideal i that passes it."""
    t = outputs.split[e]
    u = outputs.producer[t]
    if not members[i, u >> 6] >> np.uint64(u & 63) & np.uint64(1):
        return False
    words = members.shape[1]
    for k in range(words):
        beyond = outputs.readers[t, k] & ~members[j, k]
        for bit in range(64):
            if beyond >> np.uint64(bit) & np.uint64(1):
                v = (k << 6) + bit
                for w in range(words):
                    if members[j, w] & ~members[i, w] & descendants[u, w] & ancestors[v, w]:
                        return True
    return False
