"""The text form of sharding rules: read, written, and refused with the place of the fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.contracts.sharding.notation import parse_rule
from mcm_compiler.contracts.sharding.rules import Factor, FactorKind, ShardingRule
from mcm_compiler.contracts.sharding.templates import ordered_rule, rule_for_shapes
from mcm_compiler.diagnostics import CompileError


@pytest.mark.parametrize(
    "text",
    [
        "b m k+, k+ n -> b m n",
        "a (h d) -> a h d",
        "a !n -> a !n",
        "b y~ x~ -> b y~ x~",
        "a x/, a y/ -> a z/",
        "k+max -> []",
        "a k+mean, _, [] -> a 1",
        "-> a b",
        "(g !c) 1, _ -> (g !c)",
    ],
)
def test_what_is_read_is_written_alike(text):
    assert str(parse_rule(text)) == text


def test_parts_of_a_rule():
    rule = parse_rule("b (h !d), k+prod _1x, _ -> b h, []".replace("_1x", "h"), {"h": 8, "b": None})
    assert rule == ShardingRule(
        (
            Factor("b"),
            Factor("h", 8),
            Factor("d", None, FactorKind.REPLICATE),
            Factor("k", None, FactorKind.REDUCE, "prod"),
        ),
        (((0,), (1, 2)), ((3,), (1,)), None),
        (((0,), (1,)), ()),
    )


def test_one_mark_is_enough_and_sum_has_a_name():
    assert parse_rule("m k, k+sum n -> m n") == parse_rule("m k+, k+ n->m n")


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("a b", "MCM-S001", 4),
        ("a -> a -> a", "MCM-S001", 8),
        ("a (b c -> a", "MCM-S001", 3),
        ("a (b (c)) -> a", "MCM-S001", 3),
        ("a () -> a", "MCM-S001", 3),
        ("a) -> a", "MCM-S001", 2),
        ("a, , b -> a", "MCM-S001", 4),
        ("a, -> a", "MCM-S001", 4),
        ("a _ -> a", "MCM-S001", 3),
        ("a ? -> a", "MCM-S001", 3),
        ("2 -> a", "MCM-S001", 1),
        ("a -> (1 a)", "MCM-S001", 7),
        ("* a * -> a", "MCM-S001", 5),
        ("a+ b~, a~ -> b", "MCM-S002", 8),
        ("!a+ -> b", "MCM-S002", 1),
        ("m k+avg -> m", "MCM-S003", 5),
        ("* m -> * m", "MCM-S004", 1),
        ("a a -> a", "MCM-S006", 3),
        ("(a a) -> a", "MCM-S006", 4),
        ("a k+ -> a k", "MCM-S007", 3),
        ("a k -> a", "MCM-S007", 3),
        ("", "MCM-S001", 1),
    ],
)
def test_faults_are_told_with_their_column(text, code, column):
    with pytest.raises(CompileError) as caught:
        parse_rule(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert diagnostic.at is not None
    assert diagnostic.at.startswith(f"column {column} of sharding rule")


@given(st.text(alphabet="ab*()[]_1!+~/,-> mxk", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        rule = parse_rule(text)
    except CompileError as error:
        assert all(d.code.startswith("MCM-S00") for d in error.diagnostics)  # noqa: PT017
    else:
        assert parse_rule(str(rule)) == rule


MATMUL = "* m k+, * k+ n -> * m n"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((5, 6), (6, 7), (5, 7)), "m k+, k+ n -> m n"),
        (((4, 5, 6), (6, 7), (4, 5, 7)), "a m k+, k+ n -> a m n"),
        (((5, 6), (4, 6, 7), (4, 5, 7)), "m k+, a k+ n -> a m n"),
        (((2, 1, 5, 6), (4, 6, 7), (2, 4, 5, 7)), "a 1 m k+, b k+ n -> a b m n"),
        (((1, 6), (6, 7), (1, 7)), "1 k+, k+ n -> 1 n"),
        (((5, 1), (1, 7), (5, 7)), "m 1, 1 n -> m n"),
        (((None, 6), (6, 7), (None, 7)), "m k+, k+ n -> m n"),
        (((4, 5, 6), None, None), "a m k+, _ -> _"),
    ],
)
def test_a_template_with_shapes(shapes, expected):
    assert str(rule_for_shapes(MATMUL, shapes[:2], shapes[2:])) == expected


def test_sizes_come_from_shapes_and_products():
    rule = rule_for_shapes("a (h d) -> a h d", [(4, 12)], [(4, 3, 4)])
    assert [f.size for f in rule.factors] == [4, 3, 4]
    rule = rule_for_shapes("(g !c), (g !c) -> (g !c)", [(12,), (1,)], [(12,)], {"g": 4})
    assert str(rule) == "(g !c), 1 -> (g !c)"
    assert [f.size for f in rule.factors] == [4, 3]
    assert str(rule_for_shapes("(h d) -> h d", [(4,)], [(1, 4)])) == "d -> 1 d"


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "code"),
    [
        ("a b -> a b", [(2, 3, 4)], [(2, 3)], "MCM-S004"),
        ("* m k+ -> * m", [(3,)], [()], "MCM-S004"),
        ("a -> a", [(2,), (2,)], [(2,)], "MCM-S004"),
        ("a b -> a b", [(2, 3)], [(2, 4)], "MCM-S005"),
        ("(a b) -> a b", [(7,)], [(2, 3)], "MCM-S005"),
        ("(a !b) -> a 1", [(7,)], [(2, 1)], "MCM-S005"),
    ],
)
def test_a_template_that_does_not_fit_the_shapes(text, inputs, outputs, code):
    with pytest.raises(CompileError) as caught:
        rule_for_shapes(text, inputs, outputs)
    assert caught.value.diagnostics[0].code == code


def test_a_halo_has_the_size_of_the_result():
    rule = rule_for_shapes("n y~ -> n y~", [(2, 9)], [(2, 4)])
    assert [f.size for f in rule.factors] == [2, 4]


def test_rules_are_written_in_the_order_of_their_factors():
    made = ordered_rule([Factor(""), Factor("a", 3), Factor("", 2)], [[(2,), (1,)]], [[(1,), (2,)]])
    assert made == parse_rule("b a -> a b", {"a": 3, "b": 2})
