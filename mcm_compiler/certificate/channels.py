"""The channels of a machine as rows: who reaches whom, how fast, and how late."""

from __future__ import annotations

import numpy as np

from mcm_compiler.certificate.stored_problem import Array
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT


def channel_arrays(problem: PartitionProblem) -> dict[str, Array]:
    """`[K]` each: source and destination of every channel, its rate, and its delay.

    The host is -1, memory outside the package -2; further places as in
    `mcm_compiler.machines.machine`.
    """
    if (machine := problem.machine) is not None:
        return {
            "channel.source": np.ascontiguousarray(machine.channel_ends[:, 0], np.int32),
            "channel.destination": np.ascontiguousarray(machine.channel_ends[:, 1], np.int32),
            "channel.bytes_per_s": machine.channel_bytes_per_s,
            "channel.latency_s": machine.channel_latency_s,
        }
    limits = problem.limits
    chips, last, delays = limits.num_chips, limits.last_chip, limits.latencies_s
    rows = [(c, c + 1, limits.link_bytes_per_s, delay) for c, delay in enumerate(delays)]
    for device in sorted({0, last}) if limits.at_ends else range(chips):
        rows.append((HOST, device, limits.host_bytes_per_s, limits.host_latency_s))
        rows.append((device, HOST, limits.host_bytes_per_s, limits.host_latency_s))
    if limits.stream_bytes_per_s > 0.0:
        rows += [(OFF_PACKAGE, c, limits.stream_bytes_per_s, 0.0) for c in range(chips)]
    if total := limits.host_total_bytes_per_s:
        rows += [(HOST_ROOT, HOST, total, 0.0), (HOST, HOST_ROOT, total, 0.0)]
    if total := limits.stream_total_bytes_per_s:
        rows.append((OFF_PACKAGE_ROOT, OFF_PACKAGE, total, 0.0))
    source, destination, rate, latency = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "channel.source": np.array(source, np.int32),
        "channel.destination": np.array(destination, np.int32),
        "channel.bytes_per_s": np.array(rate, np.float64),
        "channel.latency_s": np.array(latency, np.float64),
    }
