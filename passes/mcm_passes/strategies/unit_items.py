"""What each unit needs on its chip, once however many units there need it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
    users = _users_of_clones(problem)
    room = tensor_rooms(problem)
    anywhere = problem.limits.host_io == "any"
    made = problem.tensor_producer
    cloned = np.flatnonzero(problem.clonable)

    clone_bytes = np.zeros(problem.num_units)
    by_clone = np.flatnonzero((made >= 0) & problem.clonable[np.maximum(made, 0)])
    np.add.at(clone_bytes, made[by_clone], room[by_clone])
    clone_of = np.concatenate(
        [np.zeros(0, np.int64), *(np.full(users[u].size, k) for k, u in enumerate(cloned.tolist()))]
    ).astype(np.int64)
    clone_users = np.concatenate([np.zeros(0, np.int64), *(users[u] for u in cloned.tolist())])

    weight_of, weight_users = _expanded(
        np.repeat(np.arange(problem.weight_bytes.size), np.diff(problem.weight_ptr)),
        problem.weight_users,
        problem,
        users,
    )
    rows = np.repeat(np.arange(made.size), np.diff(problem.tensor_ptr))
    from_host = made[rows] < 0
    inputs, readers = _expanded(
        rows[from_host], problem.tensor_consumers[from_host], problem, users
    )
    weights = problem.weight_bytes.size
    first_input = cloned.size + weights
    item = np.concatenate([clone_of, cloned.size + weight_of])
    unit = np.concatenate([clone_users, weight_users])
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


def _users_of_clones(problem: PartitionProblem) -> dict[int, npt.NDArray[np.int64]]:
    """The units with a place of their own that need each clonable unit, through others or not."""
    users: dict[int, npt.NDArray[np.int64]] = {}
    tensors_of: dict[int, list[int]] = {u: [] for u in np.flatnonzero(problem.clonable).tolist()}
    for t, u in enumerate(problem.tensor_producer.tolist()):
        if u in tensors_of:
            tensors_of[u].append(t)
    for u in sorted(tensors_of, reverse=True):
        found = [np.zeros(0, np.int64)]
        for t in tensors_of[u]:
            readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            found.append(readers[~problem.clonable[readers]].astype(np.int64))
            found += [users[v] for v in readers[problem.clonable[readers]].tolist()]
        users[u] = np.unique(np.concatenate(found))
    return users


def _expanded(
    owners: npt.NDArray[np.int64],
    units: Ints,
    problem: PartitionProblem,
    users: dict[int, npt.NDArray[np.int64]],
) -> tuple[Longs, Longs]:
    """The pairs with each clonable unit replaced by those that need it."""
    direct = ~problem.clonable[units]
    through = np.flatnonzero(~direct)
    found = [users[u] for u in units[through].tolist()]
    lengths = np.array([len(f) for f in found], np.int64)
    owner = np.concatenate([owners[direct], np.repeat(owners[through], lengths)])
    unit = np.concatenate([units[direct].astype(np.int64), *found])
    return owner.astype(np.int64), unit
