"""The table of installed rules: plug-ins, duplicates, rules that do not fit, and whole graphs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.contracts.sharding.notation import parse_rule
from mcm_compiler.contracts.sharding.rules import Factor, OpFacts, ShardingRule
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.registry import SHARDING_RULES
from mcm_passes.parallelism.rules.graph_rules import (
    RegisteredRule,
    RuleTable,
    installed_rules,
    missing_rules,
    operator_name,
    rules_of,
)
from mcm_passes.parallelism.rules.operators import ONNX_RULES
from mcm_passes.parallelism.rules.shard_forms import shard_form


@pytest.fixture(autouse=True)
def fresh():
    installed_rules.cache_clear()
    yield
    for name in ("com.test::Blend", "more", "MatMul"):
        SHARDING_RULES.remove(name)
    installed_rules.cache_clear()


def blend(_facts):
    return parse_rule("a b -> a b", {"a": 4, "b": 6})


FACTS = OpFacts("Blend", "com.test", 1, {}, ((4, 6),), ((4, 6),))


def test_names_of_operators():
    assert operator_name("MatMul", "") == operator_name("MatMul", "ai.onnx") == "MatMul"
    assert operator_name("Blend", "com.test") == "com.test::Blend"


def test_one_rule_or_a_mapping_can_be_registered():
    SHARDING_RULES.add("com.test::Blend", blend, "test")
    SHARDING_RULES.add("more", {"com.test::Mix": blend}, "test")
    table = installed_rules()
    assert table.has("Blend", "com.test")
    assert table.has("Mix", "com.test")
    assert table.has("MatMul", "")
    assert {"com.test::Mix", "MatMul"} <= set(table.operators())
    assert str(table.rule(FACTS)) == "a b -> a b"


def test_a_text_can_be_registered():
    SHARDING_RULES.add("com.test::Blend", "* n -> * n", "test")
    assert str(installed_rules().rule(FACTS)) == "a n -> a n"


def test_a_text_that_is_no_rule_is_told_with_its_column_and_origin():
    SHARDING_RULES.add("more", {"com.test::Blend": "a (b -> a b"}, "test 1.0")
    with pytest.raises(CompileError) as caught:
        installed_rules()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-S001"
    assert diagnostic.at == "column 3 of sharding rule 'a (b -> a b' of test 1.0"


def test_two_rules_for_one_operator_are_an_error():
    SHARDING_RULES.add("MatMul", blend, "test")
    with pytest.raises(CompileError) as caught:
        installed_rules()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-X001"
    assert "'MatMul'" in diagnostic.message


@pytest.mark.parametrize("component", [3, {"Blend": 3}, {3: blend}])
def test_an_entry_point_without_rules_is_an_error(component):
    SHARDING_RULES.add("more", component, "test")
    with pytest.raises(CompileError) as caught:
        installed_rules()
    assert caught.value.diagnostics[0].code == "MCM-S009"


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (parse_rule("a b, a -> a b"), "2 operands, the op 1"),
        (parse_rule("a b -> a b, a"), "2 results, the op 1"),
        (parse_rule("a -> a 1"), "operand 0 has 2 dimensions, in the rule 1"),
        (ShardingRule((Factor("a"),), (((0,), (1,)),), (((0,), ()),)), "factors of operand 0"),
        (ShardingRule((Factor("a"),), (((0,), (0,)),), (((0,), ()),)), "twice in operand 0"),
        (ShardingRule((Factor("a"),), (((0,), ()),), (((), ()),)), "'a' is in no result"),
    ],
)
def test_a_rule_that_does_not_fit_the_op_is_an_error(made, problem):
    table = RuleTable({"com.test::Blend": RegisteredRule("com.test::Blend", lambda _: made, "x")})
    with pytest.raises(CompileError) as caught:
        table.rule(FACTS)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-S008"
    assert problem in diagnostic.message


def test_a_maker_that_fails_is_told():
    def failing(facts):
        return facts.attributes["alpha"]

    table = RuleTable({"com.test::Blend": RegisteredRule("com.test::Blend", failing, "acme 1.0")})
    with pytest.raises(CompileError) as caught:
        table.rule(FACTS)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.at) == ("MCM-S008", "acme 1.0")
    assert "KeyError" in diagnostic.message


def test_columns_of_a_packed_product_go_with_their_scales_and_zero_points():
    shapes = ((2, 3, 64), (8, 2, 16), (16,), (8, 1), None, (8,))
    facts = OpFacts("MatMulNBits", "com.microsoft", 1, {"N": 8}, shapes, ((2, 3, 8),))
    rule = installed_rules().rule(facts)
    assert str(rule) == "a b !k, n !c !d, (n !e), n 1, _, n -> a b n"
    columns = next(at for at, factor in enumerate(rule.factors) if factor.name == "n")
    assert shard_form(facts, rule, columns, 3, 8).attributes == {"N": 5}


def test_an_unknown_operator_is_whole():
    assert str(RuleTable({}).rule(FACTS)) == "!a !b -> !c !d"


def model_of(nodes, shapes, weights=()):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shapes["x"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "g", inputs, [values[-1]], list(weights), value_info=values)
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))


def test_ops_that_agree_share_a_rule():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["c"], axis=0),
        helper.make_node("Softmax", ["c"], ["d"], axis=1),
    ]
    model = model_of(nodes, {name: [4, 6] for name in "xabcd"})
    rules = [rule for _, rule in rules_of(model)]
    assert rules[0] is rules[1]
    assert [str(r) for r in rules[2:]] == ["!a b -> !a b", "a !b -> a !b"]


def test_constants_are_read_from_initializers_and_constant_nodes():
    axes = numpy_helper.from_array(np.array([1]), "axes")
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["a"]),
        helper.make_node("Constant", [], ["target"], value_ints=[2, 2, 1]),
        helper.make_node("Reshape", ["a", "target"], ["b"]),
    ]
    model = model_of(nodes, {"x": [4, 6], "a": [4, 1], "b": [2, 2, 1]}, [axes])
    texts = [str(rule) for node, rule in rules_of(model) if node.op_type != "Constant"]
    assert texts == ["a b+, _ -> a 1", "(a b) 1, _ -> a b 1"]


def test_what_is_not_known_stays_whole():
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
    ]
    model = model_of(nodes, {"x": ["n", 6], "a": ["m", 6], "b": ["k", 6]})
    texts = [str(rule) for _, rule in rules_of(model)]
    assert texts == ["!a !b, _ -> !c !d", "a b, a b -> a b"]


def test_missing_rules_are_told_once_per_operator():
    nodes = [
        helper.make_node("Blur", ["x"], ["a"], domain="com.test"),
        helper.make_node("Blur", ["a"], ["b"], domain="com.test"),
    ]
    (note,) = missing_rules(model_of(nodes, {name: [4, 6] for name in "xab"}))
    assert (note.code, note.severity) == ("MCM-S010", Severity.NOTE)
    assert "2 of them" in note.message


@pytest.mark.parametrize("operator", sorted(ONNX_RULES))
def test_an_op_that_its_rule_cannot_read_stays_whole(operator):
    """Ops with unknown ranks, with too few or too many operands, and without their attributes."""
    table = RuleTable({operator: RegisteredRule(operator, ONNX_RULES[operator], "here")})
    for shape in (None, (), (4,), (4, None, 6)):
        for operands in range(10):
            facts = OpFacts(operator, "", 21, {}, (shape,) * operands, (shape,))
            rule = table.rule(facts)
            assert len(rule.inputs) == operands
            assert shape is not None or set(rule.inputs) <= {None}
