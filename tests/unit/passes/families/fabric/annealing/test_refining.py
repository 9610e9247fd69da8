"""Refining: measurements beyond one for each walk go on from what measured best."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer, MapperRequest
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from tests.generators.mapping_doubles import PluginModel, SumJudge
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric

PROBLEM, FABRIC = drawn_problem(11), small_fabric(6, 6)
WALKS = Annealing().chains


def answered(
    measurements: int,
    judge: SumJudge,
    model: PreparedMappingModel | None = None,
    seed: int = 0,
    mapper: Annealing | None = None,
) -> MapperAnswer:
    """What annealing finds with 6,000 evaluations; the judge knows nothing of the model."""
    prepared = RoundTrips().prepared(PROBLEM, FABRIC) if model is None else model
    request = MapperRequest(
        PROBLEM, FABRIC, prepared, judge, measurements, evaluations=6000, seed=seed
    )
    return (mapper or Annealing()).map(request)


@pytest.mark.parametrize("plugin", [False, True])
def test_further_measurements_find_what_the_model_does_not_know(plugin: bool) -> None:
    prepared = RoundTrips().prepared(PROBLEM, FABRIC)
    few, many = [], []
    for seed in range(5):
        model = PluginModel(prepared) if plugin else prepared
        few.append(answered(WALKS, SumJudge(), model, seed).period_cycles)
        many.append(answered(60, SumJudge(), model, seed).period_cycles)
    assert np.mean(many) < 0.97 * np.mean(few)


@pytest.mark.parametrize("plugin", [False, True])
def test_answers_are_the_best_that_was_measured_and_within_what_was_allowed(plugin: bool) -> None:
    prepared = RoundTrips().prepared(PROBLEM, FABRIC)
    for measurements in (WALKS + 1, 40):
        judge, model = SumJudge(), PluginModel(prepared) if plugin else prepared
        answer = answered(measurements, judge, model)
        measured = Mappings.stacked(judge.seen)
        assert answer.measurements == len(measured) <= measurements
        assert len(np.unique(np.c_[measured.site, measured.turn], axis=0)) == len(measured)
        assert answer.period_cycles == measured.site.sum(axis=1).min()
        assert answer.latency_cycles == 10 * answer.period_cycles
        assert answer.mapping.site.sum() == answer.period_cycles
        assert faults_of_mapping(PROBLEM, FABRIC, answer.mapping) == []
        # A batch that has begun is finished, that of each walk.
        assert answer.evaluations <= 6000 + 16 * (6 + measurements)
        if isinstance(model, PluginModel):
            assert model.asked == answer.evaluations


def test_the_same_seed_measures_the_same_mappings() -> None:
    first, second, other = SumJudge(), SumJudge(), SumJudge()
    for judge, seed in ((first, 0), (second, 0), (other, 1)):
        answered(30, judge, seed=seed)
    sites = [Mappings.stacked(judge.seen).site for judge in (first, second, other)]
    np.testing.assert_array_equal(sites[0], sites[1])
    assert not np.array_equal(sites[0], sites[2])


def test_nothing_is_refined_where_it_is_switched_off_or_there_is_too_little_for_it() -> None:
    judge = SumJudge()
    answer = answered(60, judge, mapper=Annealing(refining=0))
    assert answer.measurements == len(Mappings.stacked(judge.seen)) <= WALKS
    prepared = RoundTrips().prepared(PROBLEM, FABRIC)
    request = MapperRequest(PROBLEM, FABRIC, prepared, SumJudge(), 60, evaluations=3)
    answer = Annealing().map(request)
    assert answer.evaluations <= 3


def test_refining_ends_with_the_cpu_time() -> None:
    answered(20, SumJudge())
    prepared = RoundTrips().prepared(PROBLEM, FABRIC)
    request = MapperRequest(
        PROBLEM, FABRIC, prepared, SumJudge(), 10**6, evaluations=10**9, budget_s=0.4
    )
    begin = time.thread_time()
    answer = Annealing().map(request)
    assert 0.2 < time.thread_time() - begin < 1.0
    assert answer.measurements > WALKS
