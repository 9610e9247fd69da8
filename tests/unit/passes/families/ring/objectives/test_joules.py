"""The energy of placements on a ring, against a plain reading of what costs what."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_passes.families.ring.objectives.ring_objectives import (
    RingEnergy,
    energy_of,
    joule_problem,
    least_energy,
)
from tests.generators.objective_problems import objective_problem, random_energies
from tests.generators.partition_problems import make_problem
from tests.oracles.plain_objectives import PlainPlacement, every_placement


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_plain_reading(seed):
    problem = objective_problem(seed, most_units=5)
    energy, bound = RingEnergy(problem), least_energy(problem)
    placements = every_placement(problem)
    chosen = np.random.default_rng(seed).permutation(len(placements))[:40]
    for chips in (placements[at] for at in chosen):
        plain = PlainPlacement(problem, chips).figures()
        assert energy(np.array(chips, np.int32)) == pytest.approx(plain.energy_j, rel=1e-9)
        assert bound.seconds <= plain.energy_j


def test_a_chain_over_two_chips_by_hand():
    problem = make_problem([4, 6], [(0, 1)], chips=2, tensor_bytes=1000)
    energies = dataclasses.replace(
        random_energies(problem, np.random.default_rng(0)),
        unit_j=np.array([3e-9, 5e-9]), link_byte_j=2e-12, host_byte_j=4e-12,
    )  # fmt: skip
    energy = RingEnergy(dataclasses.replace(problem, energy=energies))
    assert energy(np.array([0, 0])) == pytest.approx(8e-9 + 2 * 1000 * 4e-12)
    assert energy(np.array([0, 1])) == pytest.approx(8e-9 + 2 * 1000 * 4e-12 + 1000 * 2e-12)
    assert energy(np.array([1, 0])) == float("inf")


def test_without_energies_nothing_is_told():
    problem = make_problem([4, 6], [(0, 1)], chips=2)
    assert energy_of(problem, np.array([0, 0])) == float("inf")
    with pytest.raises(ValueError, match="energy"):
        joule_problem(problem)
