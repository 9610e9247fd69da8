"""The family of clusters: a `ClusterTarget` made from a TOML description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mcm_compiler.contracts.cluster import Cluster
from mcm_compiler.contracts.target import Resource
from mcm_hardware.chip.chip_spec import DeviceNumbers
from mcm_hardware.chip.named_costs import CostPair
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.device_keys import device_keys, read_device
from mcm_hardware.descriptions.packaged_targets import packaged
from mcm_hardware.descriptions.support_keys import support_keys
from mcm_hardware.descriptions.target_schema import (
    BANDWIDTH,
    COST_KEYS,
    LATENCY_US,
    DescriptionForm,
    Key,
    Number,
    family_keys,
)
from mcm_hardware.package.chips_package import DescribedTarget

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport

HOST_GB_PER_S = 16.0
"""PCI Express 3.0 with 16 lanes, about."""

HOST_LATENCY_US = 5.0
"""Of a small copy between host and device."""


@dataclass(frozen=True)
class ClusterSpec:
    """Content of a description.

    Attributes:
        summary: one line.
        cluster: the numbers that plans are made with.
        device: the numbers of one device.
        host_bytes_per_s: rate between the host and each device, each way.
        host_latency_s: delay of one way.
    """

    summary: str
    cluster: Cluster
    device: DeviceNumbers
    host_bytes_per_s: float = HOST_GB_PER_S * 1e9
    host_latency_s: float = HOST_LATENCY_US * 1e-6


def parse_cluster(name: str, text: str) -> ClusterSpec:
    """The cluster that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `cluster_schema`.

    Raises:
        CompileError: with one diagnostic per fault. MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction. MCM-T006 and MCM-T016 for unknown types
            and ops.
    """
    reader = DescriptionReader(name, text, CLUSTER_FORM)
    values, number = reader.values, reader.number
    device = read_device(reader, values, "device", ("bandwidth_gb_per_s", "latency_us"))
    reader.refuse()
    if device is None:
        raise ValueError("numbers of a device are missing, though nothing is at fault")
    cluster = Cluster(
        servers=values["cluster.num_servers"],
        devices_per_server=values["cluster.devices_per_server"],
        flops_per_s=device.flops_per_s,
        memory_bytes_per_s=device.memory_bytes_per_s,
        memory_bytes=device.memory_bytes,
        intra_bytes_per_s=number("intra_server.bandwidth_gb_per_s", 1e9),
        inter_bytes_per_s=number("inter_server.bandwidth_gbit_per_s", 1e9 / 8),
        intra_latency_s=number("intra_server.latency_us", 1e-6),
        inter_latency_s=number("inter_server.latency_us", 1e-6),
    )
    return ClusterSpec(
        values["summary"],
        cluster,
        device,
        float(values.get("host.bandwidth_gb_per_s", HOST_GB_PER_S)) * 1e9,
        float(values.get("host.latency_us", HOST_LATENCY_US)) * 1e-6,
    )


@dataclass(frozen=True)
class ClusterPackage(DescribedTarget):
    """Implements `mcm_compiler.contracts.cluster.ClusterTarget`."""

    addition: ClassVar[str] = "clusters"
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

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Scalable resources, in the order of reports."""
        return RESOURCES

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`."""
        sections = DescriptionReader(self.name, self.source_text, CLUSTER_FORM).sections()
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
        """Ops that devices can run; None where they run everything."""
        return self.spec.device.support

    def beside_host(self, pair: CostPair) -> CostPair:
        """The cost models with round trips between a device and its host."""
        device = self.spec.device
        support = device.support
        if support is None:
            return pair
        from mcm_hardware.chip.op_support import HostFallbackCosts, HostLink

        link = HostLink(self.spec.host_bytes_per_s, self.spec.host_latency_s)
        launch_s = device.launch_s
        return pair.each(lambda costs: HostFallbackCosts(costs, support, link, launch_s, 1.0))

    def own_costs(self) -> CostPair:
        """The roofline of one device, for search and for what is played."""
        from mcm_hardware.chip.roofline import device_roofline

        own = device_roofline(self.spec.device)
        return CostPair(own, own)


RESOURCES = (
    Resource("arithmetic rate", ("device.peak_tflop_per_s",)),
    Resource("memory rate", ("device.memory_bandwidth_gb_per_s",)),
    Resource("memory", ("device.memory_mib",)),
    Resource("rate in servers", ("intra_server.bandwidth_gb_per_s",)),
    Resource("rate between servers", ("inter_server.bandwidth_gbit_per_s",)),
    Resource("servers", ("cluster.num_servers",)),
)
"""Scalable resources of a cluster, in the order of reports."""

CLUSTER_KEYS: Mapping[str, Key] = {
    **family_keys("cluster"),
    "cluster.num_servers": Key(Number(1, 1024, whole=True), "servers of the cluster"),
    "cluster.devices_per_server": Key(Number(1, 64, whole=True), "devices in each of them"),
    **{f"device.{name}": key for name, key in device_keys("kernel").items()},
    "intra_server.bandwidth_gb_per_s": Key(
        BANDWIDTH, "rate of one device to the others of its server, each way"
    ),
    "intra_server.latency_us": Key(LATENCY_US, "delay of a message in a server", default=0.0),
    "inter_server.bandwidth_gbit_per_s": Key(
        BANDWIDTH, "rate between a server and the network, each way, shared by its devices"
    ),
    "inter_server.latency_us": Key(LATENCY_US, "delay of a message between servers", default=0.0),
    "host.bandwidth_gb_per_s": Key(
        BANDWIDTH, "rate between the host and each device, each way", otherwise="16"
    ),
    "host.latency_us": Key(LATENCY_US, "delay of one way", otherwise="5"),
    **support_keys("device", "devices"),
    **COST_KEYS,
}
"""Every key of the file by its dotted path; units stand in the names."""

CLUSTER_FORM = DescriptionForm("a cluster", CLUSTER_KEYS)
"""The form of the file as a whole."""


config_a, config_b, config_c = packaged(
    ClusterPackage.from_text, "mcm_hardware.families.cluster", "config-a", "config-b", "config-c"
)
"""The clusters that come with the compiler."""
