"""An order of the devices of a machine along which data flows, and placements along it.

A valid placement has devices that depend on each other in no circle, so that they have an order.
Searches place units on *chips*, the positions of that order: what a unit reads is on no higher chip
than the unit itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from mcm_compiler.arrays.dags import following_lists, topological
from mcm_compiler.arrays.rows import grouped_rows
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.placements.machine_rules import hops_of
from mcm_compiler.placements.ring_rules import dependency_edges


@dataclass(frozen=True, eq=False)
class DeviceOrder:
    """An order of C devices.

    Attributes:
        device: `[C]`, device of each chip.
    """

    device: Longs

    def chips(self, device_of: Ints) -> Ints:
        """`[N]`, chips of the units of a placement on devices."""
        chip = np.empty(self.device.size, np.int32)
        chip[self.device] = np.arange(self.device.size)
        return chip[device_of]

    def devices(self, chip_of: Ints) -> Ints:
        """`[N]`, devices of the units of a placement on chips."""
        return self.device[chip_of].astype(np.int32)


UNREACHED = 1 << 20
"""Channels on the way to a device that no route leads to."""

MOST_STARTS = 8
"""Devices that walks begin at, where devices differ."""


_orders: WeakKeyDictionary[PartitionProblem, list[DeviceOrder]] = WeakKeyDictionary()


def device_orders(problem: PartitionProblem) -> list[DeviceOrder]:
    """Orders that a search may begin with: walks over the devices; the chips' own on a ring.

    Where devices differ, it matters which of them are first. Walks begin at the first and the last
    device of each sort, and lead either way.
    """
    if problem in _orders:
        return _orders[problem]
    count = problem.num_chips
    walks = [np.arange(count)]
    if not problem.on_ring:
        pairs = _pinned_pairs(problem)
        walks = [_walk_over_devices(problem, at, pairs) for at in _starts(problem)]
        if len(walks) > 1 and not pairs:
            walks = [way for walk in walks for way in (walk, walk[::-1].copy())]
        wanted = np.isin(walks[0], problem.pinned_chip)
        if wanted.any():
            # Cuts leave no chip empty before the last: those with pins may have to be first.
            start = int(walks[0][wanted][0])
            walks.append(_walk_over_devices(problem, start, pairs))
            walks.append(np.concatenate([walks[0][wanted], walks[0][~wanted]]))
    _orders[problem] = [DeviceOrder(walk) for walk in walks]
    return _orders[problem]


def _starts(problem: PartitionProblem) -> list[int]:
    """Devices that walks begin at."""
    count = problem.num_chips
    sorts = np.stack([problem.limits.sram_bytes, problem.chip_speed, problem.kind_of], axis=1)
    _, first = np.unique(sorts, axis=0, return_index=True)
    if first.size < 2:
        return [0]
    _, last = np.unique(sorts[::-1], axis=0, return_index=True)
    return np.unique(np.concatenate([first, count - 1 - last])).tolist()[:MOST_STARTS]


def first_order(problem: PartitionProblem) -> DeviceOrder:
    """The first of `device_orders`."""
    return device_orders(problem)[0]


def order_of(problem: PartitionProblem, device_of: Ints) -> DeviceOrder:
    """An order along which the data of a placement flows, as close to `first_order` as can be.

    Where engines pass tensors on, it flows along their routes, unless these close a circle.

    Args:
        problem: the problem.
        device_of: `[N]`, a placement whose devices do not depend on each other in a circle.
    """
    first = first_order(problem)
    if problem.on_ring:
        return first
    source, target = dependency_edges(problem)
    pairs = np.unique(np.stack([device_of[source], device_of[target]], axis=1), axis=0)
    chosen: list[int] = []
    if problem.machine.relays:
        hops = np.concatenate([pairs, hops_of(problem.machine, pairs)])
        used = hops[(hops < first.device.size).all(axis=1)]
        chosen = _in_order(first.chips(used), first.device.size)
    if len(chosen) < first.device.size:
        chosen = _in_order(first.chips(pairs), first.device.size)
    assert len(chosen) == first.device.size, "devices depend on each other in a circle"
    return DeviceOrder(first.device[chosen])


def _in_order(pairs: Ints, count: int) -> list[int]:
    """Numbers below `count`, the first of each pair `[P, 2]` before the second; low ones first.

    Those of a circle, and all behind it, are left out.
    """
    return topological(following_lists(count, ((a, b) for a, b in pairs.tolist() if a != b)))


def along(problem: PartitionProblem, order: DeviceOrder) -> PartitionProblem:
    """The problem on a ring whose chips are devices in an order; the problem itself on a ring.

    Neighbours of an order are close to each other, so that a machine looks like a ring along it,
    except for tensors that take another way. Its links have the rate of the slowest channel on the
    routes between neighbours.
    """
    if problem.on_ring:
        return problem
    kept = _lines.get(problem)
    if kept is None or not np.array_equal(kept[0], order.device):
        kept = order.device, _ring_along(problem, order)
        _lines[problem] = kept
    return kept[1]


_lines: WeakKeyDictionary[PartitionProblem, tuple[Longs, PartitionProblem]] = WeakKeyDictionary()
"""The last ring along devices of each problem, with their order."""


def _ring_along(problem: PartitionProblem, order: DeviceOrder) -> PartitionProblem:
    machine, limits, device = problem.machine, problem.limits, order.device
    rates = machine.channel_bytes_per_s
    hops = [machine.route(a, b) for a, b in pairwise(device.tolist())]
    rate = min((float(rates[list(hop)].min()) for hop in hops if hop), default=0.0)
    # Along a line a kind of chip is a speed: what all units take, with what they take there.
    on_kind_s = np.maximum(problem.unit_seconds.sum(axis=1), 1e-300)
    speed = problem.chip_speed * (float(problem.compute_s.sum()) / on_kind_s)[problem.kind_of]
    ring = replace(
        limits,
        sram_bytes=tuple(limits.sram_bytes[d] for d in device.tolist()),
        chip_speed=tuple(speed[device].tolist()),
        link_bytes_per_s=rate or limits.link_bytes_per_s,
        link_latency_s=(),
        forwarding="engine" if machine.relays else "router",
    )
    pinned = np.full_like(problem.pinned_chip, -1)
    fixed = problem.pinned_chip >= 0
    pinned[fixed] = order.chips(problem.pinned_chip[fixed])
    return replace(
        problem,
        given_machine=None,
        routing="relay",
        limits=ring,
        pinned_chip=pinned,
        kinds=None,
        copies=None if problem.copies is None else problem.copies.least,
    )


def first_line(problem: PartitionProblem) -> PartitionProblem:
    """The problem `along` its first order."""
    return along(problem, first_order(problem))


def _pinned_pairs(problem: PartitionProblem) -> set[tuple[int, int]]:
    """Devices that data reaches one after the other, since units on a path are pinned to them."""
    if not (problem.pinned_chip >= 0).any():
        return set()
    pairs: set[tuple[int, int]] = set()
    behind: list[set[int]] = [set() for _ in range(problem.num_units)]
    # Units are in a topological order.
    after = grouped_rows(*dependency_edges(problem), problem.num_units)
    for u, pin in enumerate(problem.pinned_chip.tolist()):
        if pin >= 0:
            pairs.update((device, pin) for device in behind[u] if device != pin)
            behind[u].add(pin)
        for v in after.row(u).tolist():
            behind[v] |= behind[u]
    return pairs


def _walk_over_devices(problem: PartitionProblem, start: int, pairs: set[tuple[int, int]]) -> Longs:
    """`[C]`, the devices in the order of a walk over all of them that hardly ever jumps.

    From each device it goes on to the nearest one that it has not seen. Of several such it takes
    the one with fewest others next to it (Warnsdorff's rule), so that no corner is left behind.

    Args:
        problem: the first C devices of its machine may be used.
        start: where the walk begins, unless others come before that.
        pairs: devices of which the first comes before the second, as far as they are in no circle.
    """
    machine, num_devices = problem.machine, problem.num_chips
    count = machine.num_devices
    hops = machine.routes.lengths[: count * count].reshape(count, count).astype(np.int64)
    hops = np.where(machine.reaches, hops, UNREACHED)[:num_devices, :num_devices]
    near = np.minimum(hops, hops.T)
    left = np.ones(num_devices, np.bool_)
    order = np.empty(num_devices, np.int64)
    next_to = (near == 1).sum(axis=1)
    at, waits = 0, np.zeros((num_devices, num_devices), np.bool_)
    for a, b in pairs:
        waits[b, a] = True
    for place in range(num_devices):
        rest = np.flatnonzero(left)
        free = rest[~waits[np.ix_(rest, rest)].any(axis=1)]
        choice = free if free.size else rest
        keys = (choice, next_to[choice], hops[at, choice]) if place else (choice != start,)
        at = int(choice[np.lexsort(keys)[0]])
        order[place] = at
        left[at] = False
        next_to[near[at] == 1] -= 1
    return order
