import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.invariants import check_invariants
from mcm_passes.differentiation.opset_raising import OPSET, raise_opset
from tests.oracles.central_differences import onnxruntime_of

BODIES = {
    13: [
        "y = ReduceMean<axes=[1], keepdims=0>(x)",
        "y = ReduceMax<axes=[0, 2]>(x)",
        "y = ReduceProd(x)",
        "a, b = Split<axis=2>(x) y = Sub(a, b)",
    ],
    12: [
        "y = ReduceSum<axes=[-1]>(x)",
        "a = Unsqueeze<axes=[0, 4]>(x) y = Squeeze<axes=[0]>(a)",
        "y = Squeeze(x)",
        "y = Softmax<axis=1>(x)",
        "y = LogSoftmax<axis=2>(x)",
        "y = Softmax<axis=0>(x)",
        "a, b, c = Split<axis=2, split=[1, 2, 1]>(x) y = Concat<axis=2>(c, b)",
        "y = Dropout(x)",
    ],
    9: [
        "y = Clip<min=-0.5, max=0.3>(x)",
        "y = Clip<max=0.3>(x)",
        "y = Slice<starts=[1, 0], ends=[3, 1], axes=[2, 0]>(x)",
        "y = Slice<starts=[0, 1], ends=[1, 3]>(x)",
        "y = Pad<pads=[0, 1, 0, 1, 0, 2], value=0.5>(x)",
        "y = Dropout<ratio=0.3>(x)",
        "y = Flatten<axis=2>(x)",
    ],
}


def model_of(body, opset):
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> graph (float[2,3,4] x) => (float y) '
    proto = onnx.parser.parse_model(text + "{ " + body + " }")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    return onnx.shape_inference.infer_shapes(proto)


@pytest.mark.parametrize(
    ("opset", "body"), [(o, b) for o, bodies in BODIES.items() for b in bodies]
)
def test_outputs_stay_the_same(opset, body):
    proto = model_of(body, opset)
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f")}
    before = onnxruntime_of(proto)(feeds)
    model = ir.from_proto(proto)
    names = {node.name for node in model.graph}
    assert raise_opset(model) == OPSET
    assert check_invariants(model) == []
    assert names <= {node.name for node in model.graph}
    after = onnxruntime_of(ir.to_proto(model))(feeds)
    np.testing.assert_allclose(after["y"], before["y"], rtol=1e-6)


def test_newer_opsets_stay():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> graph (float x) => (float y) { y = Neg(x) }'
    )
    assert raise_opset(model) == 21
    assert model.opset_imports[""] == 21


@pytest.mark.parametrize(
    ("opset", "body", "words"),
    [
        (9, "s = Constant<value_floats=[1.0, 1.0, 2.0]>() y = Upsample(x, s)", "Upsample"),
        (6, "y = Add<broadcast=1>(x, x)", "broadcast and train otherwise"),
    ],
)
def test_what_means_something_else_is_refused(opset, body, words):
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> graph (float[2,3,4] x) => (float y) '
    with pytest.raises(CompileError, match=words) as caught:
        raise_opset(ir.from_onnx_text(text + "{ " + body + " }"))
    assert caught.value.diagnostics[0].code == "MCM-D036"
