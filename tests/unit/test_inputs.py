"""Random inputs that models accept."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.inputs import index_limit, random_inputs


def model():
    return ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (int64[1,64] ids, int64[1,64] mask, float[2] x, bool[8] b, string[3] s,
           float[10,4] table) => (float[2] y)
        <int64[1] axes = {0}>
        {
            wide = Unsqueeze(ids, axes)
            rows = Gather(table, wide)
            y = Identity(x)
        }
    """)


def test_indices_stay_within_their_table():
    built = model()
    inputs = {v.name: v for v in built.graph.inputs}
    assert index_limit(inputs["ids"]) == 10
    assert index_limit(inputs["mask"]) == 2
    feeds = random_inputs(built, 0)
    assert feeds["ids"].max() < 10
    assert len(np.unique(feeds["ids"])) > 3
    assert set(np.unique(feeds["mask"])) == {0, 1}


def test_types_shapes_and_seeds():
    built = model()
    feeds = random_inputs(built, 0)
    assert feeds["x"].dtype == np.float32
    assert feeds["b"].dtype == np.bool_
    assert feeds["s"].shape == (3,)
    again, other = random_inputs(built, 0), random_inputs(built, 1)
    assert all(np.array_equal(feeds[k], again[k]) for k in feeds)
    assert not np.array_equal(feeds["x"], other["x"])
