"""Prefix sums over parts and numbers of device ranges: all that the formula of a pipeline reads.

The same tables serve NumPy, numba and JAX: a named tuple is a record for the one and a tree for the
other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit
from mcm_models.pipelines.problem import Floats, PipelineProblem

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
