"""Loads of the channels of a machine that is no ring, kept up to date while units move.

A placement is one on chips along an order of the devices: chip k is device `device[k]`. Data flows
to higher chips, so that no devices wait for each other in a circle. On a ring the order is that of
the chips, and what its links carry is among the totals of chips.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import TO_HOST
from mcm_passes.families.ring.loads.chip_demands import ChipDemands, TensorDemands, unit_demands
from mcm_passes.mapping.machine.evaluation import MachineModel
from mcm_passes.mapping.machine.load_kernels import (
    Places,
    RouteArrays,
    Ways,
    count_ways,
    empty_ways,
    route_arrays,
)


class Network(NamedTuple):
    """Routes of D devices over L channels, and seconds of ops on their kinds.

    Attributes:
        used: whether loads are counted along routes; they are not on a ring.
        routes: of the machine.
        bytes_per_s: `[L]`.
        device: `[L]`, a device at an end of each channel.
        block_bytes: bytes of a block of weights.
        kind_of: `[C]`, kind of each device.
        unit_s: `[K, N]`, seconds of each unit on a device of each kind.
        item_s: `[K, I]`, likewise of items.
        relay_s: `[K, T]`, likewise of a relay of each tensor.
        copied_s: `[K, T]`, likewise of the copy of a view.
    """

    used: bool
    routes: RouteArrays
    bytes_per_s: Floats
    device: Longs
    block_bytes: int
    kind_of: Ints
    unit_s: Floats
    item_s: Floats
    relay_s: Floats
    copied_s: Floats


class ChannelLoads(NamedTuple):
    """Loads of L channels; all arrays change with every move.

    Attributes:
        crossed: `[L]`, bytes.
        load_s: `[L]`, seconds, as of the last `weigh_channels`.
        before: `[L]`, bytes at the beginning of the step, of channels that it changed.
        changed: `[L]`, begins with these channels.
        stamp: `[L]`, the last step that changed each channel.
        counts: `[4]`, the step, channels that it changed, how often a tensor is wanted where no
            route leads, or by engines of lower chips, and how often at the beginning of the step.
        ways: space for one tensor.
    """

    crossed: Longs
    load_s: Floats
    before: Longs
    changed: Longs
    stamp: Longs
    counts: Longs
    ways: Ways


STEP, CHANGED, LOST, LOST_BEFORE = range(4)
"""Places of `ChannelLoads.counts`."""


def network_of(problem: PartitionProblem, demands: ChipDemands) -> Network:
    """The network of a problem with given demands of units; one that is not used on a ring."""
    block = problem.limits.buffer_alignment_bytes
    if problem.on_ring:
        none, no_seconds = np.zeros(0, np.int64), np.zeros((1, 0))
        routes = RouteArrays(none, none, none, none, 0, False)
        kind_of, seconds = np.zeros(0, np.int32), (no_seconds,) * 4
        return Network(False, routes, np.zeros(0), none, block, kind_of, *seconds)
    machine, arrays = problem.machine, MachineModel.of(problem).arrays
    ends = machine.channel_ends.max(axis=1) if machine.num_channels else np.zeros(0)
    each = [demands]
    if problem.kinds is not None:
        alike = (_of_kind(problem, unit_s, kind) for kind, unit_s in enumerate(arrays.unit_s))
        each = [unit_demands(one, own_buffers=True, clone_outputs=True) for one in alike]
    return Network(
        used=True,
        routes=route_arrays(machine),
        bytes_per_s=np.array(machine.channel_bytes_per_s, np.float64),
        device=np.maximum(ends, 0).astype(np.int64),
        block_bytes=block,
        kind_of=arrays.kind_of,
        unit_s=np.stack([one.nodes.work_s for one in each]),
        item_s=np.stack([one.items.busy_s for one in each]),
        relay_s=np.stack([one.tensors.passed_s for one in each]),
        copied_s=np.stack([one.tensors.copied_s for one in each]),
    )


def _of_kind(problem: PartitionProblem, unit_s: Floats, kind: int) -> PartitionProblem:
    """The problem as if all devices were of a kind, on which units take `unit_s[N]`."""
    copies = problem.copies
    return dataclasses.replace(
        problem,
        compute_s=unit_s,
        relay_s=problem.relay_seconds[kind],
        kinds=None,
        copies=copies and dataclasses.replace(copies, seconds=copies.by_kind[kind]),
    )


def empty_channels(network: Network) -> ChannelLoads:
    """Arrays for the channels of a machine."""
    count = network.bytes_per_s.size
    crossed, before, changed, stamp = (np.zeros(count, np.int64) for _ in range(4))
    return ChannelLoads(
        crossed=crossed,
        load_s=np.zeros(count),
        before=before,
        changed=changed,
        stamp=stamp,
        counts=np.zeros(4, np.int64),
        ways=empty_ways(network.routes.num_devices),
    )


@inlined_njit
def begin_channels(channels: ChannelLoads) -> None:
    """Begins a step, whose changes `undo_channels` takes back."""
    counts = channels.counts
    counts[STEP] += 1
    counts[CHANGED] = 0
    counts[LOST_BEFORE] = counts[LOST]


@lean_inner_njit
def clear_channels(channels: ChannelLoads) -> None:
    """Takes all loads off, as a part of the present step."""
    for k in range(channels.crossed.size):
        _add(channels, k, -channels.crossed[k])
    channels.counts[LOST] = 0


@lean_inner_njit
def count_on_channels(
    network: Network,
    tensors: TensorDemands,
    t: int,
    where: Places,
    source: int,
    sign: int,
    channels: ChannelLoads,
) -> None:
    """Counts a tensor on the channels of its ways, and its buffers.

    Args:
        network: of the machine.
        tensors: the demands of tensors.
        t: the tensor.
        where: the placement.
        source: the chip that makes the tensor, or `HOST`.
        sign: 1 to count it, -1 to take it off.
        channels: changed in place.
    """
    routes, ways = network.routes, channels.ways
    found = count_ways(routes, tensors, t, tensors.readers, where, source, sign, ways)
    passed = found - int(tensors.kind[t] & TO_HOST != 0) if routes.relays and source >= 0 else 0
    for i in range(found):
        if ways.begin[i] == ways.end[i] or (
            i < passed and _turns_back(routes, where, ways, source, i)
        ):
            channels.counts[LOST] += sign
        for k in range(ways.begin[i], ways.end[i]):
            _add(channels, routes.channels[k], ways.amount[i])


@inlined_njit
def _turns_back(routes: RouteArrays, where: Places, ways: Ways, source: int, way: int) -> bool:
    """Return whether engines would pass a tensor to a lower chip, which may close a circle."""
    begin, end = ways.begin[way], ways.end[way]
    row = where.device[source] * routes.num_devices + routes.leads_to[routes.channels[end - 1]]
    before = source
    if begin > routes.begin[row]:
        before = int(where.chip[routes.leads_to[routes.channels[begin - 1]]])
    for k in range(begin, end):
        c = int(where.chip[routes.leads_to[routes.channels[k]]])
        if c < before:
            return True
        before = c
    return False


@inlined_njit
def stream_to(network: Network, channels: ChannelLoads, device: int, blocks: int) -> None:
    """Counts weights that a device streams, or takes them off where `blocks` is negative."""
    routes = network.routes
    row = routes.num_devices * (routes.num_devices + 2) + device
    for k in range(routes.begin[row], routes.end[row]):
        _add(channels, routes.channels[k], blocks * network.block_bytes)


@inlined_njit
def _add(channels: ChannelLoads, channel: int, amount: int) -> None:
    counts = channels.counts
    if channels.stamp[channel] != counts[STEP]:
        channels.stamp[channel] = counts[STEP]
        channels.changed[counts[CHANGED]] = channel
        channels.before[channel] = channels.crossed[channel]
        counts[CHANGED] += 1
    channels.crossed[channel] += amount


@lean_inner_njit
def weigh_channels(network: Network, channels: ChannelLoads, reference_s: float) -> float:
    """Sets the seconds of the channels that the step changed; what these add to the score."""
    added = 0.0
    for i in range(channels.counts[CHANGED]):
        k = int(channels.changed[i])
        added -= power(channels.load_s[k] / reference_s)
        channels.load_s[k] = channels.crossed[k] / network.bytes_per_s[k]
        added += power(channels.load_s[k] / reference_s)
    return added


@lean_inner_njit
def score_of_channels(channels: ChannelLoads, reference_s: float) -> float:
    """The sum of the scores of all channels."""
    total = 0.0
    for k in range(channels.load_s.size):
        total += power(channels.load_s[k] / reference_s)
    return total


@lean_inner_njit
def undo_channels(network: Network, channels: ChannelLoads) -> None:
    """Takes the changes of the step back."""
    counts = channels.counts
    for i in range(counts[CHANGED]):
        k = channels.changed[i]
        channels.crossed[k] = channels.before[k]
        channels.load_s[k] = channels.crossed[k] / network.bytes_per_s[k]
    counts[CHANGED] = 0
    counts[LOST] = counts[LOST_BEFORE]


@inlined_njit
def busiest_channel(channels: ChannelLoads) -> int:
    """The channel with the highest load."""
    at = 0
    for k in range(channels.load_s.size):
        if channels.load_s[k] > channels.load_s[at]:
            at = k
    return at


@lean_inner_njit
def both_remain(
    readers: Rows, t: int, chip: Ints, unit: int, ends: tuple[int, int], source: int
) -> bool:
    """Return whether a tensor has the same ways after one of its readers went to another chip.

    Args:
        readers: `[T]` rows of the units that read each tensor.
        t: the tensor.
        chip: `[N]`, chip of each unit.
        unit: the reader.
        ends: its chips before and after.
        source: the chip that makes the tensor, or `HOST`.
    """
    old, new = ends[0] == source, ends[1] == source
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        v = readers.entries[e]
        if v != unit:
            old = old or chip[v] == ends[0]
            new = new or chip[v] == ends[1]
    return old and new


@inlined_njit
def power(x: float) -> float:
    """The sixteenth power, whose sum over all loads is a score."""
    x *= x
    x *= x
    x *= x
    return x * x
