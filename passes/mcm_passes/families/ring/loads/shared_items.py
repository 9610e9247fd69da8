"""What a chip needs once, however many of its units there want it: inputs, clones and weights.

An *item* is charged to each chip with one of its users. Inputs are items where the host sends them
to every chip that reads them; elsewhere they travel along the ring like what units make.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Rows, starts
from mcm_compiler.contracts.partition import Bools, Floats, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import CLONED, EVERYWHERE
from mcm_passes.mapping.loads.demand_table import DemandTable, Resource, Subject, Trigger


class SharedItems(NamedTuple):
    """I items: inputs that the host sends to every reader, then clones, then weights.

    Attributes:
        users: `[I]` rows of the units with a place of their own that want each.
        busy_s: `[I]`, chip seconds.
        held: `[I]`, bytes of buffers.
        weight: `[I]`, bytes of weights.
        enters: `[I]`, whether the host sends it, also where it has no bytes.
        host_in: `[I]`, bytes that arrive from the host.
    """

    users: Rows
    busy_s: Floats
    held: Longs
    weight: Longs
    enters: Bools
    host_in: Longs


def shared_items(problem: PartitionProblem, table: DemandTable) -> SharedItems:
    """The items of a problem; some may have no user.

    Args:
        problem: the problem.
        table: its demands.
    """
    inputs = np.flatnonzero(table.kinds & EVERYWHERE)
    clones = np.flatnonzero(problem.clonable)
    made = np.zeros(problem.num_units, np.int64)
    by_clones = np.flatnonzero(table.kinds & CLONED)
    rooms = table.amount(Subject.TENSOR, Trigger.MADE, Resource.HELD)
    np.add.at(made, problem.tensor_producer[by_clones], rooms[by_clones])
    weights = table.amount(Subject.WEIGHT, Trigger.READ, Resource.WEIGHT)
    parts = (
        problem.placed_readers.chosen(inputs),
        problem.clone_closure.chosen(clones),
        problem.placed_weight_users,
    )
    none = tuple(np.zeros(part.size, np.int64) for part in parts)
    busy_s = table.amount(Subject.UNIT, Trigger.MADE, Resource.BUSY)[clones]
    received = table.amount(Subject.TENSOR, Trigger.RECEIVED, Resource.HELD)[inputs]
    entered = table.amount(Subject.TENSOR, Trigger.ENTERED, Resource.HOST_IN)[inputs]
    return SharedItems(
        users=Rows(
            starts(np.concatenate([np.diff(part.ptr) for part in parts])),
            np.concatenate([part.entries for part in parts]),
        ),
        busy_s=np.concatenate([none[0], busy_s, none[2]]).astype(np.float64),
        held=np.concatenate([received, made[clones], none[2]]).astype(np.int64),
        weight=np.concatenate([none[0], none[1], weights]).astype(np.int64),
        enters=np.arange(sum(part.size for part in parts)) < inputs.size,
        host_in=np.concatenate([entered, none[1], none[2]]).astype(np.int64),
    )
