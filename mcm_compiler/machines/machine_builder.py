"""Making a machine channel by channel and route by route, as a family with few devices may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.machines.machine import Machine, row_of_places
from mcm_compiler.machines.routes import joined, routes_of


class MachineBuilder:
    """Collects the channels and the routes of a machine of D devices.

    Routes are written out, each on its own, which takes time and memory in the sum of their
    lengths. Families whose routes share most of their channels may make `Routes` themselves.

    Args:
        num_devices: D.
    """

    def __init__(self, num_devices: int) -> None:
        self.num_devices = num_devices
        self._ends: list[tuple[int, int]] = []
        self._rates: list[float] = []
        self._latencies: list[float] = []
        self._cuts: list[bool] = []
        self._routes: list[Sequence[int] | Ints] = [()] * (num_devices * (num_devices + 3))
        self._lanes: dict[int, Sequence[int] | Ints] = {}

    def channel(
        self,
        source: int,
        destination: int,
        bytes_per_s: float,
        latency_s: float = 0.0,
        *,
        cuts: bool = False,
    ) -> int:
        """Adds a channel; fields as in `Machine`.

        Returns:
            Its index.
        """
        self._ends.append((source, destination))
        self._rates.append(bytes_per_s)
        self._latencies.append(latency_s)
        self._cuts.append(cuts)
        return len(self._ends) - 1

    def route(
        self,
        source: int,
        destination: int,
        channels: Sequence[int] | Ints,
        lanes: Sequence[int] | Ints | None = None,
    ) -> None:
        """Says over which channels, in order, a tensor goes from one place to another.

        Args:
            source: a device, `HOST` or `OFF_PACKAGE`.
            destination: a device or `HOST`.
            channels: in the order of travel.
            lanes: the virtual channel of each; 0 where they are left out.

        Raises:
            ValueError: if there is no such pair of places.
        """
        row = row_of_places(source, destination, self.num_devices)
        self._routes[row] = channels
        if lanes is not None:
            self._lanes[row] = lanes

    def extend(
        self, source: int, destination: int, first: tuple[int, int], second: tuple[int, int]
    ) -> None:
        """Adds a route that is one after the other, unless one of the two leads nowhere."""
        parts = [row_of_places(*ends, self.num_devices) for ends in (first, second)]
        if not all(len(self._routes[row]) for row in parts):
            return
        channels = [channel for row in parts for channel in self._routes[row]]
        lanes = [
            lane for row in parts for lane in self._lanes.get(row, [0] * len(self._routes[row]))
        ]
        self.route(source, destination, channels, lanes)

    def routed(self, source: int, destination: int) -> bool:
        """Return whether there is a route from one place to another yet."""
        return len(self._routes[row_of_places(source, destination, self.num_devices)]) > 0

    def machine(
        self, family: str, memory_bytes: Sequence[int], speed: Sequence[float], **numbers: Any
    ) -> Machine:
        """The machine.

        Args:
            family: name of the family.
            memory_bytes: `[D]`.
            speed: `[D]`.
            numbers: those fields of `Machine` that have defaults.

        Raises:
            MachineError: as `Machine`.
        """
        return Machine(
            family=family,
            memory_bytes=np.array(memory_bytes, np.int64),
            speed=np.array(speed, np.float64),
            channel_bytes_per_s=np.array(self._rates, np.float64),
            channel_latency_s=np.array(self._latencies, np.float64),
            channel_ends=np.array(self._ends, np.int32).reshape(len(self._ends), 2),
            channel_cuts=np.array(self._cuts, np.bool_),
            routes=routes_of(self._routes),
            route_lanes=self._route_lanes(),
            **numbers,
        )

    def _route_lanes(self) -> Ints | None:
        if not self._lanes:
            return None
        lanes = joined(
            self._lanes.get(r, np.zeros(len(row), np.int32)) for r, row in enumerate(self._routes)
        )
        return lanes if lanes.any() else None


def joined_devices(
    family: str,
    memory_bytes: Longs,
    bytes_per_s: Floats,
    latency_s: Floats,
    device_kind: Ints | None = None,
) -> Machine:
    """A machine of D devices with a channel from each to each other one.

    Args:
        family: name of the family.
        memory_bytes: `[D]`.
        bytes_per_s: `[D, D]`, rate from device a to device b.
        latency_s: `[D, D]`, likewise.
        device_kind: `[D]`, or None where all devices are of one kind.
    """
    count = len(memory_bytes)
    made = MachineBuilder(count)
    for a, b in np.argwhere(~np.eye(count, dtype=np.bool_)).tolist():
        channel = made.channel(a, b, float(bytes_per_s[a, b]), float(latency_s[a, b]))
        made.route(a, b, (channel,))
    return made.machine(family, memory_bytes.tolist(), [1.0] * count, device_kind=device_kind)


def equal_shares(devices: int, machine: Machine) -> list[tuple[int, int]]:
    """All numbers of equal pipelines that count, with the devices of each, fewest first.

    Of numbers that leave each pipeline as many devices only the largest does: it gains most.

    Args:
        devices: of all pipelines together.
        machine: only shares that are alike count.
    """
    largest = {devices // count: count for count in range(1, devices + 1)}
    return [
        (count, each)
        for each, count in sorted(largest.items(), reverse=True)
        if shares_alike(machine, each, count)
    ]


def shares_alike(machine: Machine, each: int, count: int) -> bool:
    """Return whether consecutive devices can be divided among independent pipelines.

    Device `r * each + c` then stands in for device c, for all r: it is of the same kind, has as
    much memory and is as fast. Its routes to devices of its own share and to the host go over
    channels that are as fast. No channel is on routes of two shares, but those that all devices
    share. Where engines pass tensors on, they are those of the share. Of a ring with equal chips,
    shares always are alike.

    Args:
        machine: the machine.
        each: devices of each pipeline.
        count: how many pipelines there are.
    """
    if count == 1 or machine.is_ring:
        return True
    if each * count > machine.num_devices:
        return False
    device = np.arange(each)
    places = [device + r * each for r in range(count)]
    kinds = [] if machine.device_kind is None else [machine.device_kind]
    alike = all(
        np.array_equal(numbers[places[0]], numbers[there])
        for there in places
        for numbers in (machine.memory_bytes, machine.speed, *kinds)
    )
    if not alike:
        return False
    if machine.relays and not all(_keeps_inside(machine, there) for there in places):
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


def _keeps_inside(machine: Machine, devices: np.ndarray) -> bool:
    """True if routes among some devices come through no others."""
    ends = machine.channel_ends[_channels_of(machine, devices)[1]]
    return bool((np.isin(ends, devices) | (ends < 0)).all())


def _channels_of(machine: Machine, devices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the routes of some devices among themselves and outside; channels of all."""
    count, routes = machine.num_devices, machine.routes
    rows = np.concatenate(
        [
            (devices[:, None] * count + devices[None, :]).ravel(),
            *(count * (count + k) + devices for k in range(3)),
        ]
    )
    channels = np.concatenate([routes.row(row) for row in rows.tolist()]).astype(np.int64)
    return routes.lengths[rows], channels[~np.isin(channels, machine.shared_channels)]
