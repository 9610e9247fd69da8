"""Wires as transfers: who sends what to whom, and where each arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcm_compiler.program import Transfer
from mcm_compiler.target import HOST, Wire


@dataclass(frozen=True)
class TransferPlan:
    """All transfers of a package.

    Attributes:
        transfers: in the order of the wires, destinations ascending.
        arriving: transfer that brings a tensor, by `(chip, tensor)`.
        leaving: transfers that a chip sends of a tensor, by `(chip, tensor)`; those that its
            router passes on are not among them.
    """

    transfers: tuple[Transfer, ...]
    arriving: Mapping[tuple[int, str], int]
    leaving: Mapping[tuple[int, str], tuple[int, ...]]


def plan_transfers(
    wires: Sequence[Wire], tensor_bytes: Mapping[str, int], slots: int
) -> TransferPlan:
    """One transfer per wire and destination.

    A tensor crosses each link once: from its source it goes to the nearest destination, whose
    router passes it on to the next (`Transfer.after`), and so forth. The host sends to each of
    its destinations directly.

    Args:
        wires: all wires of the package.
        tensor_bytes: bytes on a link by tensor name.
        slots: receive buffers per tensor.

    Raises:
        ValueError: for a wire against the ring's direction, or a tensor that comes twice to a
            chip; both are faults of the splitter.
    """
    transfers: list[Transfer] = []
    arriving: dict[tuple[int, str], int] = {}
    leaving: dict[tuple[int, str], list[int]] = {}
    for wire in wires:
        size = tensor_bytes.get(wire.tensor, 0)
        previous = -1
        for destination in wire.destinations:
            if wire.source == destination == HOST:
                continue
            source, after = wire.source, -1
            if previous >= 0 and HOST not in (source, destination):
                source, after = transfers[previous].destination, previous
            if HOST not in (source, destination) and destination <= source:
                raise ValueError(f"wire '{wire.tensor}' runs from chip {source} to {destination}")
            index = len(transfers)
            transfers.append(Transfer(wire.tensor, source, destination, size, slots, after))
            if after < 0 and source != HOST:
                leaving.setdefault((source, wire.tensor), []).append(index)
            if destination != HOST:
                if (destination, wire.tensor) in arriving:
                    raise ValueError(f"'{wire.tensor}' comes to chip {destination} twice")
                arriving[destination, wire.tensor] = index
                previous = index
    sends = {key: tuple(indices) for key, indices in leaving.items()}
    return TransferPlan(tuple(transfers), arriving, sends)
