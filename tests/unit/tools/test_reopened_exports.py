"""Exports with symbolic sizes put back get sizes that they run with, however those are named."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
import pytest

from mcm_compiler.drafting.model_draft import draft_model
from mcm_compiler.drafting.trials import NOT_SEEN

ROOT = Path(__file__).parents[3]


def tool():
    spec = importlib.util.spec_from_file_location("reopened", ROOT / "tools/reopened_exports.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", ["torch_lstm_opset9", "sklearn_svc", "dynamo_encoder_opset20"])
def test_an_export_gets_sizes_that_run(tmp_path, name, every):
    reopened = tool().reopened(onnx.load(tool().EXPORTS / f"{name}.onnx"), every)
    shapes = [value.type.tensor_type.shape.dim for value in reopened.graph.input]
    assert all(dim.dim_param or not every for dims in shapes for dim in dims)
    onnx.save(reopened, tmp_path / "net.onnx")
    draft = draft_model(tmp_path, "net.onnx")
    assert not draft.faults
    assert not draft.unranked
    found = [*draft.sizes.dims.values(), *(found for _, found in draft.sizes.shapes.values())]
    assert found
    assert not [one.reason for one in found if NOT_SEEN in one.reason]
