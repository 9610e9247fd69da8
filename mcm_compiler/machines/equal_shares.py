"""Which equal shares of a package can run the same pipeline side by side."""

from __future__ import annotations

import numpy as np

from mcm_compiler.machines.machine import Machine


def equal_shares(devices: int, machine: Machine | None = None) -> list[tuple[int, int]]:
    """All numbers of equal pipelines that count, with the devices of each, fewest first.

    Of numbers that leave each pipeline as many devices only the largest does: it gains most.

    Args:
        devices: of all pipelines together.
        machine: where they are no ring of equal chips; only shares that are alike count then.
    """
    largest = {devices // count: count for count in range(1, devices + 1)}
    return [
        (count, each)
        for each, count in sorted(largest.items(), reverse=True)
        if machine is None or shares_alike(machine, each, count)
    ]


def shares_alike(machine: Machine, each: int, count: int) -> bool:
    """Whether consecutive devices can be divided among pipelines that do not notice each other.

    Device `r * each + c` then stands in for device c, for all r: it has as much memory and is as
    fast, its routes to devices of its own share and to the host go over channels that are as fast,
    and no channel is on routes of two shares.

    Args:
        machine: the machine.
        each: devices of each pipeline.
        count: how many pipelines there are.
    """
    if count == 1:
        return True
    if each * count > machine.num_devices:
        return False
    device = np.arange(each)
    places = [device + r * each for r in range(count)]
    alike = all(
        np.array_equal(numbers[places[0]], numbers[there])
        for there in places
        for numbers in (machine.memory_bytes, machine.speed)
    )
    if not alike:
        return False
    lengths, first = _channels_of(machine, places[0])
    taken = set(first.tolist())
    for there in places[1:]:
        its_lengths, own = _channels_of(machine, there)
        if not np.array_equal(lengths, its_lengths) or taken & set(own.tolist()):
            return False
        taken |= set(own.tolist())
        pairs = np.unique(np.stack([first, own], axis=1), axis=0)
        # One channel stands in for one other, wherever it is on a route.
        if any(np.unique(pairs[:, side]).size < len(pairs) for side in (0, 1)):
            return False
        for numbers in (
            machine.channel_bytes_per_s,
            machine.channel_latency_s,
            machine.channel_cuts,
        ):
            if not np.array_equal(numbers[first], numbers[own]):
                return False
    return True


def _channels_of(machine: Machine, devices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the routes of some devices among themselves and outside; channels of all."""
    count, routes = machine.num_devices, machine.routes
    rows = np.concatenate(
        [
            (devices[:, None] * count + devices[None, :]).ravel(),
            *(count * (count + k) + devices for k in range(3)),
        ]
    )
    channels = [routes.row(row) for row in rows.tolist()]
    return routes.lengths[rows], np.concatenate(channels).astype(np.int64)
