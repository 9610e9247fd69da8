import onnx_ir as ir
import pytest

from mcm_compiler.contracts.gradients import NotDifferentiable
from mcm_compiler.diagnostics import CompileError
from mcm_passes.differentiation.differentiate import made_ready
from mcm_passes.differentiation.emission import Emitter
from mcm_passes.differentiation.reverse_mode import (
    RegisteredGradient,
    gradients_of,
    installed_gradients,
    needed_for,
    reached_from,
)

HEADER = '<ir_version: 8, opset_import: ["" : 18, "com.acme" : 1]> graph '


def model_of(text):
    model = ir.from_onnx_text(HEADER + text)
    for index, node in enumerate(model.graph):
        node.name = f"n{index}"
    for node in model.graph:
        for value in node.outputs:
            if node.domain:
                value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([3])
    made_ready(model)
    return model


def gradients(model, sources, rules=None):
    """Emits gradients of the first output; the ops that were emitted, and the gradients."""
    graph = model.graph
    ops = Emitter(graph, 18)
    values = {v.name: v for v in (*graph.inputs, *graph.initializers.values())}
    loss = graph.outputs[0]
    table = dict(installed_gradients())
    own = (rules or {}).items()
    table.update({name: RegisteredGradient(name, rule, "test") for name, rule in own})
    found = gradients_of(
        list(graph), {loss: ops.like(loss, 1.0)}, [values[s] for s in sources], ops, table
    )
    return ops.finish(), found


def codes(caught):
    return [d.code for d in caught.value.diagnostics]


BLEND = """(float[3] x, float[3] w) => (float loss) {
    a = com.acme.Blend(x, w)
    b = com.acme.Blend(a, w)
    loss = ReduceSum<keepdims=0>(b)
}"""


def test_gradients_that_meet_are_one_sum_of_many():
    model = model_of(
        "(float[3] w) => (float loss) { a = Neg(w) b = Exp(w) c = Tanh(w) d = Sum(a, b, c) "
        "loss = ReduceSum<keepdims=0>(d) }"
    )
    nodes, (gradient,) = gradients(model, ["w"])
    sums = [node for node in nodes if node.op_type == "Sum"]
    assert [len(node.inputs) for node in sums] == [3]
    assert sums[0].name == "grad/w/0"
    assert gradient is sums[0].outputs[0]


def test_ops_that_no_source_reaches_get_no_gradient_ops():
    model = model_of(
        "(float[3] x, float[3] w) => (float loss) { a = Exp(x) b = Sin(a) c = Mul(b, w) "
        "unread = Cos(w) loss = ReduceSum<keepdims=0>(c) }"
    )
    nodes, found = gradients(model, ["w"])
    assert {node.name.split("/")[1] for node in nodes} == {"n2", "n4"}
    assert all(node.name.startswith("grad/n") for node in nodes)
    assert found[0] is not None


def test_a_source_behind_integers_has_no_gradient():
    model = model_of(
        "(float[3] w, float[3] x) => (float loss) { i = Cast<to=7>(w) f = Cast<to=1>(i) "
        "m = Mul(f, x) loss = ReduceSum<keepdims=0>(m) }"
    )
    nodes, (of_w, of_x) = gradients(model, ["w", "x"])
    assert of_w is None
    assert of_x is not None
    assert not any("n0" in node.name or "n1" in node.name for node in nodes)


def test_every_operator_without_a_rule_is_told_once():
    with pytest.raises(CompileError) as caught:
        gradients(model_of(BLEND), ["w"])
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-D030"
    assert "'com.acme::Blend' (2 ops)" in found.message
    assert "'n0'" in found.at


def test_operators_off_the_way_need_no_rule():
    model = model_of(
        "(float[3] x, float[3] w) => (float loss) { a = com.acme.Blend(x, x) b = Mul(a, w) "
        "loss = ReduceSum<keepdims=0>(b) }"
    )
    _, (gradient,) = gradients(model, ["w"])
    assert gradient is not None


def test_a_refusal_is_told_with_its_reason():
    def refuse(request):
        raise NotDifferentiable("it blends at random")

    with pytest.raises(CompileError, match="it blends at random") as caught:
        gradients(model_of(BLEND), ["w"], {"com.acme::Blend": refuse})
    assert codes(caught) == ["MCM-D031"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda request: [None], "1 gradients for 2 inputs"),
        (lambda request: [None, request.ops.like(request.gradients[0], 1.0)], r"FLOAT\[\]"),
        (lambda request: 1 / 0, "ZeroDivisionError"),
        (lambda request: [None, request.ops.op("Nonsense", request.gradients[0])], "Nonsense"),
    ],
)
def test_a_rule_that_does_not_fit_is_told(rule, words):
    with pytest.raises(CompileError, match=words) as caught:
        gradients(model_of(BLEND), ["w"], {"com.acme::Blend": rule})
    assert codes(caught) == ["MCM-D035"]


def test_a_shape_that_is_not_static_is_told():
    model = ir.from_onnx_text(
        HEADER + "(float[N] x, float[1] w) => (float loss) "
        "{ a = Mul(x, w) loss = ReduceSum<keepdims=0>(a) }"
    )
    for index, node in enumerate(model.graph):
        node.name = f"n{index}"
        for value in node.outputs:
            value.type = ir.TensorType(ir.DataType.FLOAT)
    model.graph.outputs[0].shape = ir.Shape([])
    with pytest.raises(CompileError, match="static") as caught:
        gradients(model, ["w"])
    assert "MCM-D034" in codes(caught)


def test_a_body_that_reads_a_source_from_outside_is_refused():
    model = model_of(
        "(bool c, float[3] w) => (float loss) { y = If (c) <then_branch = then () => (float[3] p) "
        "{ p = Neg(w) }, else_branch = other () => (float[3] q) { q = Exp(w) }> "
        "loss = ReduceSum<keepdims=0>(y) }"
    )
    with pytest.raises(CompileError, match="reads 'w' from outside") as caught:
        gradients(model, ["w"], {"If": lambda request: [None]})
    assert codes(caught) == ["MCM-D031"]


def test_what_is_reached_and_what_is_needed():
    model = model_of(
        "(float[3] x) => (float[3] y) { a = Neg(x) s = Shape(x) b = Exp(a) y = Sin(a) }"
    )
    a, s, b, y = (node.outputs[0] for node in model.graph)
    (x,) = model.graph.inputs
    assert reached_from(model.graph, [x]) == {x, a, b, y}
    assert s not in reached_from(model.graph, [x])
    assert [node.op_type for node in needed_for(list(model.graph), [y])] == ["Neg", "Sin"]
