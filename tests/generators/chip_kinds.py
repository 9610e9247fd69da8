"""Placement problems on machines whose devices are of several kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.kind_costs import KindCosts


def with_kinds(
    problem: PartitionProblem, seed: int, kinds: int = 2, lacking: float = 0.0
) -> PartitionProblem:
    """The same units on devices of random kinds, with random prices.

    Each unit takes from 0.3 to 3 times as long on a kind as in `problem`, each relay and each copy
    likewise.

    Args:
        problem: one with a machine.
        seed: of all numbers.
        kinds: how many there are; each has a device where there are enough.
        lacking: share of the pairs of kinds and units that cannot run; each unit runs somewhere.
    """
    rng = np.random.default_rng(seed)
    devices, units = problem.machine.num_devices, problem.num_units
    kind_of = rng.permutation(np.arange(devices) % kinds).astype(np.int32)
    unit_s = problem.compute_s * rng.uniform(0.3, 3.0, (kinds, units))
    relay_s = problem.relay_s * rng.uniform(0.3, 3.0, (kinds, problem.relay_s.size))
    runs = rng.random((kinds, units)) >= lacking
    there = np.unique(kind_of[: problem.num_chips])
    runs[rng.choice(there, units), np.arange(units)] = True
    copies = problem.copies
    if copies is not None:
        copy_s = copies.seconds * rng.uniform(0.3, 3.0, (kinds, copies.tensor.size))
        copies = replace(copies, seconds=copy_s.ravel())
    names = tuple(f"kind {k}" for k in range(kinds))
    costs = KindCosts.of(names, unit_s, relay_s, runs, rng.uniform(0.2, 2.0, kinds))
    return replace(
        problem,
        compute_s=costs.units.min(axis=0),
        relay_s=costs.relays.min(axis=0),
        kinds=costs,
        copies=copies,
        given_machine=replace(problem.machine, device_kind=kind_of),
    )
