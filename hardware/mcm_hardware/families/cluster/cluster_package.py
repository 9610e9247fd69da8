"""The family of clusters: a `ClusterTarget` made from a TOML description."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcm_compiler.contracts.cluster import Cluster
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.chip.named_costs import CostPair
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.support_keys import read_support, support_keys
from mcm_hardware.descriptions.target_schema import (
    COST_KEYS,
    Choice,
    DescriptionForm,
    Key,
    Number,
    Text,
    tables_of,
)
from mcm_hardware.package.described_target import DescribedTarget

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport

HOST_GB_PER_S = 16.0
"""PCI Express 3.0 with 16 lanes, about."""

HOST_LATENCY_US = 5.0
"""Of a small copy between host and device."""


@dataclass(frozen=True)
class ClusterSpec:
    """What a description says.

    Attributes:
        summary: one line.
        cluster: the numbers that plans are made with.
        launch_s: cost of starting one kernel on a device.
        support: what devices can run; None where they run everything.
        host_bytes_per_s: rate between the host and each device, each way.
        host_latency_s: delay of one way.
    """

    summary: str
    cluster: Cluster
    launch_s: float
    support: OpSupport | None = None
    host_bytes_per_s: float = HOST_GB_PER_S * 1e9
    host_latency_s: float = HOST_LATENCY_US * 1e-6


def parse_cluster(name: str, text: str) -> ClusterSpec:
    """The cluster that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `cluster_schema`.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction, MCM-T006 and MCM-T016 for names of
            types and ops that there are not.
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
    more = ("bandwidth_gb_per_s", "latency_us")
    support = read_support(reader, values, "device", more)
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
    return ClusterSpec(
        values["summary"],
        cluster,
        number("device.launch_overhead_us", 1e-6),
        support,
        float(values.get("host.bandwidth_gb_per_s", HOST_GB_PER_S)) * 1e9,
        float(values.get("host.latency_us", HOST_LATENCY_US)) * 1e-6,
    )


@dataclass(frozen=True)
class ClusterPackage(DescribedTarget):
    """Implements `mcm_compiler.contracts.cluster.ClusterTarget`."""

    spec: ClusterSpec

    @classmethod
    def from_text(cls, name: str, text: str) -> ClusterPackage:
        """Makes the cluster from a description.

        Raises:
            CompileError: MCM-T001 to MCM-T008, one diagnostic per fault.
        """
        return cls(name, parse_cluster(name, text), text)

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        cluster = self.cluster
        return self.spec.summary or (
            f"cluster of {cluster.servers} servers with {cluster.devices_per_server} devices each"
        )

    @property
    def cluster(self) -> Cluster:
        """The numbers that plans are made with."""
        return self.spec.cluster

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`."""
        description = parse_description(self.name, self.source_text)
        values = DescriptionReader(description, CLUSTER_FORM).read(description.data, CLUSTER_KEYS)
        sections: dict[str, dict[str, str | float]] = {}
        for path, value in values.items():
            table, _, key = path.rpartition(".")
            if table:
                shown = ", ".join(value) if isinstance(value, list) else value
                sections.setdefault(table, {})[key] = shown
        cluster = self.cluster
        sections["derived"] = {
            "num_devices": cluster.num_devices,
            "usable_device_memory_mib": cluster.memory_bytes / 2**20,
            "cluster_memory_mib": cluster.num_devices * cluster.memory_bytes / 2**20,
            "cluster_peak_tflop_per_s": cluster.num_devices * cluster.flops_per_s / 1e12,
            "flops_per_memory_byte": cluster.flops_per_s / cluster.memory_bytes_per_s,
        }
        return sections

    @property
    def op_support(self) -> OpSupport | None:
        """What devices can run; None where they run everything."""
        return self.spec.support

    def beside_host(self, pair: CostPair) -> CostPair:
        """The cost models with round trips between a device and its host."""
        spec = self.spec
        if spec.support is None:
            return pair
        from mcm_hardware.chip.host_fallback import HostLink, with_host

        link = HostLink(spec.host_bytes_per_s, spec.host_latency_s)
        beside = [
            with_host(costs, spec.support, link, spec.launch_s, 1.0)
            for costs in (pair.searched, pair.played)
        ]
        return CostPair(*beside)

    def own_costs(self) -> CostPair:
        """The roofline of one device, for search and for what is played."""
        from mcm_hardware.chip.roofline import device_roofline

        own = device_roofline(
            self.cluster.flops_per_s,
            self.cluster.memory_bytes_per_s,
            self.cluster.memory_bytes,
            self.spec.launch_s,
        )
        return CostPair(own, own)


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
