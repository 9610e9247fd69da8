"""The best chain of order ideals under the device-placement cost: one device per step.

Tarnawski et al. 2020, section 5.1: contiguous parts of a graph that can be put in a row are the
differences of a chain of ideals, so that dynamic programming over ideals and numbers of devices
finds the optimum. Ours looks only at ideals that the devices before can have done, and whose rest
the devices behind can still do, within a period that is known to be reachable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement import device_chain_kernels
from mcm_passes.mapping.device_placement.device_groups import DeviceGroups
from mcm_passes.mapping.device_placement.device_loads import MEMORY_SLACK
from mcm_passes.mapping.device_placement.training_order import backward_paths
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, closure, from_edges

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
        columns = [
            least,
            on_accelerator,
            ~can,
            groups.cpu_time,
            groups.size_bytes,
            np.ones_like(least),
        ]
        sums = _sums(members, np.stack(columns, axis=1).astype(np.float64))
        order = np.argsort(sums[:, 0], kind="stable")
        self._members, sums = np.ascontiguousarray(members[order]), sums[order]
        words = members.shape[1]
        readers = np.zeros((groups.producer.size, words), np.uint64)
        for t, reading in enumerate(groups.readers):
            for g in reading:
                readers[t, g >> 6] |= np.uint64(1) << np.uint64(g & 63)
        ptr, split = device_chain_kernels.split_outputs(self._members, groups.producer, readers)
        crossing = np.zeros(len(members))
        owner = np.repeat(np.arange(len(members)), np.diff(ptr))
        np.add.at(crossing, owner, groups.transfer_time[split])
        self._outputs = device_chain_kernels.SplitOutputs(
            groups.producer, readers, groups.transfer_time, ptr, split
        )
        self._work = device_chain_kernels.IdealWork(
            least=sums[:, 0].copy(),
            accelerator=sums[:, 1].copy(),
            barred=sums[:, 2].astype(np.int64),
            cpu=sums[:, 3].copy(),
            size_bytes=sums[:, 4].copy(),
            crossing=crossing,
        )
        self._passed = backward_paths(problem, groups.group_of, self._behind)
        self._first, self._last = int(sums[:, 5].argmin()), int(sums[:, 5].argmax())
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
        limits = device_chain_kernels.ChainLimits(
            min(problem.max_accelerators, self._count),
            min(problem.max_cpus, self._count),
            problem.memory_bytes * (1.0 + MEMORY_SLACK),
            reading == "relay",
            reading == "adjacent",
            reading == "between",
        )
        best, came_from = device_chain_kernels.best_chains(
            device_chain_kernels.Ideals(self._members, self._first, self._last),
            self._work,
            self._outputs,
            self._passed,
            device_chain_kernels.GroupPaths(self._before, self._behind),
            limits,
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
    """The groups and their edges as a rule graph."""
    return from_edges(groups.edges[:, 0], groups.edges[:, 1], groups.count, 1)


def _sums(members: Words, columns: Floats) -> Floats:
    """`[I, K]`, sums over each ideal of K columns by group; a thousand ideals at a time."""
    parts = [
        _bits(members[at : at + 1024], len(columns)) @ columns
        for at in range(0, len(members), 1024)
    ]
    return np.concatenate(parts)


def _bits(members: Words, count: int) -> Floats:
    """`[I, count]`, 1 where an ideal holds a group."""
    raw = members.astype("<u8").view(np.uint8)
    return np.unpackbits(raw, axis=1, count=count, bitorder="little").astype(np.float64)
