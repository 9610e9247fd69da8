"""Moves: legal, of all sorts, and within reach."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_passes.families.fabric.annealing.walkers import MoveShares, draw, uniform
from mcm_passes.families.fabric.routing_trees import flip, move, routed, tables_of
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import as_mapping, legal_mappings, small_fabric


def test_numbers_are_spread_evenly_and_follow_from_the_seed() -> None:
    first, second = np.array([7], np.uint64), np.array([7], np.uint64)
    numbers = np.array([uniform(first) for _ in range(4000)])
    assert 0 <= numbers.min() <= numbers.max() < 1
    assert np.histogram(numbers, 8, (0, 1))[0].min() > 420
    assert [uniform(second) for _ in range(5)] == list(numbers[:5])


def test_thousands_of_moves_keep_mappings_legal_and_reach_everything() -> None:
    problem, fabric = drawn_problem(4), small_fabric(6, 6)
    tables = tables_of(problem, fabric)
    state = routed(tables, legal_mappings(problem, fabric, 1, np.random.default_rng(0)))
    rng, drawn = np.array([3], np.uint64), np.zeros(2, np.int32)
    turned, reached = set(), [set() for _ in range(problem.num_units)]
    for _ in range(6000):
        draw(tables, state.site, rng, MoveShares(0.2, 0.5), 2.0, drawn)
        if drawn[0] < 0:
            turned.add(int(drawn[1]))
            flip(tables, state, int(drawn[1]))
        else:
            reached[drawn[0]].add(int(drawn[1]))
            move(tables, state, int(drawn[0]), int(drawn[1]))
    assert faults_of_mapping(problem, fabric, as_mapping(state)) == []
    assert len(turned) == problem.num_streams
    for unit, places in enumerate(reached):
        assert places == set(fabric.of_kind(int(problem.kind[unit])))


def test_moves_around_a_unit_stay_within_reach_where_sites_are() -> None:
    problem, fabric = drawn_problem(4), small_fabric(12, 12)
    tables = tables_of(problem, fabric)
    site = legal_mappings(problem, fabric, 1, np.random.default_rng(0)).site[0].copy()
    rng, drawn = np.array([3], np.uint64), np.zeros(2, np.int32)
    far = 0
    for _ in range(500):
        draw(tables, site, rng, MoveShares(0.0, 0.0), 2.0, drawn)
        old, new = fabric.switch[site[drawn[0]]], fabric.switch[drawn[1]]
        steps = np.abs(np.array(divmod(int(old), 12)) - divmod(int(new), 12))
        far += steps.max() > 2 and problem.kind[drawn[0]] != 2
    assert far < 25  # where chance finds no site within reach, one is taken anywhere
