"""The tensors that engines of devices on the way pass on, on machines with `Machine.relays`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mcm_compiler.contracts.mapping import PassedOn
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import HOST, Machine


def passed_on(
    problem: PartitionProblem, machine: Machine, chip_of: Sequence[int]
) -> list[PassedOn]:
    """As `FamilyMapping.passed_on`: routes from the device that makes a tensor form a tree.

    Args:
        problem: the problem.
        machine: its machine, whose engines pass tensors on.
        chip_of: device of each unit.
    """
    found: list[PassedOn] = []
    made = (problem.tensor_producer >= 0) & ~problem.clonable[
        np.maximum(problem.tensor_producer, 0)
    ]
    for t in np.flatnonzero(made).tolist():
        maker = int(chip_of[problem.tensor_producer[t]])
        readers = {int(chip_of[u]) for u in problem.placed_readers.row(t).tolist()} - {maker}
        came_from: dict[int, int] = {}
        for reader in sorted(readers, key=lambda one: (len(machine.route(maker, one)), one)):
            for before, device in pairwise(machine.places(maker, reader)):
                came_from.setdefault(device, before)
        passed = {before for before in came_from.values() if before != maker}
        out = [one for one in machine.places(maker, HOST) if one in passed]
        collected = out[-1] if out and problem.tensor_to_host[t] else -1
        if passed:
            received = tuple(came_from)
            relays = tuple(device for device in received if device in passed)
            found.append(PassedOn(t, maker, received, tuple(came_from.values()), relays, collected))
    return found
