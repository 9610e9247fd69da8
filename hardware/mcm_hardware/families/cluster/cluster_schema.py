"""Which keys a description of a cluster has, and which values they take."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_hardware.descriptions.support_keys import support_keys
from mcm_hardware.descriptions.target_schema import (
    COST_KEYS,
    Choice,
    DescriptionForm,
    Key,
    Number,
    Text,
    tables_of,
)

_RATE = Number(1e-6, 1e6)
_LATENCY_US = Number(0.0, 1e6)

CLUSTER_KEYS: Mapping[str, Key] = {
    "family": Key(Choice(("cluster",)), "which code reads the file"),
    "summary": Key(Text(), "the line in `mcmc targets`", default=""),
    "cluster.num_servers": Key(Number(1, 1024, whole=True), "servers of the cluster"),
    "cluster.devices_per_server": Key(Number(1, 64, whole=True), "devices in each of them"),
    "device.memory_mib": Key(Number(1.0, 2.0**24), "memory of one device"),
    "device.reserved_memory_mib": Key(
        Number(0.0, 2.0**24),
        "part of it that drivers and libraries keep for themselves",
        default=0.0,
    ),
    "device.memory_bandwidth_gb_per_s": Key(_RATE, "between a device and its memory"),
    "device.peak_tflop_per_s": Key(
        _RATE, "arithmetic rate of one device; a multiply-accumulate counts as two"
    ),
    "device.launch_overhead_us": Key(_LATENCY_US, "cost of starting one kernel", default=0.0),
    "intra_server.bandwidth_gb_per_s": Key(
        _RATE, "rate of one device to the others of its server, each way"
    ),
    "intra_server.latency_us": Key(_LATENCY_US, "delay of a message in a server", default=0.0),
    "inter_server.bandwidth_gbit_per_s": Key(
        _RATE, "rate between a server and the network, each way, shared by its devices"
    ),
    "inter_server.latency_us": Key(_LATENCY_US, "delay of a message between servers", default=0.0),
    "host.bandwidth_gb_per_s": Key(
        _RATE, "rate between the host and each device, each way", otherwise="16"
    ),
    "host.latency_us": Key(_LATENCY_US, "delay of one way", otherwise="5"),
    **support_keys("device", "devices"),
    **COST_KEYS,
}
"""Every key of the file by its dotted path; units stand in the names."""

CLUSTER_FORM = DescriptionForm("a cluster", tables_of(CLUSTER_KEYS))
"""The form of the file as a whole."""
