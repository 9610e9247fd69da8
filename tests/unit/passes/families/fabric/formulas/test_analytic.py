"""Formulas against what they are made of, and against bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.fabrics.fabric import Mappings, bound_cycles
from mcm_passes.families.fabric.formulas.analytic import (
    Busiest,
    Heuristic,
    PreparedFormula,
    RoundTrips,
    WireLength,
    evaluate,
    room_of,
)
from mcm_passes.families.fabric.formulas.terms import (
    BUFFER,
    BURST,
    LINK,
    QUEUED,
    TRIP,
    WIRE,
    isolated_cycles,
)
from mcm_passes.families.fabric.routing_trees import flip, move, routed
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import as_mapping, legal_mappings, small_fabric, small_problem

MODELS = (WireLength(), Heuristic(), Busiest(), RoundTrips())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_no_formula_promises_less_than_the_bound(model: RoundTrips) -> None:
    for seed in range(20):
        problem, fabric = drawn_problem(seed), small_fabric(6, 6)
        mappings = legal_mappings(problem, fabric, 8, np.random.default_rng(seed))
        period = model.prepared(problem, fabric).period_cycles(mappings)
        assert period.min() >= bound_cycles(problem, fabric)
        assert np.all(np.isfinite(period))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_answers_do_not_depend_on_the_batch(model: RoundTrips) -> None:
    problem, fabric = drawn_problem(2), small_fabric(6, 6)
    prepared = model.prepared(problem, fabric)
    mappings = legal_mappings(problem, fabric, 8, np.random.default_rng(0))
    each = np.concatenate([prepared.search_cost(mappings[k]) for k in range(8)])
    np.testing.assert_array_equal(prepared.search_cost(mappings), each)
    np.testing.assert_array_equal(prepared.search_cost(mappings), each)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(MODELS))
def test_a_state_that_was_moved_costs_what_its_mapping_costs(seed: int, model: RoundTrips) -> None:
    problem, fabric = drawn_problem(seed), small_fabric(6, 6)
    rng = np.random.default_rng(seed)
    prepared = model.prepared(problem, fabric)
    formula, room = prepared.formula, room_of(prepared.formula)
    state = routed(formula.tables, legal_mappings(problem, fabric, 1, rng))
    for _ in range(20):
        unit = int(rng.integers(problem.num_units))
        move(formula.tables, state, unit, int(rng.choice(fabric.of_kind(int(problem.kind[unit])))))
        flip(formula.tables, state, int(rng.integers(problem.num_streams)))
    evaluate(formula, state, room)
    assert room.answer[0] == prepared.period_cycles(as_mapping(state))[0]
    assert room.answer[1] == prepared.search_cost(as_mapping(state))[0]


def by_hand() -> tuple[PreparedFormula, Mappings]:
    """The small product in the first row: each stream runs along it, and some share links.

    Sites of row 0: 0 compute, 1 memory, 2 compute, 3 memory; 12 and 13 I/O at its ends; row 1 has
    memory at 4, compute at 5. The input is at 12, memory for it at 1, products at 0 and 2, weights
    at 4, the result at 3, the output at 13.
    """
    problem, fabric = small_problem(), small_fabric()
    site = np.array([[12, 1, 0, 2, 4, 3, 13]], np.int32)
    turn = np.zeros((1, problem.num_streams), np.int32)
    return RoundTrips().prepared(problem, fabric), Mappings(site, turn)


def test_terms_are_those_worked_out_by_hand() -> None:
    prepared, mapping = by_hand()
    terms = prepared.terms(mapping)[0]
    # Links from 0 to 1: the input's 32 flits and the result of the first product, 16. From 2 to 3:
    # both results. From 1 to 2: 32 to the second product and 16 results. Weights for it go from 4
    # by way of 5 and 6.
    assert terms[LINK] == 48
    # The input's stream crosses 1 link; weights of the second product 3: two windows of 16 flits
    # less the half that is not full, there and back over 4 switches of 3 cycles.
    firing = 8 / (16 // 3) * (2 * 3 * (3 + 1) + 3 * (16 // 3 + 1) - 16 - 1)
    assert terms[TRIP] == pytest.approx(firing)
    assert terms[QUEUED] > terms[TRIP]
    # 8 firings of 5 cycles, bursts of 4 flits, which the register of 4 has room for; but what a
    # product reads takes 56 cycles.
    assert terms[BURST] == 56
    # The buffer of the input is filled from the first switch and emptied by the products: 32 flits
    # over one link, 56 cycles of a product one link away, by two samples.
    least = (32 + 3 * 2 + 56 + 3 * 2) / 2
    assert least < terms[BUFFER] < 1.3 * least
    links = 32 * 1 + 32 * 2 + 24 * 1 + 24 * 3 + 16 * 3 + 16 * 1 + 32 * 0
    assert terms[WIRE] == links / (4 * 12)


def test_rules_slow_each_kind_of_op_in_the_heuristic_alone() -> None:
    problem, fabric = small_problem(), small_fabric()
    alone = isolated_cycles(problem)
    assert list(alone[[2, 3]]) == [56, 56]  # what it reads, as 40 cycles are 44 by rule
    prepared, mapping = by_hand()
    assert prepared.formula.facts.bound == bound_cycles(problem, fabric) == 56
    assert Heuristic().prepared(problem, fabric).period_cycles(mapping)[0] > 56


def test_mappings_of_another_problem_are_refused() -> None:
    prepared, mapping = by_hand()
    with pytest.raises(ValueError, match="the shape"):
        prepared.period_cycles(Mappings(mapping.site[:, 1:], mapping.turn))
    with pytest.raises(ValueError, match="lies on site"):
        prepared.period_cycles(Mappings(mapping.site + 100, mapping.turn))
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        prepared.period_cycles(Mappings(mapping.site, mapping.turn + 2))
