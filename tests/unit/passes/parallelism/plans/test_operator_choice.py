"""Tests for the choice of what is divided."""

import pytest

from mcm_compiler.contracts.planning import PlanOptions
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.plans.operator_choice import best_inputs
from mcm_passes.parallelism.rules.graph_rules import rules_of

BATCH = "g (float[4,6] x, float[6,8] w) => (float[4,8] y) { y = MatMul(x, w) }"
SINGLE = "g (float[1,1] x) => (float[1,1] y) { y = Relu(x) }"


def inputs_of(model, **options):
    asked = PlanOptions(**options)
    return best_inputs(model, dimension_classes(model, rules_of(model)), asked)


@pytest.mark.parametrize("data", [None, 1, 2])
def test_one_replica_may_be_asked_for(imported, data):
    assert dict(inputs_of(imported(BATCH), data=data).dims) == {"x": 0}


def test_without_a_dimension_to_divide_inputs_stay_whole(imported):
    assert dict(inputs_of(imported(SINGLE)).dims) == {"x": -1}
