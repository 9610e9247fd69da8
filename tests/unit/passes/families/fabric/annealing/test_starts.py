"""Mappings to begin from."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_passes.families.fabric.annealing.starts import built_mappings, random_mappings
from mcm_passes.families.fabric.formulas.analytic import WireLength
from mcm_passes.families.fabric.routing_trees import tables_of
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric


def test_starts_are_legal_and_differ() -> None:
    for seed in range(10):
        problem, fabric = drawn_problem(seed), small_fabric(6, 6)
        rng = np.random.default_rng(seed)
        drawn = random_mappings(problem, fabric, 20, rng)
        built = built_mappings(problem, tables_of(problem, fabric), 5, rng)
        assert faults_of_mapping(problem, fabric, drawn) == []
        assert faults_of_mapping(problem, fabric, built) == []
        assert len(np.unique(drawn.site, axis=0)) == 20
        assert len(np.unique(built.site, axis=0)) == 5


def test_built_mappings_have_short_wires() -> None:
    problem, fabric = drawn_problem(7), small_fabric(8, 8)
    rng = np.random.default_rng(0)
    wires = WireLength().prepared(problem, fabric)
    drawn = wires.search_cost(random_mappings(problem, fabric, 50, rng))
    built = wires.search_cost(built_mappings(problem, tables_of(problem, fabric), 10, rng))
    assert built.max() < drawn.min()


def test_each_site_is_as_likely_as_any_other() -> None:
    problem, fabric = drawn_problem(7), small_fabric(6, 6)
    drawn = random_mappings(problem, fabric, 2000, np.random.default_rng(0))
    sites = np.bincount(drawn.site[:, 1], minlength=fabric.num_sites)
    assert sites[fabric.of_kind(1)].min() > 70  # 2000 / 18 = 111
    assert 0.4 < drawn.turn.mean() < 0.6
