"""A ring of chips as a machine: a channel for each link and each port, routes along the ring."""

from __future__ import annotations

import numpy as np

from mcm_compiler.machine import HOST, OFF_PACKAGE, Machine
from mcm_compiler.routes import Routes
from mcm_hardware.chip_spec import ACTIVATION_PACKING, STREAM_BUFFERS, RingSpec


def ring_machine(spec: RingSpec) -> Machine:
    """The machine of a ring package of C chips.

    Channel c, for c below C - 1, is the link from chip c to chip c + 1. Behind the links come a
    channel from the host to each chip, one from each chip to the host, and one from off-package
    memory to each chip, where the package has it. Where the host reaches only the ends of the
    ring, what it exchanges with a chip in between travels over the ring: in by chip 0, out by the
    last chip.
    """
    chips = spec.num_chips
    last = chips - 1
    links = range(last)
    ends = [(c, c + 1) for c in links]
    ends += [(HOST, c) for c in range(chips)]
    ends += [(c, HOST) for c in range(chips)]
    rates = [spec.link_bytes_per_s] * last + [spec.host_bytes_per_s] * (2 * chips)
    latencies = [*spec.hop_latency_s, *[spec.host_latency_s] * (2 * chips)]
    streams = spec.stream_bytes_per_s > 0
    if streams:
        ends += [(OFF_PACKAGE, c) for c in range(chips)]
        rates += [spec.stream_bytes_per_s] * chips
        latencies += [spec.stream_latency_s] * chips
    cuts = np.zeros(len(ends), np.bool_)
    cuts[:last] = spec.switching == "cut_through"
    return Machine(
        family="ring",
        memory_bytes=np.array([chip.sram_bytes for chip in spec.chips], np.int64),
        speed=np.array([chip.speed for chip in spec.chips], np.float64),
        channel_bytes_per_s=np.array(rates, np.float64),
        channel_latency_s=np.array(latencies, np.float64),
        channel_ends=np.array(ends, np.int32).reshape(len(ends), 2),
        channel_cuts=cuts,
        routes=_routes(chips, spec.host_io == "ends", streams),
        channel_slots=spec.channel_slots,
        buffer_alignment_bytes=spec.reference.alignment_bytes,
        stream_buffers=STREAM_BUFFERS,
        activation_packing=ACTIVATION_PACKING,
    )


def _routes(chips: int, at_ends: bool, streams: bool) -> Routes:
    """The routes of `ring_machine`, as pieces of one way along the ring and of single ports."""
    last = chips - 1
    into, out, memory = last, last + chips, last + 2 * chips
    # In by the first chip, along the links, out by the last one; then all ports alone.
    way = [into, *range(last), out + last]
    channels = np.array([*way, *range(into, memory + chips * streams)], np.int32)
    port = len(way) - into
    chip = np.arange(chips, dtype=np.int32)
    source, target = np.repeat(chip, chips), np.tile(chip, chips)
    from_host, to_host = port + into + chip, port + out + chip
    rows = [
        (1 + source, 1 + np.maximum(source, target)),
        (from_host, from_host + 1),
        (to_host, to_host + 1),
        (port + memory + chip, port + memory + chip + 1) if streams else (0 * chip, 0 * chip),
    ]
    if at_ends:
        inner, behind = chip[:last], chip[1:]
        rows[1][0][:last], rows[1][1][:last] = 0, 1 + inner
        rows[2][0][1:], rows[2][1][1:] = 1 + behind, len(way)
    begin, end = (np.concatenate(parts).astype(np.int32) for parts in zip(*rows, strict=True))
    return Routes(begin, end, channels)
