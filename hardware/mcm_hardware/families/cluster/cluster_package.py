"""The family of clusters: a `ClusterTarget` made from a TOML description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcm_compiler.contracts.cluster import Cluster
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.chip.chosen_costs import CostPair
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.families.cluster.cluster_file import ClusterSpec, parse_cluster
from mcm_hardware.families.cluster.cluster_schema import CLUSTER_FORM, CLUSTER_KEYS
from mcm_hardware.package.described_target import DescribedTarget

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport


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
        from mcm_hardware.chip.device_roofline import device_roofline

        own = device_roofline(
            self.cluster.flops_per_s,
            self.cluster.memory_bytes_per_s,
            self.cluster.memory_bytes,
            self.spec.launch_s,
        )
        return CostPair(own, own)
