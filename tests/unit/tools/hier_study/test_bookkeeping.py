"""Bookkeeping changes no number and adds what it says, where it says so."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hier_study.bookkeeping import paper_step
from hier_study.training_models import NmtTraining

from mcm_models.zoo.lstm_language_models import Rnnlm
from mcm_passes.differentiation.differentiate import TrainingStepOptions

SMALL = {"steps": 2, "hidden": 4, "vocab": 5, "batch": 2, "chunk": 1, "shape_only": False}


def _step(builder, bookkeeping):
    options = TrainingStepOptions(optimizer="adam")
    return paper_step(builder.build(), options, bookkeeping=bookkeeping)


def _feeds(step):
    rng = np.random.default_rng(0)
    feeds = {name: tensor.numpy() for name, tensor in step.initial_values.items()}
    for value in step.model.graph.inputs:
        if value.name not in feeds:
            extents = value.shape.numpy()
            whole = value.dtype == ir.DataType.INT64
            feeds[value.name] = (
                rng.integers(5, size=extents) if whole else np.ones(extents, np.float32)
            )
    return feeds


def _session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = ir.to_proto(model).SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _run(step):
    session = _session(step.model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, _feeds(step)), strict=True))


def test_results_are_equal_to_the_bit():
    builder = NmtTraining(layers=2, **SMALL)
    plain, kept = _step(builder, False), _step(builder, True)
    expected, found = _run(plain), _run(kept)
    assert expected.keys() == found.keys()
    assert plain.states == kept.states
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_only_views_and_shapes_are_added():
    builder = Rnnlm(**SMALL)
    plain, kept = (Counter(n.op_type for n in _step(builder, b).model.graph) for b in (False, True))
    added = kept - plain
    assert set(added) == {"Identity", "Reshape", "Shape"}
    assert not plain - kept


def test_a_cell_gets_what_tensorflow_gave_it():
    """By hand, for a cell in the midst of its layer: 3 `Mul` and an `Add` of equal shapes with two
    gradients each, the bias, and two `MatMul` and the `Concat` with two gradients each."""
    nodes = list(_step(Rnnlm(**SMALL | {"steps": 3}), True).model.graph)
    added = Counter(node.op_type for node in nodes if node.name.startswith("grad//lstm.1/step.1/"))
    sums, dependencies = 4 * 2 + 1, 4 * 2 + 4 * 2
    assert added["Shape"] == added["Reshape"] == 4 * 2 + 2
    assert added["Identity"] == sums + dependencies


@pytest.mark.parametrize("name", ["lstm.0.weight", "projection.bias"])
def test_variables_are_read_once_besides_their_update(name):
    step = _step(Rnnlm(**SMALL), True)
    (variable,) = [value for value in step.model.graph.inputs if value.name == name]
    readers = [use.node.name for use in variable.uses()]
    outside = [reader for reader in readers if not reader.startswith(f"update/{name}/")]
    assert outside == [f"{name}/read"]
    assert len(readers) > 1
    assert [n.name for n in step.model.graph if n.name == f"{name}/read"]


def test_rnnlm_has_the_ops_that_its_paper_counts():
    """9,021 in Mirhoseini et al. 2018; steps were chosen for it, so 5 % leaves room for little."""
    step = paper_step(Rnnlm().build(), TrainingStepOptions(optimizer="adam"))
    assert len(step.model.graph) == pytest.approx(9021, rel=0.05)


def test_translation_learns():
    """The loss falls over steps that carry their states on, with all options at once."""
    model = NmtTraining(layers=2, **SMALL).build()
    options = TrainingStepOptions(optimizer="adam", learning_rate=0.05)
    step = paper_step(model, options, late=True)
    session = _session(step.model)
    names = [output.name for output in session.get_outputs()]
    feeds, losses = _feeds(step), []
    for _ in range(8):
        found = dict(zip(names, session.run(None, feeds), strict=True))
        losses.append(float(found["loss"]))
        feeds |= {pair.past: found[pair.present] for pair in step.states}
    assert losses[-1] < 0.7 * losses[0]
