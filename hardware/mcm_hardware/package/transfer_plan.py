"""Wires as transfers: sender, receivers and places of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcm_compiler.contracts.program import Transfer
from mcm_compiler.contracts.target import Wire
from mcm_compiler.machines.machine import HOST, HOST_ROOT, Machine, place_text


@dataclass(frozen=True)
class TransferPlan:
    """All transfers of a package.

    Attributes:
        transfers: in the order of the wires, nearest destinations first.
        arriving: transfer that brings a tensor, by `(chip, tensor)`.
        leaving: transfers that a chip sends of a tensor, by `(chip, tensor)`; those that its
            router passes on are not among them.
    """

    transfers: tuple[Transfer, ...]
    arriving: Mapping[tuple[int, str], int]
    leaving: Mapping[tuple[int, str], tuple[int, ...]]


def plan_transfers(
    wires: Sequence[Wire], tensor_bytes: Mapping[str, int], machine: Machine
) -> TransferPlan:
    """One transfer per wire and destination.

    A destination on the way to another one passes the tensor on to it (`Transfer.after`), so that
    it crosses no channel twice; of several, the last on the way does. Where the route to a
    destination is none of another one's and the rest, the source sends there itself.

    Args:
        wires: all wires of the package.
        tensor_bytes: bytes on a channel by tensor name.
        machine: devices, channels and routes.

    Raises:
        ValueError: for a wire along which no route leads, or a tensor that comes twice to a
            chip; both are faults of the splitter.
    """
    transfers: list[Transfer] = []
    arriving: dict[tuple[int, str], int] = {}
    leaving: dict[tuple[int, str], list[int]] = {}
    ways: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    brought: dict[tuple[int, str], tuple[int, ...]] = {}
    for wire in wires:
        size = tensor_bytes.get(wire.tensor, 0)
        there = brought.get((wire.source, wire.tensor), ())
        brought[wire.source, wire.tensor] = (*there, *(d for d in wire.destinations if d != HOST))
        key = (wire.source, *wire.destinations, HOST_ROOT, *there)
        if key not in ways:
            ways[key] = _ways(wire, there, machine)
        for destination, via in ways[key]:
            after = arriving[via, wire.tensor] if via >= 0 else -1
            source = via if via >= 0 else wire.source
            index = len(transfers)
            transfers.append(
                Transfer(wire.tensor, source, destination, size, machine.channel_slots, after)
            )
            if after < 0 and source != HOST:
                leaving.setdefault((source, wire.tensor), []).append(index)
            if destination != HOST:
                if (destination, wire.tensor) in arriving:
                    raise ValueError(f"'{wire.tensor}' comes to chip {destination} twice")
                arriving[destination, wire.tensor] = index
    sends = {key: tuple(indices) for key, indices in leaving.items()}
    return TransferPlan(tuple(transfers), arriving, sends)


def _ways(wire: Wire, there: Sequence[int], machine: Machine) -> list[tuple[int, int]]:
    """Each destination of a wire with the one that passes the tensor on to it, or -1.

    Nearest first, by channels on the route and then by number, so that the one that passes on comes
    before; what the source itself sends to the host comes first. What the host sends comes in the
    order of the wire where routes are as long. Those that the tensor reaches by wires before pass
    it on as well.
    """
    source = wire.source
    routes: dict[int, tuple[int, ...]] = {}
    for destination in wire.destinations:
        if source == destination == HOST:
            continue
        route = machine.route(source, destination)
        if not route:
            ends = f"{place_text(source, 'chip')} to {place_text(destination, 'chip')}"
            raise ValueError(f"no route leads wire '{wire.tensor}' from {ends}")
        routes[destination] = route
    wanted = tuple(routes)
    routes |= {end: machine.route(source, end) for end in there}
    via = {end: _passed_on_by(end, routes, machine) for end in wanted}

    def place(end: int) -> tuple[bool, int, int]:
        itself = end == HOST and via[end] < 0
        return not itself, len(routes[end]), 0 if source == HOST else end

    return [(destination, via[destination]) for destination in sorted(wanted, key=place)]


def _passed_on_by(destination: int, routes: Mapping[int, tuple[int, ...]], machine: Machine) -> int:
    """The last destination on the way to another one that the tensor can go on from, or -1."""
    route = routes[destination]
    for crossed in range(len(route) - 1, 0, -1):
        via = int(machine.channel_ends[route[crossed - 1], 1])
        if (
            via in routes
            and via != HOST
            and routes[via] == route[:crossed]
            and machine.route(via, destination) == route[crossed:]
        ):
            return via
    return -1
