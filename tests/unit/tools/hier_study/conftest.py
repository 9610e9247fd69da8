"""Runs of models of the study in `tools/reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx_ir as ir
import onnxruntime as ort
import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "tools" / "reproduce"))


@pytest.fixture
def run():
    """Runs a model in onnxruntime, unoptimised, and returns its outputs."""

    def _run(model, feeds):
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        content = ir.to_proto(model).SerializeToString()
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    return _run
