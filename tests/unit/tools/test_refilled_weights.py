"""Light models get weights that make their outputs depend on their inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import run_model
from tests.generators.refilled_weights import refill_weights

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_outputs_depend_on_the_input(name):
    model = ir.load(LIGHT / f"{name}.onnx")
    count = sum(node.op_type == "ConstantOfShape" for node in model.graph)
    assert refill_weights(model) == count
    assert not any(node.op_type == "ConstantOfShape" for node in model.graph)
    proto = ir.to_proto(model)
    one, two = (next(iter(run_model(proto, random_inputs(model, s)).values())) for s in (0, 1))
    assert np.isfinite(one).all()
    assert np.abs(one - two).max() > 1e-4


def test_seed_decides_the_weights():
    protos = []
    for seed in (0, 0, 1):
        model = ir.load(LIGHT / "light_squeezenet.onnx")
        refill_weights(model, seed)
        protos.append(ir.to_proto(model).SerializeToString())
    assert protos[0] == protos[1] != protos[2]
