"""The family of clusters: a `ClusterTarget` made from a TOML description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from mcm_compiler.cluster import Cluster
from mcm_compiler.cost import CostModel
from mcm_compiler.cost_choice import CostChoice
from mcm_compiler.cost_files import with_cost_model_text
from mcm_compiler.toml_description import parse_description
from mcm_hardware.chosen_costs import CostPair, chosen_pair
from mcm_hardware.description_reader import DescriptionReader
from mcm_hardware.families.cluster.cluster_file import ClusterSpec, parse_cluster
from mcm_hardware.families.cluster.cluster_schema import CLUSTER_FORM, CLUSTER_KEYS


@dataclass(frozen=True)
class ClusterPackage:
    """Implements `mcm_compiler.cluster.ClusterTarget`.

    Attributes:
        name: as the user names it.
        spec: its numbers.
        source_text: the TOML that it was made from.
        cost_choice: a cost model instead of its own.
    """

    name: str
    spec: ClusterSpec
    source_text: str
    cost_choice: CostChoice | None = None

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
                sections.setdefault(table, {})[key] = value
        cluster = self.cluster
        sections["derived"] = {
            "num_devices": cluster.num_devices,
            "usable_device_memory_mib": cluster.memory_bytes / 2**20,
            "cluster_memory_mib": cluster.num_devices * cluster.memory_bytes / 2**20,
            "cluster_peak_tflop_per_s": cluster.num_devices * cluster.flops_per_s / 1e12,
            "flops_per_memory_byte": cluster.flops_per_s / cluster.memory_bytes_per_s,
        }
        return sections

    def with_cost_model(self, choice: CostChoice) -> ClusterPackage:
        """The same cluster with times from another cost model.

        Raises:
            CompileError: MCM-C008 if the description cannot name it, and as `CostChoice.model`.
        """
        text = with_cost_model_text(self.name, self.source_text, choice.text)
        chosen = replace(self, source_text=text, cost_choice=choice)
        chosen.cost_model()  # faults are told before anything is planned
        return chosen

    def cost_model(self) -> CostModel:
        """The model of one device: its roofline, or what was chosen.

        Raises:
            CompileError: MCM-C004 where the description names a cost model with files, and was not
                loaded from a file.
        """
        return self._costs.searched

    @cached_property
    def _costs(self) -> CostPair:
        from mcm_hardware.families.cluster.device_roofline import device_roofline

        own = device_roofline(self.cluster, self.spec.launch_s)
        return chosen_pair(CostPair(own, own), self)
