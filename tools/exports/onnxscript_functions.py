"""onnxscript, for what the other exporters no longer write.

Model-local functions that call each other, weights as Constant nodes, and a loop that breaks.
"""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
# pyright: reportArgumentType=false, reportOptionalOperand=false, reportReturnType=false
from __future__ import annotations

from pathlib import Path

import numpy as np
from exports.export import Export
from onnx import numpy_helper
from onnxscript import FLOAT, INT64, opset19, opset21, script
from onnxscript.values import Opset

EXPORTER = "onnxscript"
PACKAGES = ("onnxscript", "onnx")

_LAYERS = Opset("example.layers", 1)
_RNG = np.random.default_rng(51)
_UP = _RNG.standard_normal((8, 16)).astype(np.float32)
_DOWN = _RNG.standard_normal((16, 8)).astype(np.float32)
_STEP = (_RNG.standard_normal((6, 6)) / 3).astype(np.float32)


@script(_LAYERS, default_opset=opset21)
def gated(x, gate, value):  # noqa: ANN001, ANN201 - onnxscript's own types
    """A gated product, as a function of its own."""
    return opset21.Mul(opset21.Sigmoid(opset21.MatMul(x, gate)), opset21.MatMul(x, value))


@script(_LAYERS, default_opset=opset21)
def gated_block(x, up, down):  # noqa: ANN001, ANN201
    """Two products around a gate, with a function inside a function."""
    hidden = gated(x, up, up)
    return opset21.Add(x, opset21.MatMul(hidden, down))


@script(default_opset=opset21)
def functions_model(x: FLOAT[2, 8]) -> FLOAT[2, 8]:
    """Two calls of the same block."""
    up = opset21.Constant(value=numpy_helper.from_array(_UP))
    down = opset21.Constant(value=numpy_helper.from_array(_DOWN))
    return gated_block(opset21.Tanh(gated_block(x, up, down)), up, down)


@script(default_opset=opset19)
def loop_model(x: FLOAT[4, 6], steps: INT64) -> FLOAT[4, 6]:
    """A loop that leaves early, with a weight from outside."""
    weight = opset19.Constant(value=numpy_helper.from_array(_STEP))
    state = opset19.Tanh(x)
    for _i in range(steps):
        state = opset19.Tanh(opset19.MatMul(state, weight) + x)
        done = opset19.ReduceMax(opset19.Abs(state), keepdims=0) > 0.999
        if done:
            break
    return opset19.Mul(state, opset19.Constant(value_float=0.5))


def _functions(path: Path) -> None:
    path.write_bytes(functions_model.to_model_proto().SerializeToString(deterministic=True))


def _loop(path: Path) -> None:
    path.write_bytes(loop_model.to_model_proto().SerializeToString(deterministic=True))


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("onnxscript_functions", "functions that call functions, weights as Constant nodes",
               _functions, target="mcm4"),
        Export("onnxscript_loop_break", "a loop that breaks on the data", _loop, target="mcm4"),
    ]  # fmt: skip
