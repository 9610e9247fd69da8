"""Making a machine channel by channel and route by route, as a family with few devices may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.machines.machine import Machine, row_of_places
from mcm_compiler.machines.routes import routes_of


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
        self._routes: list[Sequence[int]] = [()] * (num_devices * (num_devices + 3))
        self._lanes: dict[int, Sequence[int]] = {}

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
        channels: Sequence[int],
        lanes: Sequence[int] | None = None,
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

    def routed(self, source: int, destination: int) -> bool:
        """Whether there is a route from one place to another yet."""
        return bool(self._routes[row_of_places(source, destination, self.num_devices)])

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
        if not any(map(any, self._lanes.values())):
            return None
        rows = (self._lanes.get(r, [0] * len(row)) for r, row in enumerate(self._routes))
        return np.array([lane for row in rows for lane in row], np.int32)
