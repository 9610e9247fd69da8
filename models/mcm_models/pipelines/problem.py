"""Problem of pipeline planning as arrays: parts of a model in order, and devices in order.

A pipeline cuts both orders into the same number of stages. Stage k runs consecutive parts on
consecutive devices. On several devices it is replicated, and they share each micro-batch (data
parallelism inside a stage, as in Fan et al. 2021, *DAPPLE: A Pipelined Data Parallel Approach for
Training Large Models*).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.contracts.cluster import Cluster

Floats = NDArray[np.float64]

Schedule = Literal["1f1b", "gpipe"]
"""Order in which a stage works on its micro-batches. GPipe (Huang et al. 2019) runs all forward
passes and then all backward passes; PipeDream (Narayanan et al. 2019) one of each in turn as soon
as it can. Synchronous as in DAPPLE."""


@dataclass(frozen=True, eq=False)
class DeviceRow:
    """Devices in the order in which stages take them.

    Attributes:
        server_of: `[D]`, the server of each; never falls along the row.
        speed: `[D]`, rate of each relative to the device that times of parts speak of.
        memory_bytes: what each may hold.
        intra_bytes_per_s: rate of a device to another of its server, each way.
        inter_bytes_per_s: rate between a server and the network, each way.
        intra_latency_s: delay of a message in a server.
        inter_latency_s: delay of a message between servers.
    """

    server_of: NDArray[np.int32]
    speed: Floats
    memory_bytes: float
    intra_bytes_per_s: float
    inter_bytes_per_s: float
    intra_latency_s: float = 0.0
    inter_latency_s: float = 0.0

    @property
    def num_devices(self) -> int:
        """Devices of the row."""
        return len(self.server_of)

    @property
    def server_starts(self) -> NDArray[np.int64]:
        """First device of each server but the first."""
        return np.flatnonzero(np.diff(self.server_of)) + 1


def device_row(cluster: Cluster) -> DeviceRow:
    """The devices of a cluster, server by server."""
    return DeviceRow(
        server_of=np.repeat(np.arange(cluster.servers, dtype=np.int32), cluster.devices_per_server),
        speed=np.ones(cluster.num_devices),
        memory_bytes=float(cluster.memory_bytes),
        intra_bytes_per_s=cluster.intra_bytes_per_s,
        inter_bytes_per_s=cluster.inter_bytes_per_s,
        intra_latency_s=cluster.intra_latency_s,
        inter_latency_s=cluster.inter_latency_s,
    )


@dataclass(frozen=True, eq=False)
class PipelineProblem:
    """A model in n parts, to be cut into stages.

    All times and bytes but those of weights are of one micro-batch as a whole.

    Attributes:
        forward_s: `[n]`, seconds of the forward pass of each part on one device of speed 1.
        backward_s: `[n]`, seconds of its backward pass, recomputation included; 0 if nothing is
            trained.
        cut_bytes: `[n + 1]`, bytes of activations that cross the cut before each part; their
            gradients take as much on the way back. 0 at both ends.
        weight_bytes: `[n]`, bytes of the weights, and of their gradients, of each part.
        state_bytes: `[n]`, what each device of its stage holds for them: weights, and in training
            gradients and optimiser state.
        kept_bytes: `[n]`, bytes of activations that the backward pass of each part needs; without
            training, its largest working set.
        devices: the row of devices.
        stages: stages that are asked for.
        micro_batches: micro-batches of an iteration.
        training: whether there are backward passes and a reduction of gradients at the end.
        schedule: see `Schedule`.
        recompute: activations inside a stage are computed again for the backward pass, and only
            its inputs are kept per micro-batch (Huang et al. 2019, section 2.3).
        device_cuts: devices at which stages but the first may begin; None for all.
        rows: of a micro-batch, which stages on several devices divide: each device gets whole
            ones, so that no stage has more devices than rows. None where any share can be taken.
        rows_over: devices that each of the row stands for, which divide its rows again.
    """

    forward_s: Floats
    backward_s: Floats
    cut_bytes: Floats
    weight_bytes: Floats
    state_bytes: Floats
    kept_bytes: Floats
    devices: DeviceRow
    stages: int
    micro_batches: int = 16
    training: bool = True
    schedule: Schedule = "1f1b"
    recompute: bool = True
    device_cuts: tuple[int, ...] | None = None
    rows: int | None = None
    rows_over: int = 1

    @property
    def allowed_places(self) -> NDArray[np.bool_]:
        """`[D + 1]`, whether a stage may begin at each device; both ends are left out."""
        count = self.devices.num_devices
        allowed = np.zeros(count + 1, np.bool_)
        allowed[1:count] = self.device_cuts is None
        allowed[list(self.device_cuts or ())] = True
        return allowed

    @property
    def num_parts(self) -> int:
        """Parts of the model."""
        return len(self.forward_s)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline of S stages.

    Attributes:
        cuts: `S - 1` first parts of the stages but the first, ascending.
        devices: `S - 1` first devices of the stages but the first, ascending.
        length_s: seconds of one iteration, infinite where a stage does not fit into memory.
    """

    cuts: tuple[int, ...]
    devices: tuple[int, ...]
    length_s: float
