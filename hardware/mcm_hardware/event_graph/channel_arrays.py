"""The channels and routes of a machine as plain arrays that compiled code reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import expanded_njit
from mcm_compiler.arrays.types import Bools, Floats, Ints
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine


class ChannelArrays(NamedTuple):
    """What serves one activity at a time on a machine of D devices, as `L + D` resources.

    Resource c below L is channel c; resource `L + d` is the compute engine of device d, which has
    neither rate nor latency.

    Attributes:
        num_devices: D.
        num_channels: L.
        bytes_per_s: `[L]`, rate of each channel.
        latency_s: `[L]`, delay of each channel.
        shared: `[L]`, whether the channel is one that all devices share.
        cuts: `[L]`, whether a tensor goes on to another such channel as soon as its head is there.
        router_buffers: as in `Machine`.
        route_begin: `[R]`, as in `mcm_compiler.machines.routes.Routes`, like the next two; rows as
        in
            `Machine.routes`.
        route_end: `[R]`.
        routes: channels of all routes.
    """

    num_devices: int
    num_channels: int
    bytes_per_s: Floats
    latency_s: Floats
    shared: Bools
    cuts: Bools
    router_buffers: bool
    route_begin: Ints
    route_end: Ints
    routes: Ints


def channel_arrays(machine: Machine) -> ChannelArrays:
    """The channels and routes of a machine, read-only, which is what code is compiled for."""
    routes = machine.routes
    shared = np.zeros(machine.num_channels, np.bool_)
    shared[list(machine.shared_channels)] = True
    return ChannelArrays(
        num_devices=machine.num_devices,
        num_channels=machine.num_channels,
        bytes_per_s=_frozen(machine.channel_bytes_per_s, np.float64),
        latency_s=_frozen(machine.channel_latency_s, np.float64),
        shared=_frozen(shared, np.bool_),
        cuts=_frozen(machine.channel_cuts, np.bool_),
        router_buffers=machine.router_buffers,
        route_begin=_frozen(routes.begin, np.int32),
        route_end=_frozen(routes.end, np.int32),
        routes=_frozen(routes.channels, np.int32),
    )


def _frozen(array: npt.NDArray[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """The array, or a copy where it is of another kind or layout."""
    same = np.ascontiguousarray(array, kind)
    same.setflags(write=False)
    return same


@expanded_njit
def row_of_route(source: int, destination: int, num_devices: int) -> int:
    """As `mcm_compiler.machines.machine.route_row`, without a check."""
    if source == HOST:
        return num_devices * num_devices + destination
    if source == OFF_PACKAGE:
        return num_devices * (num_devices + 2) + destination
    if destination == HOST:
        return num_devices * (num_devices + 1) + source
    return source * num_devices + destination
