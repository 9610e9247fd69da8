"""What users ask of a plan."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.decisions.constraints import (
    ShardConstraint,
    constrained,
    parse_constraint,
    require_divisible,
)
from mcm_passes.parallelism.decisions.decision_problem import opp_problem
from mcm_passes.parallelism.rules.graph_rules import rules_of

NET = """
g (float[4,6] x, float[6,8] w1, float[8] w2, float[8,10] w3, float[10,12] w4) => (float[4,12] y) {
  h = MatMul(x, w1)
  s = Add(h, w2)
  k = MatMul(s, w3)
  t = Softmax<axis = 1>(k)
  y = MatMul(t, w4)
}
"""


@pytest.fixture
def apply(imported):
    model = imported(NET)
    for value, name in (
        ("w1", "net.0.wi.weight"),
        ("w2", "net.0.wi.bias"),
        ("w3", "net.0.wo.weight"),
    ):
        next(v for v in model.graph.initializers.values() if v.name == value).name = name
    classes = dimension_classes(model, rules_of(model))

    def _apply(*texts, degree=2):
        problem = opp_problem(model, degree, classes)
        return constrained(problem, classes, [parse_constraint(text) for text in texts])

    return _apply


def test_reads_options():
    assert parse_constraint("/decoder/*/wi=1") == ShardConstraint("/decoder/*/wi", 1)
    assert parse_constraint("a=b=-1") == ShardConstraint("a=b", -1)
    assert str(ShardConstraint("w", 0)) == "w=0"


@pytest.mark.parametrize(
    "text", ["", "w", "=1", "w=", "w=x", "w=-2", "w=1001", "w=1.0", "w=9" * 999]
)
def test_refuses_what_is_no_option(text):
    with pytest.raises(CompileError) as caught:
        parse_constraint(text)
    assert caught.value.diagnostics[0].code == "MCM-S023"


@pytest.mark.parametrize(
    "pattern", ["net.0.wi.weight", "/net/*/wi/weight", "net.?.wi*", "/net/0/wi"]
)
def test_patterns_match_names_paths_and_modules(apply, pattern):
    found = apply(f"{pattern}=1")
    assert found.forced.tolist() == [False, True, False, False]
    assert found.problem.blocked.tolist() == [True, False, True, False]


def test_kept_whole(apply):
    found = apply("w4=-1", "*.bias=-1")
    assert not found.forced.any()
    assert found.problem.blocked.tolist() == [False, True, True, True]


def test_unknown_variables_are_answered_with_the_nearest(apply):
    with pytest.raises(CompileError) as caught:
        apply("/net/*/wii=1", "w4=5")
    unknown, dimension = caught.value.diagnostics
    assert unknown.code == dimension.code == "MCM-S024"
    assert "net.0.wi." in (unknown.hint or "")
    assert "has a dim 5" in dimension.message
    assert "'w4'" in (dimension.hint or "")


def test_what_an_op_forbids_is_answered_with_the_way_there(apply):
    with pytest.raises(CompileError) as caught:
        apply("net.0.wo.weight=1")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-S025"
    assert "needs the dimension whole" in fault.message
    assert "-> 'k' dim 1" in fault.message


def test_too_few_units_are_counted(apply):
    with pytest.raises(CompileError, match="8 units, fewer than devices"):
        apply("net.0.wo.weight=0", degree=9)


def test_contradictions_are_answered_with_the_way_between(apply):
    with pytest.raises(CompileError) as caught:
        apply("net.0.wi.weight=0", "net.0.wi.bias=0", "net.0.wo.weight=-1")
    assert {fault.code for fault in caught.value.diagnostics} == {"MCM-S026"}
    together, both = sorted(fault.message for fault in caught.value.diagnostics)
    assert "divided together" in together
    assert "never divided both" in both
    assert "cannot divide both of these dimensions" in both


def test_degrees_that_nothing_can_take(imported):
    model = imported(NET)
    require_divisible(opp_problem(model, 8), 8)
    with pytest.raises(CompileError) as caught:
        require_divisible(opp_problem(model, 64), 64)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-S027"
    assert "over 64 devices: none has more than 12 units" in fault.message
    whole = opp_problem(
        imported(
            "g (float[4,6] x, float[6] w) => (float[4,6] y) {"
            " a = Mul(x, w) y = Softmax<axis = 1>(a) }"
        ),
        2,
    )
    with pytest.raises(CompileError, match="dimensions whole"):
        require_divisible(whole, 2)


def test_forced_classes_exclude_others(apply):
    found = apply("w4=1")
    assert np.flatnonzero(found.forced).tolist() == [3]
    assert not found.problem.blocked[3]
