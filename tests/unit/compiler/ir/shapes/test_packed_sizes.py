"""Packed weights whose scales do not fit are refused."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper, parser

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_model

ENDS = "m (float[1,64] x, int64[3] i) => (float y)"
PRODUCT = "y = com.microsoft.MatMulNBits <K: int = 64, N: int = 128, bits: int = 4,"
PRODUCT += " block_size: int = 32> (x, q, {})"
ROWS = "y = com.microsoft.GatherBlockQuantized <block_size: int = 32> (t, i, {})"
LINEAR = "d = DequantizeLinear <axis = 1, block_size = 32> (p, {}) y = MatMul (x, d)"
WEIGHTS = {
    "q": np.zeros((128, 2, 16), np.uint8),
    "t": np.zeros((128, 32), np.uint8),
    "p": np.zeros((64, 128), np.int8),
    "s": np.ones((128, 2), np.float32),
    "s3": np.ones((128, 3), np.float32),
    "s4": np.ones((64, 4), np.float32),
    "s0": np.float32(1),
    "z0": np.zeros(1, np.int8),
    "z": np.zeros((128, 1), np.uint8),
    "z2": np.zeros((128, 2), np.uint8),
    "z4": np.zeros((64, 4), np.int8),
}


def read(text):
    head = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
    proto = parser.parse_model(f"{head} {ENDS} {{ {text} }}")
    for name, array in WEIGHTS.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return import_model(ir.from_proto(proto), "test")[0]


@pytest.mark.parametrize(
    "text",
    [
        *(PRODUCT.format("s"), PRODUCT.format("s, z"), ROWS.format("s"), LINEAR.format("s4, z4")),
        LINEAR.format("s0, z0").replace("<axis = 1, block_size = 32>", ""),
    ],
)
def test_scales_that_fit_are_read(text):
    assert read(text).graph


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (PRODUCT.format(""), "no scales"),
        (PRODUCT.format("s3"), r"scales are \[128, 3\], and its weights need \[128, 2\]"),
        (PRODUCT.format("s, z2"), r"zero points are \[128, 2\]"),
        (PRODUCT.format("s").replace("K: int = 64", "K: int = 96"), "K=96"),
        (PRODUCT.format("s").replace("N: int = 128", "N: int = 100"), r"blocks are \[128, 2, 16\]"),
        (ROWS.format(""), "no scales"),
        (ROWS.format("s3"), r"scales are \[128, 3\]"),
        (LINEAR.format("s"), r"scales are \[128, 2\], and its weights need \[64, 4\]"),
        (LINEAR.format("s4, z"), "zero points"),
    ],
)
def test_scales_that_do_not_fit_are_refused(text, what):
    with pytest.raises(CompileError, match=f"MCM-I060.*{what}"):
        read(text)
