"""What each unit needs on its chip, once however many units there need it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.rows import starts
from mcm_passes.mapping.loads.demand_table import DemandTable
from mcm_passes.mapping.loads.shared_items import shared_items


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


def unit_items(problem: PartitionProblem, table: DemandTable) -> UnitItems:
    """The items of all units."""
    found = shared_items(problem, table)
    users = found.users.entries
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users, minlength=problem.num_units)
    return UnitItems(
        ptr=starts(counts),
        items=found.users.owners[order].astype(np.int32),
        seconds=found.busy_s,
        memory=(found.held + found.weight).astype(np.float64),
        arriving=found.host_in.astype(np.float64),
    )
