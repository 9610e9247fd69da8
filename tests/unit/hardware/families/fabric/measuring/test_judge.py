"""The judge of fabrics against a plain simulator, cycle by cycle."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, MEMORY, Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.legality import faults_of_problem
from mcm_hardware.families.fabric.measuring.player import ENOUGH, PHYSICS, FlitJudge, period_of
from tests.generators.random_fabric import random_fabric, random_problem
from tests.generators.small_fabric import legal_mappings, small_fabric, small_problem
from tests.oracles.plain_fabric import play

JUDGE = FlitJudge()


def drawn(seed: int | list[int], count: int = 1) -> tuple[Fabric, MappingProblem, Mappings]:
    """A fabric, a problem on it, and legal mappings, all at random."""
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    problem = random_problem(rng, fabric)
    return fabric, problem, legal_mappings(problem, fabric, count, rng)


@pytest.mark.parametrize("seed", [*range(8), *range(1000, 1012)])
def test_random_problems_are_measured_to_the_cycle(seed: int) -> None:
    fabric, problem, mapping = drawn(seed)
    assert faults_of_problem(problem, fabric) == []
    found, expected = JUDGE.measure(problem, fabric, mapping), play(problem, fabric, mapping)
    assert found.period_cycles[0] == float(expected.period)
    assert found.latency_cycles[0] == expected.latency
    assert found.error[0] == 0
    assert found.period_cycles[0] >= JUDGE.bound_cycles(problem, fabric)


def test_answers_are_those_that_the_physics_are_named_after() -> None:
    """Another answer means other physics: models that learned from the old ones are refused."""
    answers = hashlib.sha256()
    for seed in range(1000, 1016):
        fabric, problem, mapping = drawn(seed)
        measured = JUDGE.measure(problem, fabric, mapping)
        period = Fraction(measured.period_cycles[0]).limit_denominator(1000)
        answers.update(f"{period} {int(measured.latency_cycles[0])}\n".encode())
    assert answers.hexdigest() == PHYSICS


def test_thousands_of_random_legal_mappings_come_to_an_end() -> None:
    """None stands still: the judge raises where nothing moves any more."""
    for seed in range(150):
        fabric, problem, mappings = drawn([7, seed], 10)
        measured = JUDGE.measure(problem, fabric, mappings)
        assert np.all(measured.error == 0)


def two_stages_behind_one_stream() -> MappingProblem:
    """Unit 2 makes what unit 4 needs besides the stream that goes to both."""
    return MappingProblem(
        name="join",
        stages=("in", "first", "second"),
        kind=np.array([2, MEMORY, COMPUTE, MEMORY, COMPUTE, MEMORY, 2], np.int32),
        op=np.array([10, 9, 0, 9, 2, 9, 11], np.int32),
        stage=np.array([0, 0, 1, 1, 2, 2, 2], np.int32),
        firings=np.array([0, 0, 8, 0, 8, 0, 0], np.int64),
        cycles=np.array([0, 0, 1, 0, 1, 0, 0], np.int64),
        burst=np.array([0, 0, 1, 0, 1, 0, 0], np.int64),
        depth=np.array([0, 3, 0, 2, 0, 2, 0], np.int32),
        memory_bytes=np.zeros(7, np.int64),
        source=np.array([0, 1, 2, 3, 4, 5], np.int32),
        leaf_ptr=np.array([0, 1, 3, 4, 5, 6, 7], np.int32),
        leaf=np.array([1, 2, 4, 3, 4, 5, 6], np.int32),
        flits=np.array([64, 64, 64, 64, 64, 64], np.int64),
    )


def test_what_legality_refuses_as_a_deadlock_is_one() -> None:
    problem, fabric = two_stages_behind_one_stream(), small_fabric()
    faults = faults_of_problem(problem, fabric)
    assert faults == ["stream 1 goes to compute units of the stages 1 and 2"]
    mapping = legal_mappings(problem, fabric, 1, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="nothing moves"):
        play(problem, fabric, mapping)
    with pytest.raises(ValueError, match="stream 1 goes to compute units"):
        JUDGE.measure(problem, fabric, mapping)
    apart = replace(
        problem,
        source=np.array([0, 1, 2, 3, 4, 5, 1], np.int32),
        leaf_ptr=np.arange(8, dtype=np.int32),
        leaf=np.array([1, 2, 3, 4, 5, 6, 4], np.int32),
        flits=np.array([64] * 7, np.int64),
    )
    assert faults_of_problem(apart, fabric) == []
    assert JUDGE.measure(apart, fabric, mapping_of(apart, mapping)).error[0] == 0


def mapping_of(problem: MappingProblem, mapping: Mappings) -> Mappings:
    """The same sites, and turns for all streams."""
    return Mappings(mapping.site, np.zeros((1, problem.num_streams), np.int32))


def test_an_illegal_mapping_is_refused() -> None:
    problem, fabric = small_problem(), small_fabric()
    mapping = legal_mappings(problem, fabric, 1, np.random.default_rng(0))
    mapping.site[0, 3] = mapping.site[0, 2]
    with pytest.raises(ValueError, match="several units lie on site"):
        JUDGE.measure(problem, fabric, mapping)


@pytest.mark.parametrize("most_samples", [8, 16, 32])
def test_a_play_that_is_cut_off_says_how_wrong_it_may_be(most_samples: int) -> None:
    """Of plays whose states come back later, nearly all exact periods lie within the error."""
    within: list[bool] = []
    for seed in range(250):
        fabric, problem, mapping = drawn([9, seed])
        exact = JUDGE.measure(problem, fabric, mapping).period_cycles[0]
        short = FlitJudge(most_samples=most_samples).measure(problem, fabric, mapping)
        if short.error[0] > 0:
            within.append(abs(short.period_cycles[0] / exact - 1) <= short.error[0])
    assert len(within) >= 10
    assert np.mean(within) >= 0.95


def test_a_play_is_given_up_when_its_period_is_known_well_enough() -> None:
    """Where the exact judge goes on to a late repeat; others are measured as ever."""
    given_up = 0
    for seed in range(100):
        fabric, problem, mappings = drawn([7, seed], 4)
        exact = JUDGE.measure(problem, fabric, mappings)
        found = FlitJudge(enough=ENOUGH).measure(problem, fabric, mappings)
        away = np.abs(found.period_cycles / exact.period_cycles - 1)
        given_up += int(np.sum(found.error > 0))
        assert np.all(found.error <= ENOUGH)
        assert np.all(away <= found.error)
        assert np.all(away <= 0.005)
        assert np.all(found.period_cycles >= JUDGE.bound_cycles(problem, fabric))
        assert np.array_equal(found.latency_cycles, exact.latency_cycles)
    assert given_up >= 3


def test_a_play_ends_when_its_hops_are_spent() -> None:
    """What repeats before is measured as ever, and other periods lie within their error."""
    ended = exact = 0
    for seed in range(60):
        fabric, problem, mapping = drawn([11, seed])
        whole = JUDGE.measure(problem, fabric, mapping)
        hops = 60 * int(problem.flits.sum())
        found = FlitJudge(most_hops=hops).measure(problem, fabric, mapping)
        away = abs(found.period_cycles[0] / whole.period_cycles[0] - 1)
        ended, exact = ended + (found.error[0] > 0), exact + (found.error[0] == 0)
        assert away <= found.error[0]
        assert found.latency_cycles[0] == whole.latency_cycles[0]
    assert min(ended, exact) >= 5


def test_a_play_without_work_knows_nothing() -> None:
    problem, fabric = small_problem(), small_fabric()
    mapping = legal_mappings(problem, fabric, 1, np.random.default_rng(0))
    measured = FlitJudge(most_work=10).measure(problem, fabric, mapping)
    assert measured.error[0] == 1
    assert np.isinf(measured.period_cycles[0])


def test_periods_are_read_off_the_ends_of_samples() -> None:
    ends = np.array([9, 12, 17, 19, 24, 26], np.int64)
    assert period_of(ends, 4) == (3.5, 0.0)
    period, error = period_of(np.array([5, 9, 13, 17, 21, 25], np.int64), 0)
    assert (period, error) == (4.0, 0.5)
    assert period_of(np.array([5, 9], np.int64), 0)[1] == 1.0
