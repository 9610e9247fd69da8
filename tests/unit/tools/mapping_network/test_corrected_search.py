"""Walks follow the formula first, and then the model that corrects it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from mapping_network.corrected_search import CorrectedAnnealing

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.mappers import Mapper, MapperAnswer, MapperRequest
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.formulas.analytic import Formula, PreparedFormula, RoundTrips
from tests.generators.mapping_doubles import SumJudge
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric


def mapped(mapper: Mapper, problem, fabric, model, **asked: Any) -> MapperAnswer:
    return mapper.map(MapperRequest(problem, fabric, model, SumJudge(), **asked))


@dataclass(frozen=True)
class Corrected:
    """A model that doubles a formula, and counts what it is asked."""

    corrected: Formula
    doubled: PreparedFormula
    asked: list[int] = field(default_factory=list[int])

    def period_cycles(self, mappings: Mappings) -> Floats:
        return 2 * self.doubled.period_cycles(mappings)

    def search_cost(self, mappings: Mappings) -> Floats:
        self.asked.append(len(mappings))
        return 2 * self.doubled.search_cost(mappings)


def test_a_search_by_a_corrected_formula_begins_by_the_formula() -> None:
    problem, fabric = drawn_problem(11), small_fabric(6, 6)
    prepared = RoundTrips().prepared(problem, fabric)
    request: dict[str, Any] = {"evaluations": 4000, "measurements": 0}
    alone = mapped(Annealing(), problem, fabric, prepared, **request)
    for before, share in ((0.0, 1.0), (0.6, 0.4), (1.0, 0.0)):
        model = Corrected(prepared.formula, prepared)
        mapper = CorrectedAnnealing(before=before)
        answer = mapped(mapper, problem, fabric, model, **request)
        assert sum(model.asked) == pytest.approx(share * 4000, abs=16 * 6)
        assert 3900 <= answer.evaluations <= 4000 + 16 * 6
        spent, costs = np.array(answer.history).T
        assert spent[0] == pytest.approx((1 - share) * 4000, abs=12)
        assert np.all(np.diff(costs) <= 0)
        assert prepared.search_cost(answer.mapping)[0] <= 1.05 * alone.history[-1][1]
    # With hardly anything to spend, the model is what is asked.
    model = Corrected(prepared.formula, prepared)
    mapped(CorrectedAnnealing(), problem, fabric, model, evaluations=4, measurements=0)
    assert sum(model.asked) == 4
