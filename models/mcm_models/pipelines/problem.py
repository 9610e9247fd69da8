"""Problem of pipeline planning as arrays: parts of a model in order, and devices in order.

A pipeline cuts both orders into the same number of stages. Stage k runs consecutive parts on
consecutive devices. On several devices it is replicated, and they share each micro-batch (data
parallelism inside a stage, as in Fan et al. 2021, *DAPPLE: A Pipelined Data Parallel Approach for
Training Large Models*).

Tables of prefix sums over parts and of numbers of device ranges are all that the formula of a
pipeline reads. The same tables serve NumPy, numba and JAX: a named tuple is a record for the one
and a tree for the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit
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


NO_ROOM = 1e200
"""Share of a micro-batch on a device that may not have any; infinity times nothing is no number."""


MOST_MEMORY = 1e100
"""Bytes that any device has at most."""


class NetworkTimes(NamedTuple):
    """How long a message takes; scalars.

    Attributes:
        intra: seconds per byte from one device to another of its server.
        inter: seconds per byte between a server and the network.
        intra_latency: seconds of a message in a server.
        inter_latency: seconds of a message between servers.
    """

    intra: float
    inter: float
    intra_latency: float
    inter_latency: float


class PipelineTables(NamedTuple):
    """A `PipelineProblem` for evaluation; `[a, b]` is about the devices a to b - 1.

    Attributes:
        forward: `[n + 1]`, prefix sums of seconds forward.
        backward: `[n + 1]`, of seconds backward.
        weights: `[n + 1]`, of bytes of gradients.
        state: `[n + 1]`, of bytes of weights with their state.
        kept: `[n + 1]`, of bytes of activations that are kept.
        cut: `[n + 1]`, bytes at each cut.
        speed: `[D + 1, D + 1]`, sum of speeds, less where rows are not divided evenly.
        share: `[D + 1, D + 1]`, largest share of a micro-batch that a device takes.
        servers: `[D + 1, D + 1]`, servers of the range.
        busiest: `[D + 1, D + 1]`, largest share of a micro-batch on the devices of one server.
        reduce: `[D + 1, D + 1]`, seconds per byte of a reduction of gradients.
        reduce_start: `[D + 1, D + 1]`, its seconds for no bytes at all.
        network: of messages in and between servers.
        memory: bytes that a device may hold.
        micro_batches: of an iteration.
        both_ways: 1 where there are backward passes, 0 where not.
        gpipe: 1 for the schedule of GPipe, 0 for one forward, one backward.
        recompute: 1 where activations are computed again, 0 where they are kept.
    """

    forward: Any
    backward: Any
    weights: Any
    state: Any
    kept: Any
    cut: Any
    speed: Any
    share: Any
    servers: Any
    busiest: Any
    reduce: Any
    reduce_start: Any
    network: NetworkTimes
    memory: float
    micro_batches: float
    both_ways: float
    gpipe: float
    recompute: float


def pipeline_tables(problem: PipelineProblem) -> PipelineTables:
    """The tables of a problem, in float64.

    A ring all-reduce of W bytes over r devices moves 2 (r - 1) / r W bytes over each link. It takes
    2 (r - 1) steps (Patarasuk and Yuan 2009, *Bandwidth Optimal All-reduce Algorithms for Clusters
    of Workstations*). Over m servers it is hierarchical: a reduce-scatter in each server, a ring
    over the servers' network links, an all-gather in each server.
    """
    row = problem.devices
    count = row.num_devices
    first, last = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
    used = first < last
    speed = _range_sums(row.speed)
    fastest, local, servers, busiest = _range_numbers(
        np.asarray(row.server_of, np.int64), np.asarray(row.speed, np.float64)
    )
    safe_speed = np.where(used, speed, 1.0)
    share = np.where(used, fastest / safe_speed, 1.0)
    if problem.rows is not None:
        safe_speed, share = _whole_rows(problem.rows, problem.rows_over, safe_speed, share)
    inside = np.where(used, 2.0 * (local - 1.0) / np.maximum(local, 1.0), 0.0)
    across = np.where(used, 2.0 * (servers - 1.0) / np.maximum(servers, 1.0), 0.0)
    steps_inside = np.where(used, 2.0 * (local - 1.0), 0.0)
    steps_across = np.where(used, 2.0 * (servers - 1.0), 0.0)
    training = float(problem.training)
    return PipelineTables(
        forward=_prefix(problem.forward_s),
        backward=_prefix(problem.backward_s) * training,
        weights=_prefix(problem.weight_bytes),
        state=_prefix(problem.state_bytes),
        kept=_prefix(problem.kept_bytes),
        cut=np.asarray(problem.cut_bytes, np.float64),
        speed=safe_speed,
        share=share,
        servers=servers,
        busiest=busiest,
        reduce=training * (inside / row.intra_bytes_per_s + across / row.inter_bytes_per_s),
        reduce_start=training
        * (steps_inside * row.intra_latency_s + steps_across * row.inter_latency_s),
        network=NetworkTimes(
            intra=1.0 / row.intra_bytes_per_s,
            inter=1.0 / row.inter_bytes_per_s,
            intra_latency=row.intra_latency_s,
            inter_latency=row.inter_latency_s,
        ),
        memory=min(float(row.memory_bytes), MOST_MEMORY),
        micro_batches=float(problem.micro_batches),
        both_ways=training,
        gpipe=float(problem.schedule == "gpipe"),
        recompute=float(problem.recompute),
    )


def _whole_rows(rows: int, over: int, speed: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Speeds and shares where every device takes whole rows, the most of them as many as it has to.

    Ranges of more devices than rows hold what no memory has space for.
    """
    devices = np.arange(len(speed))
    width = np.maximum(devices[np.newaxis, :] - devices[:, np.newaxis], 1) * over
    # What the busiest device has beyond an equal share, all devices of a range being as fast.
    beyond = np.ceil(rows / width) * width / rows
    narrow = width <= rows
    return np.where(narrow, speed / beyond, speed), np.where(narrow, share * beyond, NO_ROOM)


def _prefix(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


def _range_sums(values: Floats) -> Floats:
    """`[D + 1, D + 1]`, sums of values a to b - 1; meaningless where b <= a."""
    prefix = _prefix(values)
    return prefix[np.newaxis, :] - prefix[:, np.newaxis]


@entry_njit
def _range_numbers(
    server_of: NDArray[np.int64], speed: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """`[D + 1, D + 1]` each, of devices a to b - 1.

    Greatest speed, most devices of one server, servers, and largest share of the speed in one.
    """
    count = len(server_of)
    fastest, local, servers, busiest = (
        np.zeros((count + 1, count + 1)),
        np.zeros((count + 1, count + 1)),
        np.zeros((count + 1, count + 1)),
        np.zeros((count + 1, count + 1)),
    )
    for a in range(count):
        here, here_speed, most_speed, total = 0, 0.0, 0.0, 0.0
        for b in range(a + 1, count + 1):
            if b == a + 1 or server_of[b - 1] != server_of[b - 2]:
                here, here_speed = 0, 0.0
                servers[a, b] = servers[a, b - 1] + 1.0
            else:
                servers[a, b] = servers[a, b - 1]
            here += 1
            here_speed += speed[b - 1]
            total += speed[b - 1]
            most_speed = max(most_speed, here_speed)
            fastest[a, b] = max(fastest[a, b - 1], speed[b - 1])
            local[a, b] = max(local[a, b - 1], float(here))
            busiest[a, b] = most_speed / total
    return fastest, local, servers, busiest
