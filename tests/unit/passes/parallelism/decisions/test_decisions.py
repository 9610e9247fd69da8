"""Decision problems, decisions in the making, linkage groups and variables."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_passes.parallelism.classes.dimension_classes import linkage_groups
from mcm_passes.parallelism.classes.variables import float_bytes, trainable_variables
from mcm_passes.parallelism.decisions.decision_problem import adp_problem, opp_problem
from tests.generators.automap_models import T5Automap
from tests.generators.partial_decisions import ConflictMasks, PartialDecision, bits

NET = """
g (float[4,6] x, float[6,8] w1, float[8] w2, float[8,10] w3, float[1] w4) => (float[4,10] y) {
  h = MatMul(x, w1)
  s = Add(h, w2)
  k = MatMul(s, w3)
  y = Mul(k, w4)
}
"""


def test_the_problem_of_operator_partitioning(imported):
    problem = opp_problem(imported(NET), 2)
    assert problem.tensors == ("w1", "w2", "w3")
    assert problem.dim_ptr.tolist() == [0, 2, 3, 5]
    assert problem.dim_class.tolist() == [0, 1, 1, 1, 2]
    assert problem.size.tolist() == [6, 8, 10]
    assert problem.dim_bytes.tolist() == [192, 192, 32, 320, 320]
    assert not problem.blocked.any()
    assert np.argwhere(problem.conflicts).tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert opp_problem(imported(NET), 8).blocked.tolist() == [True, False, False]


def test_plans_of_decisions(imported):
    problem = opp_problem(imported(NET), 2)
    inner = np.array([False, True, False])
    assert problem.is_feasible(inner)
    assert problem.partitioned_dims(inner) == {"w1": 1, "w2": 0, "w3": 0}
    ends = np.array([True, False, True])
    assert problem.partitioned_dims(ends) == {"w1": 0, "w2": -1, "w3": 1}
    assert not problem.is_feasible(np.array([True, True, False]))
    assert not opp_problem(imported(NET), 8).is_feasible(ends)


def test_the_problem_of_data_parallelism(imported):
    problem = adp_problem(imported(NET), 2)
    assert problem.tensors == ("x",)
    assert problem.dim_class.tolist() == [0, 1]
    assert problem.blocked.tolist() == [False, True]


def test_one_device_divides_nothing(imported):
    with pytest.raises(ValueError, match="degree=1"):
        opp_problem(imported(NET), 1)


def test_scalars_as_inputs_have_no_dimensions(imported):
    problem = adp_problem(imported("g (float[4] x, float s) => (float[4] y) { y = Mul(x, s) }"), 2)
    assert problem.dim_ptr.tolist() == [0, 1, 1]
    assert problem.partitioned_dims(np.array([True])) == {"x": 0, "s": -1}


def test_a_state_forbids_what_conflicts(imported):
    masks = ConflictMasks(opp_problem(imported(NET), 2))
    state = PartialDecision(masks)
    assert state.partition(0) == 0b010
    before = state.copy()
    assert state.partition(1) is None
    assert (state.partitioned, state.forbidden) == (before.partitioned, before.forbidden)
    assert state.partition(2) == 0
    assert state.decision().tolist() == [True, False, True]
    assert before.decision().tolist() == [True, False, False]
    assert list(bits(0b1010)) == [1, 3]


def test_a_state_agrees_with_the_problem():
    rng = np.random.default_rng(1)
    from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem

    for count in (1, 5, 70, 130):
        meets = rng.random((count, count)) < 0.1
        meets = (meets | meets.T) & ~np.eye(count, dtype=bool)
        problem = DecisionProblem(
            tensors=tuple(f"t{k}" for k in range(count)),
            dim_ptr=np.arange(count + 1, dtype=np.int32),
            dim_class=np.arange(count, dtype=np.int32),
            blocked=rng.random(count) < 0.2,
            conflicts=meets,
            size=np.full(count, 8, dtype=np.int64),
            dim_bytes=np.ones(count, dtype=np.int64),
        )
        state = PartialDecision(ConflictMasks(problem))
        chosen = np.zeros(count, dtype=bool)
        for index in rng.permutation(count):
            more = chosen.copy()
            more[index] = True
            fresh = state.partition(int(index))
            assert (fresh is not None) == problem.is_feasible(more)
            if fresh is not None:
                chosen = more
        assert np.array_equal(state.decision(), chosen)


def test_groups_are_numbered_in_the_order_of_tensors(classes):
    found = classes(NET)
    values = [found.value_by_name[name] for name in ("w3", "w4", "w1")]
    groups = linkage_groups(found, values)
    assert groups.group_of.tolist() == [0, 1, -1, 2, 0]
    assert groups.groups() == [(("w3", 0), ("w1", 1)), (("w3", 1),), (("w1", 0),)]
    nothing = linkage_groups(found, [])
    assert nothing.groups() == []


def test_what_is_trained(imported):
    model = imported(
        """g (float[2,3,4,4] x, float[3] ws, float[3] wb, float[3] wm, float[3] wv, float[3] wt,
        float[1,1] w1, float[3] wu, float[3] wd) => (float[2,3,4,4] y, float[3] o) {
          n = BatchNormalization(x, ws, wb, wm, wv)
          t = Neg(wt)
          c = com.acme.Mystery(wd)
          s = Unsqueeze(t, axes)
          m = Mul(n, s)
          y = Mul(m, w1)
          o = Abs(wu)
        }""".replace("s = Unsqueeze(t, axes)", "s = Reshape(t, shape)").replace(
            "float[3] o) {", "float[3] o) <int64[3] shape = {3, 1, 1}> {"
        )
    )
    assert [value.name for value in trainable_variables(model)] == ["ws", "wb", "wt", "wu"]


def test_shape_only_models_have_the_same_problem():
    small = {"layers": 1, "decoder_layers": 1, "vocab": 640, "seq": 8, "decoder_seq": 8}
    from mcm_compiler.ir.reading.importer import import_model

    full, tiny = (
        import_model(T5Automap(**small, batch=8, shape_only=flag).build(), "t5")[0]
        for flag in (False, True)
    )
    one, other = opp_problem(full, 8), opp_problem(tiny, 8)
    assert one.tensors == other.tensors
    assert np.array_equal(one.dim_class, other.dim_class)
    assert np.array_equal(one.conflicts, other.conflicts)
    assert np.array_equal(one.blocked, other.blocked)


def test_bytes_of_tensors(imported):
    model = imported(NET)
    assert [float_bytes(v) for v in trainable_variables(model)] == [192, 32, 320]
