"""A sharding rule of an installed plug-in is found by the name of its operator."""

from __future__ import annotations

import importlib.metadata

import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from mcm_compiler.contracts.sharding.rules import FactorKind
from mcm_passes.parallelism.rules.graph_rules import installed_rules, missing_rules, rules_of


@pytest.fixture(scope="module", autouse=True)
def acme():
    try:
        importlib.metadata.version("acme-passes")
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("the plug-in tests/acme_passes is not installed: `make test` installs it")


def model_of(operator, operands, **attributes):
    node = helper.make_node(operator, [*operands], ["y"], "op", domain="com.acme", **attributes)
    image = [2, 3, 8, 8]
    shapes = {"a": image, "b": image, "w": [3], "s": []}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in operands]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, image)]
    graph = helper.make_graph([node], "acme", inputs, outputs)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.acme", 1)]
    return ir.from_proto(helper.make_model(graph, opset_imports=imports))


@pytest.mark.parametrize("operator", ["com.acme::Blend", "com.acme::Fade"])
def test_the_rule_is_registered_with_its_origin(operator):
    registered = installed_rules().registered(operator)
    assert registered is not None
    assert registered.origin.startswith("acme-passes ")


def test_a_rule_that_is_a_text_is_used():
    model = model_of("Blend", "abw")
    ((_, rule),) = rules_of(model)
    assert str(rule) == "n c y x, n c y x, c -> n c y x"
    assert missing_rules(model) == []


def test_a_rule_may_depend_on_attributes():
    ((_, rule),) = rules_of(model_of("Fade", "as", sideways=1))
    assert str(rule) == "n c y !x, _ -> n c y !x"


def test_an_operator_without_a_rule_is_told_and_stays_whole():
    model = model_of("Mystery", "abw")
    ((_, rule),) = rules_of(model)
    assert {factor.kind for factor in rule.factors} == {FactorKind.REPLICATE}
    (note,) = missing_rules(model)
    assert note.code == "MCM-S010"
    assert "'com.acme::Mystery'" in note.message
