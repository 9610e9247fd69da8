"""Ops of the backward pass wait for a gradient, and compute what they did."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from hier_study.bookkeeping import delay_early_ops, paper_step

from mcm_passes.differentiation.differentiate import TrainingStepOptions

TEXT = """
<ir_version: 8, opset_import: ["" : 18]>
net (float[2,3,8,8] x, int64[2] labels) => (float loss)
<float[4,3,3,3] a = {VALUES_A}, float[5,4] b = {VALUES_B}>
{
  c = Conv<pads=[1,1,1,1]>(x, a)
  r = Relu(c)
  t = Tanh(r)
  p = ReduceMean<keepdims=0>(t, axes)
  logits = Gemm<transB=1>(p, b)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""


def _model():
    rng = np.random.default_rng(0)
    text = TEXT.replace("=> (float loss)\n<", "=> (float loss)\n<int64[2] axes = {2, 3}, ")
    for name, count in (("VALUES_A", 108), ("VALUES_B", 20)):
        text = text.replace(name, ", ".join(f"{v:.4f}" for v in rng.standard_normal(count)))
    model = ir.from_proto(onnx.parser.parse_model(text))
    for node in model.graph:
        node.name = f"/{node.op_type}"
    return model


def _step(late):
    return paper_step(_model(), TrainingStepOptions(), bookkeeping=False, late=late)


def _early(graph):
    """Gradient ops that do not depend on the first of them, with the bytes that they make."""
    nodes = [node for node in graph if node.name.startswith("grad/")]
    scope = nodes[0].name.rpartition("/")[0]
    above = {}
    for node in graph:
        reads = [value.producer() for value in node.inputs if value is not None]
        above[node] = set().union(*(above[n] | {n} for n in reads if n is not None))
    return {
        node.name: sum(int(np.prod(v.shape.numpy())) * v.dtype.itemsize for v in node.outputs)
        for node in nodes
        if not node.name.startswith(scope)
        and "/wait" not in node.name
        and not any(other.name.startswith(scope) for other in above[node])
    }


def _run(step):
    rng = np.random.default_rng(1)
    feeds = {name: tensor.numpy() for name, tensor in step.initial_values.items()}
    feeds["x"] = rng.standard_normal((2, 3, 8, 8), dtype=np.float32)
    feeds["labels"] = np.array([1, 4])
    proto = ir.to_proto(step.model)
    onnx.checker.check_model(proto, full_check=True)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def test_large_ops_wait_and_small_ones_need_not():
    early = _early(_step(False).model.graph)
    activations = 2 * 4 * 8 * 8 * 4
    large = {name for name, made in early.items() if made >= activations // 4}
    assert len(large) >= 3
    step = _step(False)
    assert delay_early_ops(step.model.graph, activations // 4) > 0
    assert all(made < activations // 4 for made in _early(step.model.graph).values())


def test_results_are_equal_to_the_bit():
    plain, late = _step(False), _step(False)
    assert delay_early_ops(late.model.graph, 1) > 0
    for expected, found in zip(_run(plain), _run(late), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_option_leaves_what_is_small():
    plain, late = _step(False), _step(True)
    assert len(plain.model.graph) == len(late.model.graph)
