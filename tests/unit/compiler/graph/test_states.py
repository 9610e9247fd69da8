"""Which inputs and outputs are the past and the present of a state."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.graph.states import (
    StatePair,
    appended,
    copies_held,
    find_states,
    mark_in_place,
    written_in_place,
)


def graph(inputs: str, outputs: str, body: str = "") -> ir.Graph:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return ir.from_proto(onnx.parser.parse_model(text)).graph


def cache(past: str, present: str) -> ir.Graph:
    model = graph("float[1,2,3,4] x, float[1,2,1,4] n", "float[1,2,4,4] y")
    model.inputs[0].name, model.outputs[0].name = past, present
    return model


@pytest.mark.parametrize(
    ("past", "present"),
    [
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.11.decoder.value", "present.11.decoder.value"),
        ("past_key_values.0.key", "present_key_values.0.key"),
        ("past_0", "present_0"),
        ("past_key_self_3", "present_key_self_3"),
        ("cache_k_0", "cache_k_0_out"),
        ("cache_k_0", "new_cache_k_0"),
        ("conv_state_in", "conv_state_out"),
        ("in_cache_v_1", "out_cache_v_1"),
    ],
)
def test_customary_names_are_known(past, present):
    assert find_states(cache(past, present), None) == ((StatePair(past, present),), [])


@pytest.mark.parametrize(
    ("past", "present"), [("hidden", "hidden_out"), ("pastry", "presentry"), ("x", "y")]
)
def test_other_names_are_left_alone(past, present):
    assert find_states(cache(past, present), None) == ((), [])


JOIN = "{} = Concat <axis = 2> ({}, n)"
ENDS = "float[1,2,3,4] a, float[1,2,3,4] b, float[1,2,1,4] n", "float[1,2,4,4] c, float[1,2,4,4] d"


@pytest.mark.parametrize(
    ("ends", "body", "found"),
    [
        (ENDS, f"{JOIN.format('c', 'a')} {JOIN.format('d', 'b')}", [("a", "c"), ("b", "d")]),
        (ENDS, "y, c, d = Attention (n, n, n, , a, b)", [("a", "c"), ("b", "d")]),
        (
            (f"float[2] past_0, {ENDS[0]}", f"float[2] present_0, {ENDS[1]}"),
            f"present_0 = Neg (past_0) {JOIN.format('c', 'a')} {JOIN.format('d', 'b')}",
            [("past_0", "present_0"), ("a", "c"), ("b", "d")],
        ),
        # One input alone may be anything that is joined, and so may new rows in front.
        (ENDS, f"{JOIN.format('c', 'a')} d = Concat <axis = 2> (n, b)", []),
        (
            ("float[2,3] a, float[2,3] b, float[2,1] n", "float[2,4] c, float[2,4] d"),
            "c = Concat <axis = 1> (a, n) d = Concat <axis = 1> (b, n)",
            [],
        ),
    ],
)
def test_pasts_of_other_names_are_known_by_what_appends_to_them(ends, body, found):
    pairs, told = find_states(graph(*ends, body), None)
    assert (list(pairs), told) == ([StatePair(*pair) for pair in found], [])


def test_the_user_may_name_any_pair_or_none():
    pairs, told = find_states(cache("x", "y"), [("x", "y")])
    assert pairs == (StatePair("x", "y"),)
    assert told == []
    assert find_states(cache("past_0", "present_0"), ()) == ((), [])


def test_states_stand_in_the_order_of_the_inputs():
    model = graph("float[2] a, float[2] b", "float[2] c, float[2] d")
    pairs, _ = find_states(model, [("b", "c"), ("a", "d")])
    assert pairs == (StatePair("a", "d"), StatePair("b", "c"))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ([("past", "y")], "no input 'past'"),
        ([("x", "z")], "no output 'z'"),
        ([("x", "y"), ("x", "y2")], "input 'x' is in 2 states"),
        ([("x", "y"), ("n", "y")], "output 'y' is in 2 states"),
    ],
)
def test_wrong_names_are_refused(asked, what):
    model = graph("float[2] x, float[2] n", "float[2] y, float[2] y2")
    pairs, told = find_states(model, asked)
    assert pairs == ()
    assert {one.code for one in told} == {"MCM-P050"}
    assert what in told[0].message


@pytest.mark.parametrize(
    ("past", "present", "why"),
    [
        ("float[1,3,4]", "float16[1,4,4]", "FLOAT16"),
        ("float[3,4]", "float[1,4,4]", "[3, 4]"),
        ("float[1,3,4]", "float[2,4,4]", "at most one axis may grow"),
        ("float[1,3,4]", "float[1,2,4]", "at most one axis may grow"),
        ("float[1,n,4]", "float[1,4,4]", "sizes must be known"),
    ],
)
def test_shapes_and_types_have_to_fit(past, present, why):
    model = graph(f"{past} past_0", f"{present} present_0")
    for asked, severity in ((None, "warning"), ([("past_0", "present_0")], "error")):
        pairs, (told,) = find_states(model, asked)
        assert pairs == ()
        assert (told.code, told.severity) == ("MCM-P051", severity)
        assert why in told.message


def test_many_pairs_that_do_not_fit_are_one_warning():
    names = [f"past_{k}" for k in range(5)]
    model = graph(
        ", ".join(f"float[1,3,4] {name}" for name in names),
        ", ".join(f"float[1,2,4] present_{k}" for k in range(5)),
    )
    pairs, (told,) = find_states(model, None)
    assert pairs == ()
    assert "and 4 more pairs do not fit" in told.message
    assert told.at == "input 'past_0', 'past_1', 'past_2', ..."


def test_a_cache_without_its_present_is_a_warning():
    pairs, (told,) = find_states(cache("past_key_values.0.key", "out_0"), None)
    assert (pairs, told.code, told.severity) == ((), "MCM-P081", "warning")
    assert "'present.0.key' is expected" in told.message
    assert "'out_0'" in told.hint
    assert find_states(cache("past_key_values.0.encoder.key", "out_0"), None) == ((), [])


@pytest.mark.parametrize(
    ("past", "present"), [("state", "stateN"), ("h_in", "h_out"), ("h0", "hn"), ("c", "cn")]
)
def test_names_of_streaming_networks_are_a_note_with_the_option(past, present):
    model = graph(f"float[2,1,8] {past}, float[4] x", f"float[2,1,8] {present}, float[1] y")
    pairs, (told,) = find_states(model, None)
    assert (pairs, told.code, told.severity) == ((), "MCM-P082", "note")
    assert f"--state {past}={present}" in told.hint
    assert find_states(model, [(past, present)])[1] == []


def test_an_input_with_a_default_is_no_past():
    model = cache("past_0", "present_0")
    model.initializers["past_0"] = model.inputs[0]
    assert find_states(model, None) == ((), [])


def test_only_what_is_appended_grows_in_place():
    shapes = "float[1,3] past, float[1,1] n", "float[1,4] y, float[1,4] z, float[1,6] t"
    body = "y = Concat<axis=1>(past, n) z = Concat<axis=1>(n, past) t = Concat<axis=1>(past, past)"
    model = graph(*shapes, body)
    past, (y, z, t) = model.inputs[0], model.outputs
    assert appended(past, y)
    assert not appended(past, z)
    assert not appended(past, t)
    assert (copies_held(past, y, 3), copies_held(past, z, 3)) == (3, 4)


def test_what_attention_ops_append_to_grows_in_place_and_is_marked():
    model = graph(
        "float[1,2,1,4] q, float[1,2,1,4] k, float[1,2,7,4] past_0, float[1,2,7,4] past_1",
        "float[1,2,1,4] y, float[1,2,8,4] present_0, float[1,2,8,4] present_1",
        "y, present_0, present_1 = Attention (q, k, k, , past_0, past_1)",
    )
    (node,) = model
    pairs = [StatePair("past_0", "present_0"), StatePair("past_1", "present_1")]
    assert copies_held(model.inputs[2], model.outputs[1], 3) == 3
    assert not appended(model.inputs[3], model.outputs[1])
    mark_in_place(model, pairs)
    assert written_in_place(node) == {1: (4, 8), 2: (5, 8)}
    mark_in_place(model, pairs[1:])
    assert written_in_place(node) == {2: (5, 8)}
    # A join of its pieces has the same marks and no past.
    node.op_type, node.domain = "Concat", ""
    assert written_in_place(node) == {}


def test_joins_with_the_mark_of_a_divided_op_grow_from_nothing():
    model = graph(
        "float[1,7] past_0, float[1,1] k",
        "float[1,8] present_0, float[2,8] y",
        "present_0 = Concat <axis = 1> (past_0, k) y = Concat <axis = 0> (present_0, present_0)",
    )
    mark_in_place(model, [StatePair("past_0", "present_0")])
    grown, joined = model
    joined.metadata_props.update(grown.metadata_props)
    assert written_in_place(grown) == {0: (0, 1)}
    assert written_in_place(joined) == {}
