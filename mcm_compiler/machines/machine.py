"""Machines as arrays: devices, the channels between them, and the routes over channels.

A family of machines (a ring of chips, a mesh, servers of GPUs) describes itself once, as a
`Machine`. Whatever is between a family's own spaces knows devices, channels and routes only: what
a tensor loads follows from the channels on its route, and a channel that several routes share is
one entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from mcm_compiler.arrays.dags import find_circle
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.routes import Routes, followed_pairs, rows_with_circles, rows_with_gaps

RING = "ring"
"""The family of one-way rings, whose machines `mcm_compiler.machines.ring_machine` builds."""

HOST = -1
"""The host's place in wires, transfers and at the ends of channels."""

OFF_PACKAGE = -2
"""The place of off-package memory."""

HOST_ROOT = -3
"""Root of a channel that everything between host and devices shares."""

OFF_PACKAGE_ROOT = -4
"""The same for off-package memory."""


class MachineError(ValueError):
    """A machine that cannot be.

    Attributes:
        faults: what is wrong, a sentence each.
        circular: whether it is that routes wait for each other in a circle.
    """

    def __init__(self, faults: Sequence[str], *, circular: bool) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)
        self.circular = circular


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine of D devices and L channels. All arrays are read-only.

    A channel carries one tensor at a time, one way; one to or from a root, which all devices share,
    interleaves tensors. A route is the channels that a tensor crosses,
    in order; it is stored in each router between two of them, or goes on as soon as its head is
    there where both cut through.

    Attributes:
        family: name of the family of machines, such as `ring`.
        memory_bytes: `[D]`, memory of each device.
        speed: `[D]`, clock of each device relative to the one that the cost model speaks of.
        channel_bytes_per_s: `[L]`, rate of each channel.
        channel_latency_s: `[L]`, time on the way; the next tensor may follow meanwhile.
        channel_ends: `[L, 2]`, the place that a channel leaves and the one that it reaches: a
            device, `HOST`, `OFF_PACKAGE`, or a root of these.
        channel_cuts: `[L]`, whether a tensor goes on from this channel to another such one as soon
            as its head has arrived.
        routes: rows of channels. Row `a * D + b` leads from device a to device b, row `D * D + b`
            from the host to b, `D * D + D + a` from a to the host, and `D * D + 2 * D + b` from
            off-package memory to b. A row without channels means that there is no way.
            `mcm_compiler.machines.routes.routes_of` makes them from lists.
        channel_slots: receive buffers per tensor (2 is double buffering).
        buffer_alignment_bytes: buffers start at multiples of this.
        stream_buffers: buffers that streamed weights pass through. Estimates count them.
        activation_packing: space that estimates keep for the gaps of a memory plan, as a multiple
            of the peak of live bytes, at least 1.
        router_buffers: whether routers between channels hold `channel_slots` tensors of a transfer
            for a device that is not ready for them. Elsewhere a tensor that goes to a device has a
            receive buffer there before it leaves.
        relays: whether the engine of each device that a route between devices comes through
            receives a tensor and passes it on, with a copy. Such routes consist of those to the
            devices that they come through.
        route_lanes: `[len(routes.channels)]`, the virtual channel of each channel that a route
            takes, from 0; all share the channel's rate. None where each channel has one.
        device_kind: `[D]`, the kind of each device, from 0; kinds differ in the ops that they run,
            and in their times. None where all devices are of one kind.

    Raises:
        MachineError: for `machine_faults`, and for `route_circle`.
    """

    family: str
    memory_bytes: Longs
    speed: Floats
    channel_bytes_per_s: Floats
    channel_latency_s: Floats
    channel_ends: Ints
    channel_cuts: Bools
    routes: Routes
    channel_slots: int = 2
    buffer_alignment_bytes: int = 64
    stream_buffers: int = 2
    activation_packing: float = 1.25
    router_buffers: bool = False
    relays: bool = False
    route_lanes: Ints | None = None
    device_kind: Ints | None = None

    def __post_init__(self) -> None:
        if faults := machine_faults(self):
            raise MachineError(faults, circular=False)
        if circle := route_circle(self):
            raise MachineError([circle], circular=True)
        arrays = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        for array in (*arrays, *self.routes):
            array.setflags(write=False)

    @property
    def num_devices(self) -> int:
        """D."""
        return len(self.memory_bytes)

    @property
    def is_ring(self) -> bool:
        """True if placements take the first devices in order, and each sends to the next alone."""
        return self.family == RING

    @property
    def num_channels(self) -> int:
        """L."""
        return len(self.channel_bytes_per_s)

    @cached_property
    def reaches(self) -> Bools:
        """`[D, D]`, whether device a can send to device b; each reaches itself."""
        count = self.num_devices
        lengths = self.routes.lengths[: count * count]
        return (lengths > 0).reshape(count, count) | np.eye(count, dtype=np.bool_)

    @property
    def streams(self) -> bool:
        """True if weights that do not fit may come from off-package memory every inference."""
        count = self.num_devices
        first = count * (count + 2)
        return bool(np.any(self.routes.lengths[first:] > 0))

    @cached_property
    def shared_channels(self) -> tuple[int, ...]:
        """Channels between a root and the host, or off-package memory, which all devices share."""
        roots = np.isin(self.channel_ends, (HOST_ROOT, OFF_PACKAGE_ROOT)).any(axis=1)
        return tuple(np.flatnonzero(roots).tolist())

    @property
    def reads_once(self) -> bool:
        """True if one channel brings a weight to all devices that run the same."""
        ends = self.channel_ends[list(self.shared_channels)]
        return bool((ends == OFF_PACKAGE_ROOT).any())

    def next_devices(self, device: int) -> tuple[int, ...]:
        """The devices that a channel leads to from this one, ascending."""
        return _ascending(self.channel_ends[self.channel_ends[:, 0] == device, 1])

    def previous_devices(self, device: int) -> tuple[int, ...]:
        """The devices that a channel leads to this one from, ascending."""
        return _ascending(self.channel_ends[self.channel_ends[:, 1] == device, 0])

    def route(self, source: int, destination: int) -> tuple[int, ...]:
        """The channels from one place to another.

        Args:
            source: a device, `HOST`, or `OFF_PACKAGE`.
            destination: a device, or `HOST`.

        Raises:
            ValueError: if there is no such pair of places.
        """
        return tuple(int(c) for c in self.routes.row(route_row(self, source, destination)))

    def places(self, source: int, destination: int) -> tuple[int, ...]:
        """The devices that a route comes through, its ends among them where they are devices."""
        channels = self.route(source, destination)
        if not channels:
            return (source,) if source == destination >= 0 else ()
        ends = self.channel_ends[list(channels)]
        found = [int(ends[0, 0]), *(int(end) for end in ends[:, 1])]
        return tuple(place for place in found if place >= 0)


def _ascending(places: Ints) -> tuple[int, ...]:
    return tuple(int(place) for place in np.unique(places[places >= 0]))


def route_row(machine: Machine, source: int, destination: int) -> int:
    """The row of `Machine.routes` for a pair of places; see there.

    Raises:
        ValueError: if there is no such pair.
    """
    return row_of_places(source, destination, machine.num_devices)


def row_of_places(source: int, destination: int, num_devices: int) -> int:
    """The same for a machine of this many devices."""
    count = num_devices
    if 0 <= source < count and 0 <= destination < count:
        return source * count + destination
    if source == HOST and 0 <= destination < count:
        return count * count + destination
    if destination == HOST and 0 <= source < count:
        return count * (count + 1) + source
    if source == OFF_PACKAGE and 0 <= destination < count:
        return count * (count + 2) + destination
    raise ValueError(f"nothing leads from place {source} to place {destination}")


def machine_faults(machine: Machine) -> list[str]:
    """Contradictions in the numbers of a machine, in sentences; empty where there are none.

    Besides lengths and ranges: each route must lead from where it begins to where it ends, without
    a place twice. `route_circle` looks at all routes together.
    """
    count, channels = len(machine.memory_bytes), len(machine.channel_bytes_per_s)
    shapes = (
        ("speed", machine.speed.shape, (count,)),
        ("channel_latency_s", machine.channel_latency_s.shape, (channels,)),
        ("channel_ends", machine.channel_ends.shape, (channels, 2)),
        ("channel_cuts", machine.channel_cuts.shape, (channels,)),
        ("routes", machine.routes.begin.shape, (count * (count + 3),)),
        ("ends of routes", machine.routes.end.shape, (count * (count + 3),)),
    )
    faults = [
        f"{name} is {list(has)}, not {list(want)}" for name, has, want in shapes if has != want
    ]
    if faults or not count:
        return faults or ["there is no device"]
    if not bool(((machine.speed > 0) & np.isfinite(machine.speed)).all()):
        faults.append("a speed is not positive and finite")
    if not bool((machine.channel_bytes_per_s > 0).all()):
        faults.append("a rate is not positive")
    if not bool(((machine.channel_latency_s >= 0) & np.isfinite(machine.channel_latency_s)).all()):
        faults.append("a latency is negative or infinite")
    lowest, places = OFF_PACKAGE_ROOT, machine.channel_ends
    if places.size and not lowest <= int(places.min()) <= int(places.max()) < count:
        faults.append(f"a channel ends at none of the {count} devices, host and memory")
    routes = machine.routes
    used = routes.channels
    if used.size and not 0 <= int(used.min()) <= int(used.max()) < channels:
        faults.append(f"a route names none of the {channels} channels")
    if not bool(((routes.begin >= 0) & (routes.begin <= routes.end)).all()) or (
        int(routes.end.max()) > used.size
    ):
        faults.append("a route begins or ends outside of the channels of all routes")
    if (lanes := machine.route_lanes) is not None and (
        lanes.shape != used.shape or bool(((lanes < 0) | (lanes >= MOST_LANES)).any())
    ):
        faults.append(f"virtual channels of routes are not one of 0 to {MOST_LANES - 1} each")
    if (kind := machine.device_kind) is not None and (
        kind.shape != (count,) or bool(((kind < 0) | (kind >= MOST_KINDS)).any())
    ):
        faults.append(f"kinds of devices are not one of 0 to {MOST_KINDS - 1} each")
    if faults:
        return faults
    return _broken_routes(machine) or _routes_past_devices(machine)


def _broken_routes(machine: Machine) -> list[str]:
    """The first routes that do not lead from their source to their destination."""
    count, routes = machine.num_devices, machine.routes
    device = np.arange(count, dtype=np.int32)
    host, memory = np.full_like(device, HOST), np.full_like(device, OFF_PACKAGE)
    source = np.concatenate([np.repeat(device, count), host, device, memory])
    target = np.concatenate([np.tile(device, count), device, host, device])
    used = np.flatnonzero(routes.lengths > 0)
    broken = np.zeros(routes.size, np.bool_)
    first = machine.channel_ends[routes.channels[routes.begin[used]], 0]
    last = machine.channel_ends[routes.channels[routes.end[used] - 1], 1]
    broken[used] = ~_at(first, source[used]) | ~_at(last, target[used]) | (source == target)[used]
    broken |= rows_with_gaps(routes, machine.channel_ends)
    broken |= rows_with_circles(routes, machine.channel_ends)
    return [
        f"the route from {place_text(int(source[r]))} to {place_text(int(target[r]))} does not "
        "lead there without a circle"
        for r in np.flatnonzero(broken)[:MOST_FAULTS].tolist()
    ]


def _routes_past_devices(machine: Machine) -> list[str]:
    """The first routes between devices that engines cannot pass a tensor on along.

    They do not consist of the routes to the devices that they come through: on each the last hop is
    the same, and so are, in turn, those before it.
    """
    if not machine.relays:
        return []
    count, routes = machine.num_devices, machine.routes
    lengths = routes.lengths[: count * count].astype(np.int64)
    row = np.repeat(np.arange(count * count), lengths)
    place = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    channel = routes.channels[routes.begin[row] + place]
    ends = machine.channel_ends[channel].astype(np.int64)
    inside = (ends >= 0).all(axis=1)
    part = np.where(inside, row // count * count + ends[:, 1], 0)
    hop = np.where(inside, ends[:, 0] * count + ends[:, 1], 0)
    same = inside & (lengths[part] == place + 1) & (lengths[hop] == 1)
    same[same] &= routes.channels[routes.end[part[same]] - 1] == channel[same]
    same[same] &= routes.channels[routes.begin[hop[same]]] == channel[same]
    return [
        f"engines pass tensors on, and the route from device {a} to device {b} does not consist of "
        "those to the devices between"
        for a, b in (divmod(r, count) for r in np.unique(row[~same])[:MOST_FAULTS].tolist())
    ]


def _at(place: Ints, wanted: Ints) -> Bools:
    """Where places are those wanted; behind the host and off-package memory are their roots."""
    same = place == wanted
    for end, root in ((HOST, HOST_ROOT), (OFF_PACKAGE, OFF_PACKAGE_ROOT)):
        same |= (wanted == end) & (place == root)
    return same


MOST_LANES = 64
"""Virtual channels of one channel."""

MOST_KINDS = 64
"""Kinds of devices of one machine."""

MOST_FAULTS = 5
"""Routes that messages spell out."""


def place_text(place: int, device: str = "device") -> str:
    """A place in words, where devices are called `device`."""
    return {HOST: "the host", OFF_PACKAGE: "off-package memory"}.get(place, f"{device} {place}")


def route_circle(machine: Machine) -> str:
    """A circle of virtual channels of which each waits for the next on some route between devices.

    Where engines pass tensors on, only those to and from the host come over several channels.
    Tensors on such routes can block each other permanently (Dally and Seitz 1987, *Deadlock-Free
    Message Routing in Multiprocessor Interconnection Networks*).

    Args:
        machine: one without `machine_faults`.

    Returns:
        A sentence that names the circle; empty where there is none.
    """
    count = machine.num_devices
    rows = slice(count**2, count**2 + 2 * count) if machine.relays else slice(count**2)
    begin, end, channels = machine.routes
    if machine.route_lanes is not None:
        channels = channels + machine.num_channels * machine.route_lanes
    circle = np.array(
        find_circle(followed_pairs(Routes(begin[rows], end[rows], channels)).tolist())
    )
    if not circle.size:
        return ""
    ends = machine.channel_ends[circle % machine.num_channels]
    way = " -> ".join(f"{a} to {b}" for a, b in ends.tolist())
    return f"routes wait for each other in a circle over the channels {way}"


def same_machine(one: Machine, other: Machine) -> bool:
    """Return whether two machines have the same numbers in all fields."""
    for field in fields(Machine):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, Routes):
            same = all(map(np.array_equal, ours, theirs))
        else:
            same = np.array_equal(ours, theirs)
        if not same:
            return False
    return True


def refusal(error: MachineError, target: str) -> CompileError:
    """The refusal of a target whose machine cannot be.

    Args:
        error: what is wrong.
        target: its name.

    Returns:
        MCM-T014 where routes wait for each other in a circle, MCM-T015 for each other fault.
    """
    code = "MCM-T014" if error.circular else "MCM-T015"
    return CompileError(
        [Diagnostic(code, fault, at=f"target {quote(target)}") for fault in error.faults]
    )
