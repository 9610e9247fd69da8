"""The bound from weights that several chips must hold, on problems worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from mcm_compiler.contracts.partition import LowerBound
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.packing import copied_weights
from tests.generators.partition_problems import make_problem
from tests.oracles.shown_bounds import verify_bound

STEPS = 10
"""Of a recurrence of two layers; each step of a layer takes a microsecond."""

EDGES = [(u, u + 2) for u in range(2 * STEPS - 2)] + [(u, u + 1) for u in range(0, 2 * STEPS, 2)]


def recurrence(weight_bytes, sram, chips=4, **changes):
    """Steps of both layers in turn; all steps of a layer read one weight."""
    weights = [(size, list(range(layer, 2 * STEPS, 2))) for layer, size in enumerate(weight_bytes)]
    return make_problem(
        [1] * (2 * STEPS), EDGES, chips=chips, weights=weights, sram=sram, **changes
    )


def bound_of(problem, least_us=1.0):
    return dataclasses.replace(copied_weights(problem, least_us * 1e-6), proof="copied_weights")


@pytest.mark.parametrize(
    ("weight_bytes", "sram", "chips", "best_us"),
    [
        # Both weights fit one chip: four copies of each, whose chips do 3, 3, 2 and 2 steps.
        ((1024, 1024), 2048, 4, 3.0),
        # One weight per chip: two chips for each layer, half of its steps on each.
        ((1024, 1024), 2047, 4, 5.0),
        # The larger fits nowhere but alone, and so does the other: as before.
        ((1024, 1984), 2047, 4, 5.0),
        # Three chips for each layer do 4, 3 and 3 steps.
        ((1024, 1024), 2047, 6, 4.0),
        # Chips of different memory: four copies fit all together, five do not.
        ((1024, 1024), (3072, 1024), 2, 5.0),
    ],
)
def test_copies_take_up_the_memory(weight_bytes, sram, chips, best_us):
    problem = recurrence(weight_bytes, sram, chips=chips)
    bound = bound_of(problem)
    assert bound.seconds == pytest.approx(best_us * 1e-6, rel=1e-6)
    assert verify_bound(problem, bound)
    assert not verify_bound(problem, LowerBound(bound.seconds * 1.001, "", "copied_weights"))
    assert "2 weights must be on more than one chip" in bound.argument
    # What gains less than a millionth is left out.
    assert lower_bound(problem).seconds >= bound.seconds * (1.0 - 1e-6)


def test_faster_chips_need_fewer_copies():
    problem = recurrence((1024, 1024), 2047, speeds=(1.0, 2.0, 1.0, 1.0))
    assert bound_of(problem, 0.5).seconds == pytest.approx(2.5e-6, rel=1e-6)


def test_streamed_weights_need_no_copies():
    assert bound_of(recurrence((1024, 1024), 2047, stream=1e8)).seconds == 0.0


def test_weights_that_fit_nowhere_are_not_this_arguments_business():
    assert bound_of(recurrence((4096, 4096), 2047)).seconds == 0.0
