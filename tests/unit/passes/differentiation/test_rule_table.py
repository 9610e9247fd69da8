import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import GRADIENT_RULES
from mcm_passes.differentiation.onnx_rules import FAMILIES, ONNX_GRADIENTS
from mcm_passes.differentiation.reverse_mode import installed_gradients, operator_of

NAMES = ("com.test::Blend", "MatMul", "more")


def rule(request):
    return [None] * len(request.node.inputs)


@pytest.fixture(autouse=True)
def _forget():
    installed_gradients.cache_clear()
    yield
    for name in NAMES:
        GRADIENT_RULES.remove(name)
    installed_gradients.cache_clear()


def test_operators_have_their_domain_in_front():
    assert operator_of(ir.node("MatMul", [None])) == "MatMul"
    assert operator_of(ir.node("MatMul", [None], domain="ai.onnx")) == "MatMul"
    assert operator_of(ir.node("Blend", [None], domain="com.test")) == "com.test::Blend"


def test_no_two_families_have_a_rule_for_one_operator():
    assert len(ONNX_GRADIENTS) == sum(map(len, FAMILIES.values()))


def test_rules_of_plug_ins_stand_beside_the_own():
    GRADIENT_RULES.add("com.test::Blend", rule, "test 1.0")
    GRADIENT_RULES.add("more", {"com.test::Mix": rule}, "test 1.0")
    found = installed_gradients()
    assert found["com.test::Blend"].origin == found["com.test::Mix"].origin == "test 1.0"
    assert found["MatMul"].rule is ONNX_GRADIENTS["MatMul"]


def test_two_rules_for_one_operator_are_refused():
    GRADIENT_RULES.add("MatMul", rule, "test 1.0")
    with pytest.raises(CompileError, match="MatMul") as caught:
        installed_gradients()
    assert caught.value.diagnostics[0].code == "MCM-X001"


@pytest.mark.parametrize("component", ["n c -> n c", {"com.test::Mix": 3}, {3: rule}])
def test_what_is_no_rule_is_refused(component):
    GRADIENT_RULES.add("more", component, "test 1.0")
    with pytest.raises(CompileError, match="where a gradient rule is due") as caught:
        installed_gradients()
    assert caught.value.diagnostics[0].code == "MCM-D037"
