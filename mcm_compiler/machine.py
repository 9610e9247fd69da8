"""What models run on, as arrays: devices, the channels between them, and the routes over channels.

A family of machines (a ring of chips, a mesh, servers of GPUs) describes itself once, as a
`Machine`. Whatever lies between a family's own rooms knows devices, channels and routes only: what
a tensor loads follows from the channels on its route, and a channel that several routes share is
one entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mcm_compiler.rows import Rows

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

HOST = -1
"""The host's place in wires, transfers and at the ends of channels."""

OFF_PACKAGE = -2
"""The place of off-package memory."""

HOST_ROOT = -3
"""What lies behind a channel that everything between host and devices shares."""

OFF_PACKAGE_ROOT = -4
"""The same for off-package memory."""


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine of D devices and L channels. All arrays are read-only.

    A channel carries one tensor at a time, one way. A route is the channels that a tensor crosses,
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
        channel_slots: receive buffers per tensor (2 is double buffering).
        buffer_alignment_bytes: buffers start at multiples of this.
        stream_buffers: buffers that streamed weights pass through. Estimates count them.
        activation_packing: room that estimates keep for the gaps of a memory plan, as a multiple
            of the peak of live bytes, at least 1.

    Raises:
        ValueError: if lengths do not match, a route is not connected, or a number is none that a
            channel or a device can have. For what comes from strangers see `machine_faults`.
    """

    family: str
    memory_bytes: Longs
    speed: Floats
    channel_bytes_per_s: Floats
    channel_latency_s: Floats
    channel_ends: Ints
    channel_cuts: Bools
    routes: Rows
    channel_slots: int = 2
    buffer_alignment_bytes: int = 64
    stream_buffers: int = 2
    activation_packing: float = 1.25

    def __post_init__(self) -> None:
        if faults := machine_faults(self):
            raise ValueError("; ".join(faults))
        arrays = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        for array in (*arrays, self.routes.ptr, self.routes.entries):
            array.setflags(write=False)

    @property
    def num_devices(self) -> int:
        """D."""
        return len(self.memory_bytes)

    @property
    def num_channels(self) -> int:
        """L."""
        return len(self.channel_bytes_per_s)

    @cached_property
    def reaches(self) -> Bools:
        """`[D, D]`, whether device a can send to device b; each reaches itself."""
        count = self.num_devices
        lengths = np.diff(self.routes.ptr[: count * count + 1])
        return (lengths > 0).reshape(count, count) | np.eye(count, dtype=np.bool_)

    @property
    def streams(self) -> bool:
        """Whether weights that do not fit may come from off-package memory every inference."""
        count = self.num_devices
        first = count * (count + 2)
        return bool(np.any(np.diff(self.routes.ptr[first:]) > 0))

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
    count = machine.num_devices
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
    """What is wrong with the numbers of a machine, in sentences; empty where nothing is.

    Besides lengths and ranges: each route must lead from where it begins to where it ends, without
    a device twice, and no circle of channels may wait for each other, each for the next on some
    route between devices, since tensors on such routes can block each other for good (Dally and
    Seitz 1987, *Deadlock-Free Message Routing in Multiprocessor Interconnection Networks*).
    """
    count, channels = len(machine.memory_bytes), len(machine.channel_bytes_per_s)
    shapes = (
        ("speed", machine.speed.shape, (count,)),
        ("channel_latency_s", machine.channel_latency_s.shape, (channels,)),
        ("channel_ends", machine.channel_ends.shape, (channels, 2)),
        ("channel_cuts", machine.channel_cuts.shape, (channels,)),
        ("routes", (len(machine.routes.ptr),), (count * (count + 3) + 1,)),
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
    entries = machine.routes.entries
    if entries.size and not 0 <= int(entries.min()) <= int(entries.max()) < channels:
        faults.append(f"a route names a channel beside the {channels} that there are")
    if faults:
        return faults
    return _broken_routes(machine) or _circle(machine)


def _broken_routes(machine: Machine) -> list[str]:
    """The first routes that do not lead from their source to their destination."""
    count = machine.num_devices
    ptr, entries = machine.routes.ptr, machine.routes.entries
    starts, ends = machine.channel_ends[entries, 0], machine.channel_ends[entries, 1]
    lengths = np.diff(ptr)
    row = np.repeat(np.arange(lengths.size), lengths)
    first = np.zeros(entries.size, np.bool_)
    last = np.zeros(entries.size, np.bool_)
    used = lengths > 0
    first[ptr[:-1][used]] = True
    last[ptr[1:][used] - 1] = True
    device = np.arange(count)
    roots = {HOST: (HOST, HOST_ROOT), OFF_PACKAGE: (OFF_PACKAGE, OFF_PACKAGE_ROOT)}
    host, memory = np.full(count, HOST), np.full(count, OFF_PACKAGE)
    source = np.concatenate([np.repeat(device, count), host, device, memory])
    target = np.concatenate([np.tile(device, count), device, host, device])

    def at(place: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> Bools:
        same = place == wanted
        for end, names in roots.items():
            same |= (wanted == end) & np.isin(place, names)
        return same

    broken = first & ~at(starts, source[row]) | last & ~at(ends, target[row])
    inner = np.flatnonzero(~first)
    broken[inner] |= starts[inner] != ends[inner - 1]
    visits = row * (count + 1) + ends
    seen, times = np.unique(visits[ends >= 0], return_counts=True)
    twice = set((seen[times > 1] // (count + 1)).tolist())
    wrong = sorted({*row[broken].tolist(), *twice})
    own = [r for r in np.flatnonzero(used[: count * count]).tolist() if r // count == r % count]
    wrong = sorted({*wrong, *own})
    return [
        f"the route from {_place(int(source[r]))} to {_place(int(target[r]))} does not lead there "
        "without a circle"
        for r in wrong[:MOST_FAULTS]
    ]


MOST_FAULTS = 5
"""Routes that messages spell out."""


def _place(place: int) -> str:
    return {HOST: "the host", OFF_PACKAGE: "off-package memory"}.get(place, f"device {place}")


def _circle(machine: Machine) -> list[str]:
    """A circle of channels that wait for each other on routes between devices."""
    count = machine.num_devices
    ptr = machine.routes.ptr[: count * count + 1]
    entries = machine.routes.entries[: int(ptr[-1])]
    if entries.size < 2:
        return []
    follows = np.ones(entries.size, np.bool_)
    follows[ptr[:-1][np.diff(ptr) > 0]] = False
    at = np.flatnonzero(follows)
    pairs = np.unique(np.stack([entries[at - 1], entries[at]], axis=1), axis=0)
    waiting = np.bincount(pairs[:, 1], minlength=machine.num_channels)
    after: list[list[int]] = [[] for _ in range(machine.num_channels)]
    for a, b in pairs.tolist():
        after[a].append(b)
    free = np.flatnonzero(waiting == 0).tolist()
    left = waiting.tolist()
    while free:
        for b in after[free.pop()]:
            left[b] -= 1
            if not left[b]:
                free.append(b)
    stuck = {c for c in range(machine.num_channels) if left[c]}
    if not stuck:
        return []
    ends = machine.channel_ends[_circle_among(stuck, pairs)]
    way = " -> ".join(f"{a} to {b}" for a, b in ends.tolist())
    return [f"routes wait for each other in a circle over the channels {way}"]


def _circle_among(stuck: set[int], pairs: Longs) -> list[int]:
    """Channels of one circle among those that are left when all that end are taken away."""
    before = {b: a for a, b in pairs.tolist() if a in stuck and b in stuck}
    seen: list[int] = []
    at = min(before)
    while at not in seen:
        seen.append(at)
        at = before[at]
    return seen[seen.index(at) :][::-1]


def same_machine(one: Machine, other: Machine) -> bool:
    """Whether two machines have the same numbers in all fields."""
    for field in fields(Machine):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, Rows):
            same = all(map(np.array_equal, ours, theirs))
        else:
            same = np.array_equal(ours, theirs)
        if not same:
            return False
    return True


def rows_of(lists: Sequence[Sequence[int]]) -> Rows:
    """Rows from lists, such as the channels of each route."""
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    return Rows(ptr, np.array([c for row in lists for c in row], np.int64))
