"""The numbers of one device, of a host with accelerators or of a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from mcm_hardware.chip.chip_spec import DeviceNumbers
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.support_keys import key_path, read_support
from mcm_hardware.descriptions.target_schema import BANDWIDTH, LATENCY_US, Key, Number


def device_keys(started: str) -> dict[str, Key]:
    """Keys of a device's numbers.

    Args:
        started: what a launch starts, such as `op`.
    """
    return {
        "memory_mib": Key(Number(1.0, 2.0**24), "memory of one device"),
        "reserved_memory_mib": Key(
            Number(0.0, 2.0**24),
            "part of it that drivers and libraries keep for themselves",
            default=0.0,
        ),
        "memory_bandwidth_gb_per_s": Key(BANDWIDTH, "between a device and its memory"),
        "peak_tflop_per_s": Key(
            BANDWIDTH, "arithmetic rate of one device; a multiply-accumulate counts as two"
        ),
        "launch_overhead_us": Key(LATENCY_US, f"cost of starting one {started}", default=0.0),
    }


def read_device(
    reader: DescriptionReader, values: Mapping[str, Any], table: str, more: Iterable[str] = ()
) -> DeviceNumbers | None:
    """The device that a table describes; None where numbers are missing. `reader` notes faults.

    Args:
        reader: of the description.
        values: by dotted path; what is at fault is missing.
        table: dotted path of the table.
        more: keys of the host that only matter where it runs ops for the devices.
    """
    found: dict[str, Any] = {
        name: values.get(".".join(key_path(table, name))) for name in device_keys("")
    }
    memory, reserved = found["memory_mib"], found["reserved_memory_mib"] or 0.0
    if memory is not None and reserved >= memory:
        reader.fault(
            "MCM-T008",
            f"all memory of a device is reserved: {reserved:g} of {memory:g} MiB",
            key_path(table, "reserved_memory_mib"),
            "reserve less than memory_mib",
        )
    support = read_support(reader, values, table, more)
    if None in found.values():
        return None
    return DeviceNumbers(
        memory_bytes=math.floor((found["memory_mib"] - reserved) * 2**20),
        memory_bytes_per_s=found["memory_bandwidth_gb_per_s"] * 1e9,
        flops_per_s=found["peak_tflop_per_s"] * 1e12,
        launch_s=found["launch_overhead_us"] * 1e-6,
        support=support,
    )
