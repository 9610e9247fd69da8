"""Random small problems on rings, whose placements can all be tried under every objective."""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.package_limits import UnitEnergies
from tests.generators.partition_problems import make_problem


def objective_problem(seed: int, most_units: int = 6) -> PartitionProblem:
    """A problem at need: up to six units on up to four chips.

    Half of them have equal chips that each reach the host, so that pipelines can stand side by
    side. Nothing is streamed through a channel that chips share, and no chip shares its way from
    the host, as bounds over order ideals do not count those for each chip. Memory is whole blocks
    of the alignment: of what is left of one the fast model makes use, and no memory plan.
    """
    rng = np.random.default_rng(seed)
    units, chips = int(rng.integers(2, most_units + 1)), int(rng.integers(1, 5))
    dense = 0.8 if rng.random() < 0.3 else 0.35
    edges = [(u, v) for v in range(units) for u in range(v) if rng.random() < dense]
    readers = [v for u, v in edges if u == 0]
    weights = [
        (
            int(rng.integers(1, 900)),
            sorted(set(rng.integers(0, units, int(rng.integers(1, 4))).tolist())),
        )
        for _ in range(int(rng.integers(0, 4)))
    ]
    sizes = rng.choice([64, 1000, 9000], 2 * units).tolist()
    alike = bool(rng.random() < 0.5)
    ends = not alike and bool(rng.random() < 0.5)
    problem = make_problem(
        rng.integers(1, 10, units).tolist(),
        edges,
        chips=chips,
        speeds=[] if alike else rng.choice([0.5, 1.0, 2.0], chips).tolist(),
        stream=float(rng.choice([0.0, 0.0, 1e8, 1e9])),
        host_io="ends" if ends else "any",
        forwarding="router" if not ends and rng.random() < 0.3 else "engine",
        clonable=[0] if len(readers) >= 2 and rng.random() < 0.4 else [],
        weights=weights,
        sram=int(rng.choice([1984, 8000, 40_000, 1 << 20])),
        tensor_bytes=lambda index: int(sizes[index]),
        relay_us=float(rng.choice([0.1, 3.0])),
    ).at_need()
    # After all else, so that the problems of a seed stay what they were.
    return dataclasses.replace(problem, energy=random_energies(problem, rng))


def random_energies(problem: PartitionProblem, rng: np.random.Generator) -> UnitEnergies:
    """Energies of which now the one and now the other sets the least; some cost nothing."""
    link, host, memory = rng.choice([0.0, 1e-12, 1e-11, 1e-9], 3).tolist()
    return UnitEnergies(
        unit_j=rng.integers(1, 1000, problem.num_units) * 1e-9,
        relay_j=rng.integers(0, 100, problem.tensor_bytes.size) * 1e-9,
        link_byte_j=link,
        host_byte_j=host,
        memory_byte_j=memory,
    )
