"""Mappers: optimal on what can be enumerated, legal, repeatable, within budgets."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Mappings
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_compiler.contracts.fabrics.mappers import Mapper, MapperAnswer, MapperRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import MAPPERS, MAPPING_MODELS
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.annealing.starts import random_mappings
from mcm_passes.families.fabric.formulas.analytic import RoundTrips, WireLength
from tests.generators.mapping_doubles import PluginModel, SumJudge
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric, small_problem


def mapped(mapper: Mapper, problem, fabric, model, judge=None, **asked: Any) -> MapperAnswer:
    asked = {"evaluations": 20_000, **asked}
    return mapper.map(MapperRequest(problem, fabric, model, judge or SumJudge(), **asked))


def every_mapping() -> Mappings:
    """Of the small product on a mesh of 2 x 3: 432 placements with 128 turns each."""
    problem, fabric = small_problem(), small_fabric(2, 3)
    rows = []
    for parts in itertools.product(
        *(
            itertools.permutations(fabric.of_kind(kind), int(np.sum(problem.kind == kind)))
            for kind in (COMPUTE, MEMORY, IO)
        )
    ):
        site = np.empty(problem.num_units, np.int32)
        for kind, part in zip((COMPUTE, MEMORY, IO), parts, strict=True):
            site[problem.kind == kind] = part
        rows.append(site)
    turns = np.array(list(itertools.product((0, 1), repeat=problem.num_streams)), np.int32)
    return Mappings(np.repeat(rows, len(turns), axis=0), np.tile(turns, (len(rows), 1)))


@pytest.mark.parametrize("model", [WireLength(), RoundTrips()], ids=lambda model: model.name)
def test_annealing_finds_the_best_of_all_mappings(model: RoundTrips) -> None:
    problem, fabric = small_problem(), small_fabric(2, 3)
    prepared = model.prepared(problem, fabric)
    best = prepared.search_cost(every_mapping()).min()
    request: dict[str, Any] = {"evaluations": 6000, "measurements": 0}
    for asked in (prepared, PluginModel(prepared)):
        answer = mapped(Annealing(), problem, fabric, asked, **request)
        assert prepared.search_cost(answer.mapping)[0] == pytest.approx(best)
        assert answer.history[-1][1] == pytest.approx(best)
        assert answer.measurements == 0
        assert answer.period_cycles == prepared.period_cycles(answer.mapping)[0]


@pytest.mark.parametrize("plugin", [False, True])
def test_answers_are_legal_repeatable_and_within_their_evaluations(plugin: bool) -> None:
    problem, fabric = drawn_problem(11), small_fabric(6, 6)
    prepared = RoundTrips().prepared(problem, fabric)
    answers = []
    for seed in (0, 0, 1):
        model = PluginModel(prepared) if plugin else prepared
        request: dict[str, Any] = {"evaluations": 2000, "measurements": 4, "seed": seed}
        judge = SumJudge()
        answer = mapped(Annealing(), problem, fabric, model, judge, **request)
        assert faults_of_mapping(problem, fabric, answer.mapping) == []
        assert answer.evaluations <= 2000 + 16 * 6  # a batch that has begun is finished
        (measured,) = judge.seen
        assert answer.measurements == len(measured) <= 4
        assert len(np.unique(np.c_[measured.site, measured.turn], axis=0)) == len(measured)
        assert answer.period_cycles == measured.site.sum(axis=1).min()
        assert answer.latency_cycles == 10 * answer.period_cycles
        spent, costs = np.array(answer.history).T
        assert np.all(np.diff(spent) > 0)
        assert np.all(np.diff(costs) <= 0)
        if isinstance(model, PluginModel):
            assert model.asked == answer.evaluations
        answers.append(answer)
    np.testing.assert_array_equal(answers[0].mapping.site, answers[1].mapping.site)
    np.testing.assert_array_equal(answers[0].mapping.turn, answers[1].mapping.turn)
    assert not np.array_equal(answers[0].mapping.site, answers[2].mapping.site)


def test_annealing_beats_random_mappings_at_equal_evaluations() -> None:
    problem, fabric = drawn_problem(1, stages=8, widest=10), small_fabric(12, 12)
    prepared = RoundTrips().prepared(problem, fabric)
    request: dict[str, Any] = {"evaluations": 4000, "measurements": 0}
    drawn = random_mappings(problem, fabric, 4000, np.random.default_rng(0))
    best = prepared.search_cost(drawn).min()
    for model in (prepared, PluginModel(prepared)):
        found = mapped(Annealing(), problem, fabric, model, **request)
        assert found.history[-1][1] < 0.95 * best


def test_cpu_time_limits_the_search() -> None:
    problem, fabric = drawn_problem(11), small_fabric(6, 6)
    prepared = RoundTrips().prepared(problem, fabric)
    request: dict[str, Any] = {"evaluations": 10**9, "measurements": 2, "budget_s": 0.2}
    mapped(Annealing(), problem, fabric, prepared, evaluations=100, measurements=1, budget_s=1)
    begin = time.thread_time()
    answer = mapped(Annealing(), problem, fabric, prepared, **request)
    assert 0.05 < time.thread_time() - begin < 0.6
    assert answer.evaluations > 1000


NONSENSE: tuple[tuple[Callable[[Floats], object], str], ...] = (
    (lambda answer: answer[:, None], "MCM-M040"),
    (lambda answer: answer[:-1], "MCM-M040"),
    (lambda _: "fast", "MCM-M040"),
    (lambda answer: answer * np.nan, "MCM-M041"),
    (lambda answer: -answer, "MCM-M041"),
    (lambda answer: np.where(np.arange(len(answer)) == 0, np.inf, answer), "MCM-M041"),
)


@pytest.mark.parametrize(("spoil", "code"), NONSENSE)
def test_models_that_answer_nonsense_are_refused(
    spoil: Callable[[Floats], object], code: str
) -> None:
    problem, fabric = drawn_problem(11), small_fabric(6, 6)
    model = PluginModel(RoundTrips().prepared(problem, fabric), spoil)
    with pytest.raises(CompileError) as caught:
        mapped(Annealing(), problem, fabric, model)
    assert caught.value.diagnostics[0].code == code
    assert "PluginModel" in str(caught.value.diagnostics[0].at)


def test_mappers_and_models_are_found_by_name() -> None:
    assert isinstance(MAPPERS.get("annealing")(), Annealing)
    for name in ("heuristic", "wire-length", "busiest", "round-trips"):
        assert MAPPING_MODELS.get(name)().name == name
