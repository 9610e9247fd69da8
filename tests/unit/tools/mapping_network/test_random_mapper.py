"""The control keeps to its evaluations, and answers with the best of what it measured."""

from __future__ import annotations

import numpy as np
from mapping_network.random_mapper import RandomMapper

from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from tests.generators.mapping_doubles import SumJudge
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric


def test_the_best_of_some_measured_mappings_is_the_answer() -> None:
    problem, fabric, judge = drawn_problem(11), small_fabric(6, 6), SumJudge()
    model = RoundTrips().prepared(problem, fabric)
    request = MapperRequest(problem, fabric, model, judge, evaluations=600, measurements=4)
    one, same = RandomMapper().map(request), RandomMapper().map(request)
    assert faults_of_mapping(problem, fabric, one.mapping) == []
    assert one.evaluations == 600
    assert one.period_cycles == judge.seen[0].site.sum(axis=1).min()
    np.testing.assert_array_equal(one.mapping.site, same.mapping.site)
