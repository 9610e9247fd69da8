"""The contract of clusters: servers of accelerators that models are trained or served on.

A cluster is no package of chips. Nothing is lowered to it and nothing simulated on it; formulas
estimate plans for it (`mcmc parallelize`). So it has a protocol of its own, next to
`mcm_compiler.contracts.target.Target`, found by the same names and in files of the same form.

Each server is a `Machine`. The cluster as a whole is none, for two reasons. A machine has a route
for each pair of devices, of which a cluster may have 65,536. And all devices of a server share its
way to the network, which a channel with two ends cannot say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mcm_compiler.contracts.described import Described

if TYPE_CHECKING:
    from mcm_compiler.machines.machine import Machine


@dataclass(frozen=True)
class Cluster:
    """The numbers of a cluster of equal servers with equal devices.

    Devices are numbered server by server: device d is in server `d // devices_per_server`.

    Attributes:
        servers: servers of the cluster.
        devices_per_server: devices in each.
        flops_per_s: peak rate of one device; a multiply-accumulate counts as two.
        memory_bytes_per_s: rate between a device and its memory.
        memory_bytes: memory of one device that a plan may use.
        intra_bytes_per_s: rate of one device to another of its server, each way.
        inter_bytes_per_s: rate between a server and the network, each way, shared by its devices.
        intra_latency_s: delay of a message inside a server.
        inter_latency_s: delay of a message between servers.
    """

    servers: int
    devices_per_server: int
    flops_per_s: float
    memory_bytes_per_s: float
    memory_bytes: int
    intra_bytes_per_s: float
    inter_bytes_per_s: float
    intra_latency_s: float = 0.0
    inter_latency_s: float = 0.0

    @property
    def num_devices(self) -> int:
        """Devices of all servers."""
        return self.servers * self.devices_per_server

    def server(self) -> Machine:
        """The devices of one server, with a channel from each to each other."""
        import numpy as np

        from mcm_compiler.machines.machine_builder import joined_devices

        count = self.devices_per_server
        memory = np.full(count, self.memory_bytes, np.int64)
        rates = np.full((count, count), self.intra_bytes_per_s)
        return joined_devices("server", memory, rates, np.full_like(rates, self.intra_latency_s))


@runtime_checkable
class ClusterTarget(Described, Protocol):
    """A cluster that plans can be made for."""

    @property
    def addition(self) -> str:
        """`clusters`."""
        ...

    @property
    def cluster(self) -> Cluster: ...
