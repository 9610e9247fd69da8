"""Kernels cut into tiles: compiled, proven, run and checked."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import CompileOptions
from tests.generators.one_chip import model_text

PASSES = (
    "simplify,fuse,annotate_cost,parallelize{OPTIONS},partition,legalize,split,map_chips,lower,"
    "simulate,emit,verify"
)


def quantised() -> ir.Model:
    rng = np.random.default_rng(0)
    weights = {
        "s": np.float32(0.03), "z": np.uint8(128), "so": np.float32(0.5),
        "w": rng.integers(-100, 100, (256, 256, 3, 3), np.int8),
        "t": np.abs(rng.standard_normal(256) * 0.01 + 0.001).astype(np.float32),
    }  # fmt: skip
    text = """m (float[1,256,14,14] x) => (float[1,256,14,14] y) {
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
        k = DequantizeLinear <axis = 0> (w, t) c = Conv <pads = [1,1,1,1]> (d, k)
        q1 = QuantizeLinear (c, so, z) d1 = DequantizeLinear (q1, so, z)
        e = Conv <pads = [1,1,1,1]> (d1, k) q2 = QuantizeLinear (e, so, z)
        y = DequantizeLinear (q2, so, z) }"""
    return ir.from_proto(model_text(text, weights))


def joined() -> ir.Model:
    """A `Concat` of the model reads what is cut, and its result is cut otherwise."""
    rng = np.random.default_rng(1)
    names = {"v": (64, 64, 3, 3), "w": (64, 128, 3, 3)}
    weights = {name: rng.standard_normal(shape, np.float32) / 32 for name, shape in names.items()}
    text = """m (float[1,64,56,56] x) => (float[1,64,14,14] y) {
        a = Conv <pads = [1,1,1,1]> (x, v) b = Relu (a) c = Conv <pads = [1,1,1,1]> (b, v)
        d = Concat <axis = 1> (b, c) e = Conv <pads = [1,1,1,1], strides = [2,2]> (d, w)
        f = Relu (e)
        y = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (f) }"""
    return ir.from_proto(model_text(text, weights))


def packed() -> ir.Model:
    """The same weights for two spellings of a product, with zero points in bytes of their own."""
    rng = np.random.default_rng(2)
    blocks = rng.integers(-8, 8, (2048, 512)).astype(ml_dtypes.int4)
    weights = {
        "q": rng.integers(0, 256, (2048, 16, 16), np.uint8),
        "z": rng.integers(0, 256, (2048, 8), np.uint8),
        "s": rng.uniform(0.001, 0.01, (2048, 16)).astype(np.float32),
        "p": blocks,
    }
    text = """m (float[1,512] x) => (float[1,2048] y) {
        a = com.microsoft.MatMulNBits <K: int = 512, N: int = 2048, bits: int = 4,
            block_size: int = 32> (x, q, s, z)
        d = DequantizeLinear <axis = 1, block_size = 32> (p, s) t = Transpose (d)
        b = MatMul (x, t) y = Add (a, b) }"""
    return ir.from_proto(model_text(text, weights))


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (quantised, "tile_rows=4"),
        (joined, "tile_rows=9"),
        (joined, "grain=0.3"),
        (packed, "grain=0.3"),
    ],
)
def test_divided_models_are_proven_and_checked(model, options: str, tmp_path: Path):
    folder = tmp_path / "out"
    asked = CompileOptions(passes=PASSES.replace("OPTIONS", options), level=0, replicas=1)
    compile_model(model(), "mcm4", asked, output=folder)
    found = check_folder(folder)
    assert found.holds
    assert found.complete
    assert found.diagnostics == ()
