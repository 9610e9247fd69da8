"""What each unit needs on its chip, once however many units there need it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_passes.partitioning.rooms import tensor_rooms, weight_rooms


class UnitItems(NamedTuple):
    """Weights, clones, and graph inputs that the host sends to every chip, as *items* of units.

    A clone's own weights and inputs are items of the units that need the clone.

    Attributes:
        ptr: `[N + 1]`, CSR of the items of each unit; clonable units have none.
        items: distinct items of each unit.
        seconds: `[I]`, chip seconds of each item.
        memory: `[I]`, bytes that it takes.
        arriving: `[I]`, bytes that come from the host for it.
    """

    ptr: Longs
    items: Ints
    seconds: Floats
    memory: Floats
    arriving: Floats


class HostReaders(NamedTuple):
    """Who reads each graph input, on its own or through clones, for packages with host ends."""

    tensors: Longs
    units: Longs


def unit_items(problem: PartitionProblem) -> tuple[UnitItems, HostReaders]:
    """The items of all units, and the readers of graph inputs that travel on the ring."""
    room = tensor_rooms(problem)
    anywhere = problem.limits.host_io == "any"
    made = problem.tensor_producer
    cloned = np.flatnonzero(problem.clonable)

    clone_bytes = np.zeros(problem.num_units)
    by_clone = np.flatnonzero((made >= 0) & problem.clonable[np.maximum(made, 0)])
    np.add.at(clone_bytes, made[by_clone], room[by_clone])
    clone_users = problem.clone_closure.chosen(cloned)
    weight_users = problem.placed_weight_users
    from_host = np.flatnonzero(made < 0)
    read_by = problem.placed_readers.chosen(from_host)
    inputs, readers = from_host[read_by.owners], read_by.entries
    weights = problem.weight_bytes.size
    first_input = cloned.size + weights
    item = np.concatenate([clone_users.owners, cloned.size + weight_users.owners])
    unit = np.concatenate([clone_users.entries, weight_users.entries])
    if anywhere:
        item = np.concatenate([item, first_input + inputs])
        unit = np.concatenate([unit, readers])
    count = first_input + (made.size if anywhere else 0)
    pairs = np.unique(unit * np.int64(max(count, 1)) + item)
    lengths = np.bincount(pairs // max(count, 1), minlength=problem.num_units)
    no_inputs = np.zeros(made.size if anywhere else 0)
    items = UnitItems(
        ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        items=(pairs % max(count, 1)).astype(np.int32),
        seconds=np.concatenate([problem.compute_s[cloned], np.zeros(weights), no_inputs]),
        memory=np.concatenate(
            [
                clone_bytes[cloned],
                weight_rooms(problem),
                problem.limits.channel_slots * room if anywhere else no_inputs,
            ]
        ).astype(np.float64),
        arriving=np.concatenate(
            [np.zeros(first_input), problem.tensor_bytes if anywhere else no_inputs]
        ).astype(np.float64),
    )
    return items, HostReaders(inputs, readers)
