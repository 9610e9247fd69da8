"""Which states stay on a chip, and what that makes of the problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.states import STATES, StatePair, States
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.state_units import dropped_note, kept_states, units_with_states

CACHE = """m (float[7,16] past, float[1,16] x) => (float[8,16] present, float[1,16] y) {
    k = Relu (x)
    present = Concat <axis = 0> (past, k)
    s = ReduceSum <keepdims = 0> (present)
    y = Add (x, s)
}"""


@dataclass
class Holding:
    """A fake target whose chips keep states."""

    inner: object
    holds_states: bool = True

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.fixture
def make(make_model, make_target):
    def build(text, pairs, *, sequences=1, holds=True, pins=None, **options):
        target = Holding(make_target(**options), holds)
        model = make_model(text, target.costs)
        for value in (v for node in model.graph for v in node.outputs if v.type is None):
            # What has no type would keep its maker and its readers together.
            value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([8])
        STATES.set(model, States(tuple(StatePair(*pair) for pair in pairs), sequences))
        return model, target, pins

    return build


def problem_of(made):
    model, target, pins = made
    return build_problem(model, target, "relay", FusionPlan(()), pins=pins)


def dropped_of(made):
    model, target, pins = made
    return units_with_states(model, target, FusionPlan(()), pins).dropped


def test_a_state_is_a_weight_of_one_unit_and_no_tensor(make):
    made = make(CACHE, [("past", "present")], sequences=3)
    problem = problem_of(made)
    assert problem.weight_names == ("past",)
    assert problem.weight_bytes.tolist() == [3 * 8 * 16 * 4]
    assert "past" not in problem.tensor_names
    present = problem.tensor_names.index("present")
    assert not problem.tensor_to_host[present]
    assert problem.names[problem.weight_users[0]] == "Concat_1"
    assert kept_states(made[0], problem).pairs == (StatePair("past", "present"),)
    assert dropped_of(made) == ()


def test_what_is_not_appended_takes_a_buffer_more(make):
    text = CACHE.replace("(past, k)", "(k, past)")
    problem = problem_of(make(text, [("past", "present")], sequences=3))
    assert problem.weight_bytes.tolist() == [4 * 8 * 16 * 4]


def test_readers_of_a_past_and_all_between_are_one_unit(make):
    text = """m (float[8] past, float[8] x) => (float[8] present, float[8] y) {
        a = Relu (past)
        b = Exp (a)
        c = Tanh (x)
        present = Add (b, c)
        y = Neg (past)
    }"""
    problem = problem_of(make(text, [("past", "present")]))
    assert {frozenset(names) for names in problem.members} == {
        frozenset({"Relu_0", "Exp_1", "Add_3", "Neg_4"}),
        frozenset({"Tanh_2"}),
    }


@pytest.mark.parametrize(
    ("options", "why", "remedy"),
    [
        ({"holds": False}, "gives them no memory", "a target whose chips keep states"),
        ({"sram": 500}, "a chip has", "more memory per chip"),
    ],
)
def test_what_cannot_stay_crosses_the_host_link(make, options, why, remedy):
    made = make(CACHE, [("past", "present")], **options)
    problem = problem_of(made)
    assert "past" not in problem.weight_names
    assert problem.tensor_to_host[problem.tensor_names.index("present")]
    note = dropped_note(dropped_of(made))
    assert note is not None
    assert (note.code, note.severity) == ("MCM-P052", "warning")
    assert why in note.message
    assert remedy in note.hint


def test_sequences_that_do_not_fit_are_refused_with_those_that_do(make):
    made = make(CACHE, [("past", "present")], sequences=1000, sram=1 << 16)
    with pytest.raises(CompileError) as caught:
        problem_of(made)
    (told,) = caught.value.diagnostics
    assert (told.code, told.at) == ("MCM-P080", "option sequences")
    assert "a chip has 64.0 KiB; by weights and states alone, at most 128 fit" in told.message
    fits = make(CACHE, [("past", "present")], sequences=128, sram=1 << 16)
    assert "past" in problem_of(fits).weight_names


def test_a_past_that_nothing_reads_is_no_lack_of_memory(make):
    text = "m (float[8] past, float[8] x) => (float[8] present) { present = Neg (x) }"
    note = dropped_note(dropped_of(make(text, [("past", "present")])))
    assert "no op reads the past" in note.message
    assert "memory" not in note.hint


def test_pins_that_part_the_ops_of_a_state_win(make):
    text = CACHE.replace("ReduceSum <keepdims = 0> (present)", "ReduceSum <keepdims = 0> (past)")
    pins = {"Concat_1": 0, "ReduceSum_2": 1}
    made = make(text, [("past", "present")], pins=pins)
    assert "past" not in problem_of(made).weight_names
    assert "pinned to chips 0, 1" in dropped_of(made)[0][1]


def test_a_past_that_comes_out_again_is_no_state(make):
    text = "m (float[8] past, float[8] x) => (float[8] present, float[8] y) {" + (
        " y = Add (past, x) present = Identity (y) }"
    )
    model, target, _ = make(text, [("past", "past")])
    ((_, why),) = units_with_states(model, target, FusionPlan(())).dropped
    assert "the present" in why


def test_all_states_together_have_to_fit(make):
    text = """m (float[64] past_0, float[64] past_1, float[64] x)
        => (float[64] present_0, float[64] present_1) {
        present_0 = Add (past_0, x)
        present_1 = Mul (past_1, x)
    }"""
    pairs = [("past_0", "present_0"), ("past_1", "present_1")]
    made = make(text, pairs, chips=1, sram=900)
    ((pair, why),) = dropped_of(made)
    assert pair.past == "past_1"
    assert "all chips have 900 B" in why


@st.composite
def graphs(draw):
    """A random graph in text; each op reads one or two values before it. Two states."""
    ops = draw(st.integers(2, 9))
    known, lines = ["p", "q", "x"], []
    for index in range(ops):
        one, other = (draw(st.sampled_from(known)) for _ in range(2))
        lines.append(f"v{index} = Add ({one}, {other})")
        known.append(f"v{index}")
    made = draw(st.permutations(range(ops)))[:2]
    outputs = ", ".join(f"float[4] v{k}" for k in made)
    body = "\n".join(lines)
    return f"m (float[4] p, float[4] q, float[4] x) => ({outputs}) {{ {body} }}", made


@given(drawn=graphs())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_units_are_convex_and_hold_their_states(make, drawn):
    text, made = drawn
    pairs = [("p", f"v{made[0]}"), ("q", f"v{made[1]}")]
    model, target, _ = make(text, pairs)
    contracted = units_with_states(model, target, FusionPlan(()))
    unit_of = {node.name: u for u, unit in enumerate(contracted.units) for node in unit.nodes}
    for state in contracted.held:
        readers = {node.name for node in model.graph if state.past in node.inputs}
        assert len({unit_of[name] for name in readers | {state.present.producer().name}}) == 1
    # In a topological order of the units every value comes from a unit before, or the same.
    for node in model.graph:
        for value in node.inputs:
            maker = value.producer()
            assert maker is None or unit_of[maker.name] <= unit_of[node.name]
    problem = problem_of((model, target, None))
    assert {state.past.name for state in contracted.held} == {*problem.weight_names}
    users = np.diff(problem.weight_ptr)
    assert (users == 1).all()
    assert not problem.clonable[problem.weight_users].any()
