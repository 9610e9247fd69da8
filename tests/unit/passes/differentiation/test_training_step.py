import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.graph.states import STATES_PROPERTY
from mcm_passes.differentiation.differentiate import TrainingStepOptions, training_step
from tests.oracles.central_differences import onnxruntime_of

HEADER = '<ir_version: 8, opset_import: ["" : 18]> graph '
MODEL = """(float[4,3] x, float[4,2] t) => (float loss, float[4,2] y, float[1,1] other)
<float[3,2] w = {1.0, 0.0, 0.5, -1.0, 0.2, 0.3}, float[2] b = {0.0, 0.1}, float[3] unread = {1,2,3},
 float[2] scale = {1.0, 2.0}> {
    m = MatMul(x, w)
    y = Add(m, b)
    d = Sub(y, t)
    s = Mul(d, d)
    loss = ReduceMean<keepdims=0>(s)
    r = Round(scale)
    q = Mul(s, r)
    other = ReduceMax(q)
}"""


def model_of(text):
    found = ir.from_onnx_text(HEADER + text)
    for index, node in enumerate(found.graph):
        node.name = f"n{index}"
    return found


def names(values):
    return [value.name for value in values]


def test_weights_that_the_loss_depends_on_become_states():
    step = training_step(model_of(MODEL), TrainingStepOptions(loss="loss"))
    assert [(pair.past, pair.present) for pair in step.states] == [("w", "w.next"), ("b", "b.next")]
    graph = step.model.graph
    assert names(graph.inputs) == ["x", "t", "w", "b"]
    assert names(graph.outputs) == ["loss", "y", "other", "w.next", "b.next"]
    assert {"unread", "scale"} <= set(graph.initializers)
    assert json.loads(step.model.metadata_props[STATES_PROPERTY]) == [
        ["w", "w.next"],
        ["b", "b.next"],
    ]
    assert check_invariants(step.model) == []
    onnx.checker.check_model(ir.to_proto(step.model), full_check=True)
    assert step.forward_ops + step.backward_ops + step.update_ops == len(graph)


def test_a_weight_whose_gradient_is_zero_everywhere_stays_one():
    step = training_step(model_of(MODEL), TrainingStepOptions(loss="other", optimizer="adam"))
    assert "scale" in step.model.graph.initializers
    assert [p.past for p in step.states] == ["w", "w.m", "w.v", "b", "b.m", "b.v", "adam.step"]
    assert not step.initial_values["b.m"].numpy().any()


def test_variables_may_be_chosen():
    options = TrainingStepOptions(loss="loss", variables="b")
    step = training_step(model_of(MODEL), options)
    assert [pair.past for pair in step.states] == ["b"]
    assert not any(name.startswith("grad/n0/") for name in names(step.model.graph))


def test_names_that_are_taken_get_a_number():
    text = MODEL.replace("other", '"w.next"')
    step = training_step(model_of(text), TrainingStepOptions(loss="loss"))
    assert step.states[0].present == "w.next_2"


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ("", "2 outputs of the model are numbers"),
        ("y", r"its shape is \[4, 2\]"),
        ("nothing", "no such output"),
        ("squares:nothing", "no output 'nothing'"),
    ],
)
def test_what_is_no_loss_is_refused(loss, words):
    with pytest.raises(CompileError, match=words) as caught:
        training_step(model_of(MODEL), TrainingStepOptions(loss=loss))
    assert caught.value.diagnostics[0].code == "MCM-D032"


def test_integers_are_no_loss():
    text = "(float[2] x) => (int64 n) { n = Size(x) }"
    with pytest.raises(CompileError, match="of floating point"):
        training_step(model_of(text), TrainingStepOptions(loss="n"))


@pytest.mark.parametrize("variables", ["nothing", "unread", "scale"])
def test_nothing_to_train_is_told(variables):
    text = MODEL if variables != "scale" else MODEL.replace("Round(scale)", "Identity(scale)")
    with pytest.raises(CompileError) as caught:
        training_step(model_of(text), TrainingStepOptions(loss="loss", variables=variables))
    assert caught.value.diagnostics[0].code == "MCM-D033"


def test_a_loss_without_any_gradient_has_nothing_to_train():
    options = TrainingStepOptions(loss="other", variables="scale")
    with pytest.raises(CompileError) as caught:
        training_step(model_of(MODEL), options)
    assert caught.value.diagnostics[0].code == "MCM-D033"


@pytest.mark.parametrize(
    "options", [{"optimizer": "rmsprop"}, {"learning_rate": 0.0}, {"clip": -1.0}]
)
def test_options_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        TrainingStepOptions(**options)


ZOO = {
    "bert-tiny{hidden=16,intermediate=32,vocab=20,positions=8,seq=4}": "pooler_output",
    "stacked-rnn{hidden=8}": "logits",
    "plain-cnn{image_size=8,stages=2,blocks=1,width=4,classes=5,batch=2}": "logits",
    "lstm-lm{hidden=8,vocab=20,seq=3,layers=1}": "logits",
}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("spec", list(ZOO))
def test_losses_fall_in_onnxruntime(spec, optimizer):
    model = build_zoo_model(spec)
    output = ZOO[spec]
    kind = "squares" if output == "pooler_output" else "cross_entropy"
    rate = {"sgd": 0.05, "adam": 0.01}[optimizer]
    loss = f"{kind}:{output}"
    step = training_step(
        model, TrainingStepOptions(loss=loss, optimizer=optimizer, learning_rate=rate)
    )
    run = onnxruntime_of(ir.to_proto(step.model))
    feeds = {name: value.numpy() for name, value in step.initial_values.items()}
    data = {k: v for k, v in random_inputs(step.model, 0).items() if k not in feeds}
    losses = []
    for _ in range(20):
        found = run({**data, **feeds})
        losses.append(float(found[step.loss]))
        feeds = {pair.past: found[pair.present] for pair in step.states}
    assert np.mean(losses[-3:]) < 0.8 * losses[0]
    assert all(np.isfinite(losses))
