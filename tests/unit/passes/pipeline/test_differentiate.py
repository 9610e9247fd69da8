import json

import numpy as np
import onnx
import pytest

from mcm_compiler.api import import_named, run_passes
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.states import STATES, STATES_PROPERTY, StatePair, recorded_states
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import GRADIENT_RULES
from mcm_passes.differentiation.reverse_mode import installed_gradients

MODEL = "zoo:stacked-rnn{hidden=8,steps=2}"
PASS = 'differentiate{{loss="cross_entropy:logits",optimizer=adam,initial="{}"}}'


def run(model, passes):
    return run_passes(model, "mcm4", CompileOptions(passes=passes))


def test_a_training_step_out_of_the_pipeline(tmp_path):
    path = tmp_path / "initial.npz"
    model, found, _ = run(MODEL, PASS.format(path))
    states = STATES.find(model)
    assert states.pairs[-1] == StatePair("adam.step", "adam.step.next")
    with np.load(path) as values:
        assert sorted(values) == sorted(pair.past for pair in states.pairs)
    (told,) = [d for d in found if d.code == "MCM-D038"]
    assert f"{len(states.pairs)} states" in told.message
    assert "logits.labels" in [value.name for value in model.graph.inputs]


def test_a_written_step_is_read_with_its_states(tmp_path):
    model, _, _ = run(MODEL, PASS.format(""))
    pairs = STATES.find(model).pairs
    write_model(model, tmp_path / "step.onnx")
    again, _, _ = run(str(tmp_path / "step.onnx"), "simplify")
    assert set(STATES.find(again).pairs) == set(pairs)


def test_a_record_that_is_none_is_not_read(tmp_path):
    model, _ = import_named(MODEL, {}, {})
    assert recorded_states(model) is None
    for text in ("[", "3", "[[1]]"):
        model.metadata_props[STATES_PROPERTY] = text
        assert recorded_states(model) is None
    model.metadata_props[STATES_PROPERTY] = json.dumps([["gone", "logits"]])
    assert recorded_states(model) == []


PLUG_IN = '''
from mcm_compiler.registry import register

@register("gradient-rule", "com.acme::Blend")
def blend(request):
    """y = (a + b) / 2."""
    (gradient,) = request.gradients
    half = request.ops.op("Mul", gradient, request.ops.like(gradient, 0.5))
    return [
        request.ops.reduced_to(half, value) if wanted else None
        for value, wanted in zip(request.node.inputs, request.wanted)
    ]
'''


@pytest.fixture
def blended(tmp_path):
    path = tmp_path / "blend.onnx"
    text = """<ir_version: 8, opset_import: ["" : 18, "com.acme" : 1]>
    m (float[4] x) => (float loss) <float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] y> {
        y = com.acme.Blend(x, w)
        loss = ReduceSum<keepdims=0>(y)
    }"""
    onnx.save(onnx.parser.parse_model(text), path)
    installed_gradients.cache_clear()
    yield path
    GRADIENT_RULES.remove("com.acme::Blend")
    installed_gradients.cache_clear()


def test_the_rule_of_a_plug_in(tmp_path, blended):
    from mcm_compiler.plugin_files import load_plugin

    with pytest.raises(CompileError, match="no gradient rule for 'com"):
        run(str(blended), "differentiate")
    plug_in = tmp_path / "gradients.py"
    plug_in.write_text(PLUG_IN)
    load_plugin(plug_in)
    installed_gradients.cache_clear()
    model, _, _ = run(str(blended), "differentiate{clip=0}")
    ops = {node.name: node.op_type for node in model.graph if node.name.startswith("grad/")}
    assert "Mul" in ops.values()
