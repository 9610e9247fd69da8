"""The `cost` objective: where devices talk, what a step takes, and the best decision."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.ir.reading.importer import import_model
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes, linkage_groups
from mcm_passes.parallelism.classes.partial_values import partial_values
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.decisions import count_oracle
from mcm_passes.parallelism.decisions.count_oracle import best_decision
from mcm_passes.parallelism.decisions.decision_problem import (
    DecisionProblem,
    adp_problem,
    opp_problem,
)
from mcm_passes.parallelism.decisions.step_cost import (
    DeviceGroup,
    StepCost,
    batch_class_of,
    step_cost,
)
from mcm_passes.parallelism.rules.graph_rules import rules_of
from tests.generators.automap_models import Vgg19Training
from tests.generators.op_flops import seconds_by_flops

MLP = """
g (float[4,6] x, float[6,8] w1, float[8,10] w2, float[10] w3) => (float[4,10] y) {
  h = MatMul(x, w1)
  r = Relu(h)
  k = MatMul(r, w2)
  s = Add(k, w3)
  y = Tanh(s)
}
"""


def _problem(model, degree):
    classes = dimension_classes(model, rules_of(model))
    return classes, opp_problem(model, degree, classes)


def _talking(model):
    classes = dimension_classes(model, rules_of(model))
    variables = trainable_variables(model)
    groups = linkage_groups(classes, variables)
    found = partial_values(classes, groups.class_of_group)
    names = [group[0] for group in groups.groups()]

    def by_name(masks):
        return {
            classes.ruled.values[value].name: {
                f"{names[k][0]}.{names[k][1]}" for k in range(len(names)) if mask >> k & 1
            }
            for value, mask in masks.items()
        }

    return by_name(found.sums), by_name(found.gathered)


def test_ring_of_devices():
    group = DeviceGroup(4, 100.0, 0.5)
    assert group.all_reduce_s(200.0) == pytest.approx(2 * 3 / 4 * 200 / 100 + 6 * 0.5)
    assert group.all_gather_s(200.0) == pytest.approx(group.all_reduce_s(200.0) / 2)


def test_sums_stay_in_parts_up_to_the_first_op_that_is_not_linear(imported):
    sums, gathered = _talking(imported(MLP))
    assert sums["s"] == {"w1.1"}
    assert "k" not in sums
    assert sums["h"] == {"w1.0"}
    assert gathered["x"] == {"w1.1"}
    assert gathered["r"] == {"w2.1"}
    assert "w3" not in gathered


def test_sums_of_two_parts_are_added_up_once(imported):
    sums, gathered = _talking(
        imported(
            """g (float[4,6] x, float[6,8] w1, float[8,6] w2, float[6,8] w3, float[8,6] w4)
            => (float[4,6] y) <float half = {0.5}> {
              a = MatMul(x, w1)
              b = Relu(a)
              c = MatMul(b, w2)
              d = MatMul(x, w3)
              e = Relu(d)
              f = MatMul(e, w4)
              g2 = Add(c, f)
              h = Mul(g2, half)
              t = Transpose<perm = [1, 0]>(h)
              y = Softmax<axis = 1>(t)
            }"""
        )
    )
    assert sums["t"] == {"w1.1", "w3.1"}
    assert "c" not in sums
    assert "g2" not in sums
    assert gathered["x"] == {"w1.1", "w3.1"}


def test_products_of_two_parts_are_not_linear(imported):
    sums, _ = _talking(
        imported(
            """g (float[4,6] x, float[6,8] w1, float[6,8] w2) => (float[4,8] y) {
              a = MatMul(x, w1)
              b = MatMul(x, w2)
              y = Mul(a, b)
            }"""
        )
    )
    assert sums["a"] == sums["b"] == {"w1.0"}


def test_maxima_are_not_left_in_parts(imported):
    sums, _ = _talking(
        imported(
            """g (float[4,6] x, float[6,8] w) => (float[4,1] y) {
              a = MatMul(x, w)
              b = ReduceMax<axes = [1]>(a)
              y = Neg(b)
            }"""
        )
    )
    assert sums["b"] == {"w.1"}


def test_sums_that_many_read_are_added_up_for_all(imported):
    sums, _ = _talking(
        imported(
            """g (float[4,6] x, float[6,8] w) => (float[4,8] y, float[4,8] z) {
              a = MatMul(x, w)
              y = Relu(a)
              z = Neg(a)
            }"""
        )
    )
    assert sums == {"a": {"w.0"}}


def test_operations_are_counted(imported):
    classes, _ = _problem(
        imported(
            """g (float[2,3,8,8] x, float[4,3,3,3] w) => (float[2,4,6,6] y) {
              c = Conv(x, w)
              y = Relu(c)
            }"""
        ),
        2,
    )
    assert seconds_by_flops(classes, 1.0).tolist() == [2 * 2 * 4 * 36 * 3 * 9, 2 * 4 * 36]


def test_a_step_without_data_parallelism(imported):
    model = imported(MLP)
    classes, problem = _problem(model, 4)
    group = DeviceGroup(4, 1e4)
    seconds = seconds_by_flops(classes, 1e3)
    cost = step_cost(model, problem, classes, seconds, group, training=False)
    nothing = np.zeros(problem.num_classes, dtype=bool)
    assert cost.seconds(nothing) == pytest.approx(seconds.sum())
    inner = nothing.copy()
    inner[1] = True
    products = (2 * 4 * 8 * 6 + 4 * 8 + 2 * 4 * 8 * 10) / 1e3
    expected = seconds.sum() - products * (1 - 2 / 8) + group.all_reduce_s(4 * 10 * 4)
    assert cost.seconds(inner) == pytest.approx(expected)
    trained = step_cost(model, problem, classes, seconds, group, training=True)
    # The gradient of x is not needed, and that of r has the divided dimension.
    assert trained.seconds(inner) == pytest.approx(
        3 * (seconds.sum() - products * 0.75) + group.all_reduce_s(160)
    )


def test_uneven_shards_cost_what_the_largest_does(imported):
    model = imported(MLP)
    classes, problem = _problem(model, 3)
    group = DeviceGroup(3, 1e12)
    seconds = seconds_by_flops(classes, 1e3)
    cost = step_cost(model, problem, classes, seconds, group, training=False)
    inner = np.arange(problem.num_classes) == 1
    products = (2 * 4 * 8 * 6 + 4 * 8 + 2 * 4 * 8 * 10) / 1e3
    assert cost.seconds(inner) == pytest.approx(seconds.sum() - products * (1 - 3 / 8), rel=1e-6)
    assert cost.memory_bytes(inner) == pytest.approx(4 * (10 + 3 / 8 * (48 + 80)))


def test_a_step_with_data_parallelism(imported):
    model = imported(MLP)
    classes, problem = _problem(model, 4)
    batch = batch_class_of(classes, adp_problem(model, 4, classes))
    assert batch == classes.of(classes.value_by_name["x"])[0]
    group = DeviceGroup(4, 1e4)
    seconds = seconds_by_flops(classes, 1e3)
    cost = step_cost(model, problem, classes, seconds, group, batch_class=batch)
    nothing = np.zeros(problem.num_classes, dtype=bool)
    gradients = group.all_reduce_s(4 * (48 + 80 + 10))
    assert cost.seconds(nothing) == pytest.approx(3 * seconds.sum() / 4 + gradients)
    inner = nothing.copy()
    inner[1] = True
    # Dividing costs no more time for products; w1 and w2 need no all-reduce, but s does, in two
    # halves; x is an input and comes whole.
    expected = 3 * seconds.sum() / 4 + group.all_reduce_s(4 * 10) + group.all_reduce_s(160)
    assert cost.seconds(inner) == pytest.approx(expected)


@pytest.mark.parametrize("devices", [16, 24, 32])
def test_the_best_of_vgg19_is_the_published_one(devices):
    model, _ = import_model(Vgg19Training(shape_only=True).build(), "vgg19")
    classes, problem = _problem(model, devices)
    group = DeviceGroup(devices, 25e9 / 8, 5e-6)
    seconds = seconds_by_flops(classes, 15.7e12)
    batch = batch_class_of(classes, adp_problem(model, devices, classes))
    cost = step_cost(model, problem, classes, seconds, group, batch_class=batch)
    best = best_decision(problem, cost.objective())
    assert best.proven
    plan = problem.partitioned_dims(best.partitioned)
    assert {name: dim for name, dim in plan.items() if dim >= 0} == {
        "fc1.kernel": 1,
        "fc1.bias": 0,
        "fc2.kernel": 0,
        "predictions.kernel": 1,
        "predictions.bias": 0,
    }


@st.composite
def _costs(draw: st.DrawFn):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 8))
    meets = rng.random((count, count)) < 0.25
    meets = (meets | meets.T) & ~np.eye(count, dtype=bool)
    problem = DecisionProblem(
        tensors=tuple(f"t{k}" for k in range(count)),
        dim_ptr=np.arange(count + 1, dtype=np.int32),
        dim_class=np.arange(count, dtype=np.int32),
        blocked=rng.random(count) < 0.1,
        conflicts=meets,
        size=np.full(count, 8, dtype=np.int64),
        dim_bytes=np.ones(count, dtype=np.int64),
    )
    terms = [
        sorted(rng.choice(count, size=rng.integers(1, count + 1), replace=False).tolist())
        for _ in range(rng.integers(0, 6))
    ]
    cost = StepCost(
        base_s=1.0,
        class_s=rng.uniform(-1e-2, 2e-3, count),
        term_s=rng.uniform(0, 1e-2, len(terms)),
        members=np.array([np.isin(range(count), term) for term in terms], bool).reshape(-1, count),
        base_bytes=100e6,
        class_bytes=-rng.uniform(0, 20e6, count),
    )
    return problem, cost


@settings(max_examples=60)
@given(_costs(), st.sampled_from((0, 10)))
def test_the_oracle_agrees_with_trying_everything(made, enumerated):
    problem, cost = made
    best = min(
        cost.seconds(decision)
        for bits in itertools.product((False, True), repeat=problem.num_classes)
        if problem.is_feasible(decision := np.array(bits))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_oracle, "ENUMERATED", enumerated)
        found = best_decision(problem, cost.objective())
    assert problem.is_feasible(found.partitioned)
    assert cost.seconds(found.partitioned) == pytest.approx(best, rel=1e-7)


def test_forced_classes_are_divided(imported):
    model = imported(MLP)
    classes, problem = _problem(model, 2)
    group = DeviceGroup(2, 1.0)
    cost = step_cost(model, problem, classes, seconds_by_flops(classes, 1e3), group)
    objective = cost.objective()
    assert not best_decision(problem, objective).partitioned.any()
    forced = np.arange(problem.num_classes) == 1
    assert best_decision(problem, objective, forced=forced).partitioned[1]
    both = np.arange(problem.num_classes) < 2
    with pytest.raises(ValueError, match="forced"):
        best_decision(problem, objective, forced=both)
