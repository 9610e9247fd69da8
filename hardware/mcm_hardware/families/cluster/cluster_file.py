"""From the TOML description of a cluster to its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mcm_compiler.contracts.cluster import Cluster
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.families.cluster.cluster_schema import CLUSTER_FORM, CLUSTER_KEYS


@dataclass(frozen=True)
class ClusterSpec:
    """What a description says.

    Attributes:
        summary: one line.
        cluster: the numbers that plans are made with.
        launch_s: cost of starting one kernel on a device.
    """

    summary: str
    cluster: Cluster
    launch_s: float


def parse_cluster(name: str, text: str) -> ClusterSpec:
    """The cluster that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `cluster_schema`.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction.
    """
    description = parse_description(name, text)
    reader = DescriptionReader(description, CLUSTER_FORM)
    values = reader.read(description.data, CLUSTER_KEYS)
    memory = values.get("device.memory_mib")
    reserved = values.get("device.reserved_memory_mib", 0.0)
    if memory is not None and reserved >= memory:
        reader.fault(
            "MCM-T008",
            f"all memory of a device is reserved: {reserved:g} of {memory:g} MiB",
            ("device", "reserved_memory_mib"),
            "reserve less than device.memory_mib",
        )
    if faults := reader.faults:
        raise CompileError(faults)

    def number(path: str, unit: float) -> float:
        return float(values[path]) * unit

    cluster = Cluster(
        servers=values["cluster.num_servers"],
        devices_per_server=values["cluster.devices_per_server"],
        flops_per_s=number("device.peak_tflop_per_s", 1e12),
        memory_bytes_per_s=number("device.memory_bandwidth_gb_per_s", 1e9),
        memory_bytes=math.floor((values["device.memory_mib"] - reserved) * 2**20),
        intra_bytes_per_s=number("intra_server.bandwidth_gb_per_s", 1e9),
        inter_bytes_per_s=number("inter_server.bandwidth_gbit_per_s", 1e9 / 8),
        intra_latency_s=number("intra_server.latency_us", 1e-6),
        inter_latency_s=number("inter_server.latency_us", 1e-6),
    )
    return ClusterSpec(values["summary"], cluster, number("device.launch_overhead_us", 1e-6))
