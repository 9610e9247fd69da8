"""Machines whose devices all reach each other, as in a host with accelerators or in a server."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder


def joined_devices(
    family: str,
    memory_bytes: Longs,
    bytes_per_s: Floats,
    latency_s: Floats,
    device_kind: Ints | None = None,
) -> Machine:
    """A machine of D devices with a channel from each to each other one.

    Args:
        family: name of the family.
        memory_bytes: `[D]`.
        bytes_per_s: `[D, D]`, rate from device a to device b.
        latency_s: `[D, D]`, likewise.
        device_kind: `[D]`, or None where all devices are of one kind.
    """
    count = len(memory_bytes)
    made = MachineBuilder(count)
    for a, b in np.argwhere(~np.eye(count, dtype=np.bool_)).tolist():
        channel = made.channel(a, b, float(bytes_per_s[a, b]), float(latency_s[a, b]))
        made.route(a, b, (channel,))
    return made.machine(family, memory_bytes.tolist(), [1.0] * count, device_kind=device_kind)
