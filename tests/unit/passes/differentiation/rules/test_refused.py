import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.differentiation.rules.refused import REASONS
from tests.generators.appended_gradients import append_gradients

TEXT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,2] x) => (float loss) {
    y = Det(x)
    z = Det(x)
    loss = Add(y, z)
}"""


def test_one_diagnostic_for_an_operator_with_its_reason():
    proto = onnx.parser.parse_model(TEXT)
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    with pytest.raises(CompileError) as raised:
        append_gradients(model, "loss", ["x"])
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "MCM-D031"
    assert "(2 ops)" in diagnostic.message
    assert REASONS["Det"] in diagnostic.message
