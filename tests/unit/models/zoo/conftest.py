"""Small builders of every zoo model, and runs of what they build."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mcm_compiler.contracts.zoo import ModelBuilder
from tests.generators.small_zoo import SMALL

Feeds = dict[str, np.ndarray]
Run = Callable[[ir.Model, Feeds], list[np.ndarray]]


@pytest.fixture(scope="module", params=SMALL)
def make(request: pytest.FixtureRequest) -> Callable[..., ModelBuilder]:
    """Makes one of the small builders; keyword arguments change its options."""
    builder, options = SMALL[request.param]
    return lambda **changes: builder(**(options | changes))


@pytest.fixture(scope="module")
def built(make: Callable[..., ModelBuilder]) -> ir.Model:
    """The model of `make` as it is."""
    return make().build()


@pytest.fixture
def run() -> Run:
    """Runs a model in onnxruntime, unoptimised, and returns its outputs."""

    def _run(model: ir.Model, feeds: Feeds) -> list[np.ndarray]:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        content = ir.to_proto(model).SerializeToString()
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    return _run


@pytest.fixture
def feeds() -> Callable[[ir.Model, int], Feeds]:
    """Random inputs for a model of fixed shapes, unpadded."""

    def _feeds(model: ir.Model, seed: int) -> Feeds:
        rng = np.random.default_rng(seed)
        made: Feeds = {}
        for value in model.graph.inputs:
            assert value.name is not None
            assert value.shape is not None
            extents = value.shape.numpy()
            if value.dtype == ir.DataType.FLOAT:
                made[value.name] = rng.standard_normal(extents, dtype=np.float32)
            elif "mask" in value.name:
                made[value.name] = np.ones(extents, dtype=np.int64)
            else:
                made[value.name] = rng.integers(2 if "type" in value.name else 50, size=extents)
        return made

    return _feeds
