"""Cost of a placement by the definition of Tarnawski et al. 2020, and its validity.

This is the referee: it looks at single operators and edges, and shares nothing with the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.dags import find_circle
from mcm_compiler.contracts.partition import Bools, Floats, Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.diagnostics import quote
from mcm_compiler.placements.ring_rules import MAX_REPORTED, find_violations
from mcm_passes.mapping.device_placement.training_order import order_edges, torn_parts

MEMORY_SLACK = 1e-9
"""Relative space for the rounding of sums."""


@dataclass(frozen=True, eq=False)
class DeviceLoads:
    """Cost of a placement.

    Attributes:
        compute: `[D]`, time of the operators on each device.
        receive: `[D]`, time of transfers into it.
        send: `[D]`, time of transfers out of it.
        violations: what is not allowed about the placement, in words.
    """

    compute: Floats
    receive: Floats
    send: Floats
    violations: tuple[str, ...]

    @property
    def load(self) -> Floats:
        """`[D]`; transfers and operators do not overlap (section 3, "Communication")."""
        return self.compute + self.receive + self.send

    @property
    def period(self) -> float:
        """The largest load: time per sample of a full pipeline (section 5)."""
        return float(self.load.max(initial=0.0))


def device_loads(problem: PlacementProblem, device_of: Ints, rule: Rule) -> DeviceLoads:
    """Cost of `device_of`, and the rules that it breaks.

    An accelerator takes the time of its operators, plus the transfer times of outputs that come in
    for its operators and of own outputs that are read elsewhere. Each output counts once. CPU cores
    reach the host's memory and pay for no transfers. Under the rule `relay` an output also enters
    and leaves each accelerator between its own and the last that reads it, since the ring has no
    other way (our addition). Under the rules of the ring dependencies on operators that cost
    nothing are exempt, because each device that reads them has a copy.

    Not allowed are too much memory on an accelerator, an operator on a device that cannot run it,
    operators of one color on two devices, and cycles of forward edges between devices. Parts of the
    backward pass must be contiguous: a device that holds two of its operators holds all on the
    paths from one to the other (section 3). See `order_edges` for colors without forward operators.

    Args:
        problem: the problem.
        device_of: `[N]`, accelerators first.
        rule: see `Rule`.

    Raises:
        ValueError: if a device is out of range.
    """
    accelerators = problem.max_accelerators
    devices = accelerators + problem.max_cpus
    if device_of.size and not 0 <= int(device_of.min()) <= int(device_of.max()) < devices:
        raise ValueError(f"devices {device_of.min()} to {device_of.max()} of {devices}")
    on_cpu = device_of >= accelerators
    time = np.where(on_cpu, problem.cpu_time, problem.accelerator_time)
    compute = totals(time, device_of, devices)
    receive, send = _transfers(problem, device_of, rule, devices)
    receive[accelerators:] = send[accelerators:] = 0.0
    violations = [
        *misplaced(problem, device_of, "devices {} and {}".format),
        *overfull(problem, device_of),
        *_order(problem, device_of, rule),
    ]
    return DeviceLoads(compute, receive, send, tuple(violations))


def _transfers(
    problem: PlacementProblem, device_of: Ints, rule: Rule, devices: int
) -> tuple[Floats, Floats]:
    """`[D]` each: time of what enters and of what leaves each device, CPUs like accelerators."""
    source = problem.edge_source.astype(np.int64)
    home, to = device_of[source].astype(np.int64), device_of[problem.edge_target].astype(np.int64)
    source, to = source[home != to], to[home != to]
    if rule != "relay":
        # Each output once per device that reads it, and once where it is made.
        arrival = np.unique(source * devices + to)
        leaving = np.unique(source)
        cost = problem.transfer_time
        receive = totals(cost[arrival // devices], arrival % devices, devices)
        return receive, totals(cost[leaving], device_of[leaving], devices)
    # An output enters each device after its own up to the last reader, and leaves each before that.
    last = device_of.astype(np.int64)
    np.maximum.at(last, source, to)
    change = totals(problem.transfer_time, device_of, devices + 1)
    change -= totals(problem.transfer_time, last, devices + 1)
    send = np.cumsum(change)[:devices]
    receive = np.concatenate([[0.0], send[:-1]])
    return receive, send


def totals(values: Floats, group: npt.NDArray[np.integer[Any]], size: int) -> Floats:
    """`[size]`, the sum of the values of each group."""
    return np.bincount(group, values, size).astype(np.float64)


@lru_cache(maxsize=4)
def clonable_operators(problem: PlacementProblem) -> Bools:
    """`[N]`, operators that each device may have for nothing.

    They take no time, neither to run nor to transfer, no memory that could be missing, have no
    operator of their color, and read only such operators.
    """
    alone = np.bincount(problem.color)[problem.color] == 1
    cost = problem.accelerator_time + problem.cpu_time + problem.transfer_time
    if problem.size_bytes.sum() > problem.memory_bytes:
        cost = cost + problem.size_bytes
    free = alone & (cost == 0.0) & problem.on_accelerator & ~problem.backward
    # Shrinks with every round; a round looks at the readers of what the one before lost.
    following: list[list[int]] = [[] for _ in range(problem.num_operators)]
    for u, v in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        following[u].append(v)
    lost = np.flatnonzero(~free).tolist()
    while lost:
        for v in following[lost.pop()]:
            if free[v]:
                free[v] = False
                lost.append(v)
    return free


def misplaced(
    problem: PlacementProblem, device_of: Ints, both: Callable[[int, int], str]
) -> list[str]:
    """Operators on accelerators that cannot run them, and colors on two devices.

    Args:
        problem: the problem.
        device_of: `[N]`; CPUs come after the accelerators.
        both: names two devices.
    """
    accelerators = problem.max_accelerators
    found = [
        f"{quote(problem.names[v])} is on accelerator {device_of[v]}, which cannot run it"
        for v in np.flatnonzero(~problem.on_accelerator & (device_of < accelerators)).tolist()
    ]
    _, first, color = np.unique(problem.color, return_index=True, return_inverse=True)
    for v in np.flatnonzero(device_of[first[color]] != device_of).tolist()[:MAX_REPORTED]:
        u = int(first[color[v]])
        found.append(
            f"{quote(problem.names[u])} and {quote(problem.names[v])} have one color and are "
            f"on {both(int(device_of[u]), int(device_of[v]))}"
        )
    return found[:MAX_REPORTED]


def overfull(problem: PlacementProblem, device_of: Ints) -> list[str]:
    """Accelerators whose operators need more memory than there is."""
    devices = problem.max_accelerators + problem.max_cpus
    need = totals(problem.size_bytes, device_of, devices)[: problem.max_accelerators]
    return [
        f"accelerator {d} needs {need[d]:,.0f} bytes and has {problem.memory_bytes:,.0f}"
        for d in np.flatnonzero(need > problem.memory_bytes * (1.0 + MEMORY_SLACK)).tolist()
    ]


def _order(problem: PlacementProblem, device_of: Ints, rule: Rule) -> list[str]:
    source, target = order_edges(problem)
    if rule == "none":
        return [*_cycle(device_of, source, target), *_torn(problem, device_of)]
    dear = ~clonable_operators(problem)[source]
    found = find_violations(
        device_of,
        source[dear],
        target[dear],
        num_chips=problem.max_accelerators,
        routing=rule,
        names=problem.names,
    )
    return [violation.message for violation in found]


def _torn(problem: PlacementProblem, device_of: Ints) -> list[str]:
    return [
        f"device {d} holds operators of the backward pass before and behind "
        f"{quote(problem.names[v])}, which is on device {device_of[v]}"
        for v, d in torn_parts(problem, device_of)[:MAX_REPORTED]
    ]


def _cycle(device_of: Ints, source: Ints, target: Ints) -> list[str]:
    """Return whether no order of the devices lets all data flow one way."""
    ends = np.stack([device_of[source], device_of[target]], axis=1)
    cycle = find_circle(np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0).tolist())
    if not cycle:
        return []
    shown = " -> ".join(str(device) for device in [*cycle[:MAX_REPORTED], cycle[0]])
    return [f"data flows in circles between devices: {shown}"]
