"""A ring of chips as a machine: a channel for each link and each port, routes along the ring."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mcm_compiler.machines import machine
from mcm_compiler.machines.package_limits import PackageLimits
from mcm_compiler.machines.routes import Routes


@lru_cache(maxsize=64)
def ring_of(limits: PackageLimits, stream_latency_s: float = 0.0) -> machine.Machine:
    """The machine of a ring package of C chips.

    Channel c, for c below C - 1, is the link from chip c to chip c + 1. Behind the links come a
    channel from the host to each chip, one from each chip to the host, and one from off-package
    memory to each chip, where the package has it. Where the host reaches only the ends of the
    ring, what it exchanges with a chip in between travels over the ring: in by chip 0, out by the
    last chip. Last come the channels that all chips share, where the package has any: one into
    the host's end of its channels and one back, and one for all reads from off-package memory.
    They delay nothing by themselves, as latencies are those from the host to a chip.

    Args:
        limits: numbers of the chips; links behind them lead to further chips, which are as the
            last of them.
        stream_latency_s: delay of a read from off-package memory.
    """
    last = limits.last_chip
    chips, beyond = last + 1, last + 1 - limits.num_chips
    ends = [(c, c + 1) for c in range(last)]
    ends += [(machine.HOST, c) for c in range(chips)]
    ends += [(c, machine.HOST) for c in range(chips)]
    rates = [limits.link_bytes_per_s] * last + [limits.host_bytes_per_s] * (2 * chips)
    latencies = [*limits.latencies_s, *[limits.host_latency_s] * (2 * chips)]
    streams = limits.stream_bytes_per_s > 0
    if streams:
        ends += [(machine.OFF_PACKAGE, c) for c in range(chips)]
        rates += [limits.stream_bytes_per_s] * chips
        latencies += [stream_latency_s] * chips
    shared = _Shared([], [], [])
    if rate := limits.host_total_bytes_per_s:
        shared = shared._replace(inwards=[len(ends)], outwards=[len(ends) + 1])
        ends += [(machine.HOST_ROOT, machine.HOST), (machine.HOST, machine.HOST_ROOT)]
        rates += [rate] * 2
        latencies += [0.0] * 2
    if streams and (rate := limits.stream_total_bytes_per_s):
        shared = shared._replace(streams=[len(ends)])
        ends.append((machine.OFF_PACKAGE_ROOT, machine.OFF_PACKAGE))
        rates.append(rate)
        latencies.append(0.0)
    cuts = np.zeros(len(ends), np.bool_)
    cuts[:last] = limits.cut_through
    memory, speed = limits.sram_bytes, limits.chip_speed or (1.0,) * limits.num_chips
    return machine.Machine(
        family=machine.RING,
        memory_bytes=np.array(memory + memory[-1:] * beyond, np.int64),
        speed=np.array(speed + speed[-1:] * beyond, np.float64),
        channel_bytes_per_s=np.array(rates, np.float64),
        channel_latency_s=np.array(latencies, np.float64),
        channel_ends=np.array(ends, np.int32).reshape(len(ends), 2),
        channel_cuts=cuts,
        routes=_routes(chips, limits.at_ends, streams, shared),
        channel_slots=limits.channel_slots,
        buffer_alignment_bytes=limits.buffer_alignment_bytes,
        stream_buffers=limits.stream_buffers,
        activation_packing=limits.activation_packing,
        router_buffers=limits.forwarding == "router",
    )


class _Shared(NamedTuple):
    """Channels that all routes of a kind cross: none or one each.

    Attributes:
        inwards: from the host.
        outwards: to the host.
        streams: from off-package memory.
    """

    inwards: list[int]
    outwards: list[int]
    streams: list[int]


def _routes(chips: int, at_ends: bool, streams: bool, shared: _Shared) -> Routes:
    """The routes of `ring_machine`, as pieces of one way along the ring and of single ports."""
    last = chips - 1
    into, out, memory = last, last + chips, last + 2 * chips
    # In by the first chip, along the links, out by the last one; then all ports alone.
    way = [*shared.inwards, into, *range(last), out + last, *shared.outwards]
    first_link = len(shared.inwards) + 1
    chip = np.arange(chips, dtype=np.int32)
    source, target = np.repeat(chip, chips), np.tile(chip, chips)
    rows = [(first_link + source, first_link + np.maximum(source, target))]
    parts = [np.array(way, np.int32)]
    for before, port, behind in (
        (shared.inwards, into, []),
        ([], out, shared.outwards),
        (shared.streams, memory, []),
    ):
        if port == memory and not streams:
            rows.append((0 * chip, 0 * chip))
            continue
        crossed = [np.full(chips, c) for c in before], [np.full(chips, c) for c in behind]
        each = np.stack([*crossed[0], port + chip, *crossed[1]], axis=1)
        begin = sum(map(len, parts)) + each.shape[1] * chip
        rows.append((begin, begin + each.shape[1]))
        parts.append(each.reshape(-1))
    if at_ends:
        rows[1][0][:last], rows[1][1][:last] = 0, first_link + chip[:last]
        rows[2][0][1:], rows[2][1][1:] = first_link + chip[1:], len(way)
    begin, end = (np.concatenate(ends).astype(np.int32) for ends in zip(*rows, strict=True))
    return Routes(begin, end, np.concatenate(parts).astype(np.int32))
