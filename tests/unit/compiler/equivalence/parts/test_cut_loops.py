"""Ops that were divided more than once, each time by another rule, and what is not quite that."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mcm_compiler.execution.runner import open_session
from tests.generators.one_chip import Arrays, model_text, prove_one_chip, proven


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


W, B = drawn(12, 8), drawn(8, seed=1)
GEMM = ("(float[4,12] x) => (float[4,8] y)", "r = Relu (x) y = Gemm (r, w, b)", {"w": W, "b": B})
HALVES = "k = Constant <value_ints: ints = [6, 6]> () r = Relu (x) p, q = Split <axis = 1> (r, k) "


def blocks(rows: int, columns: int, seed_bias: int = 0) -> Arrays:
    """A weight as a grid of parts, a bias for those of one row of the grid."""
    height, width = 12 // rows, 8 // columns
    parts = {
        f"w{i}{j}": W[i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(rows)
        for j in range(columns)
    }
    return parts | {f"b{seed_bias}{j}": B[j * width : (j + 1) * width] for j in range(columns)}


COLUMNS_OF_SUMS = (
    f"{HALVES} a0 = Gemm (p, w00, b00) a1 = Gemm (p, w01, b01) a = Concat <axis = 1> (a0, a1) "
    "c0 = Gemm (q, w10) c1 = Gemm (q, w11) c = Concat <axis = 1> (c0, c1) y = Add (a, c)"
)
SUMS_OF_COLUMNS = (
    f"{HALVES} a0 = Gemm (p, w00, b00) c0 = Gemm (q, w10) y0 = Add (a0, c0) "
    "a1 = Gemm (p, w01, b01) c1 = Gemm (q, w11) y1 = Add (a1, c1) y = Concat <axis = 1> (y0, y1)"
)
SUMS_OF_SUMS = (
    "r = Relu (x) k = Constant <value_ints: ints = [6, 6]> () p, q = Split <axis = 1> (r, k) "
    "l = Constant <value_ints: ints = [3, 3]> () s, t = Split <axis = 1> (p, l) "
    "u, v = Split <axis = 1> (q, l) a0 = Gemm (s, w00, b00) a1 = Gemm (t, w10) a = Add (a0, a1) "
    "c0 = Gemm (u, w20) c1 = Gemm (v, w30) c = Add (c0, c1) y = Add (a, c)"
)
ROWS_OF_COLUMNS_OF_SUMS = (
    f"{HALVES} two = Constant <value_ints: ints = [2, 2]> () "
    "p0, p1 = Split <axis = 0> (p, two) q0, q1 = Split <axis = 0> (q, two) "
    "a0 = Gemm (p0, w00, b00) c0 = Gemm (q0, w10) d0 = Add (a0, c0) "
    "a1 = Gemm (p0, w01, b01) c1 = Gemm (q0, w11) d1 = Add (a1, c1) "
    "e = Concat <axis = 1> (d0, d1) "
    "f0 = Gemm (p1, w00, b00) g0 = Gemm (q1, w10) h0 = Add (f0, g0) "
    "f1 = Gemm (p1, w01, b01) g1 = Gemm (q1, w11) h1 = Add (f1, g1) "
    "i = Concat <axis = 1> (h0, h1) y = Concat <axis = 0> (e, i)"
)

Q = np.random.default_rng(3).integers(-100, 100, (12, 8), np.int8)
PER_COLUMN, PER_BLOCK = np.abs(drawn(8, seed=4)), np.abs(drawn(4, 8, seed=5))
ONE = np.float32(0.1)
CHANGE = np.eye(6, 4, 2, np.float32)
QDQ_ENDS = "(float[4,12] x) => (float[4,8] y)"
ZERO = {"s": ONE, "z": np.int8(1)}
QDQ = (
    QDQ_ENDS,
    "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) "
    "e = DequantizeLinear <axis = 1> (w, t) y = MatMul (d, e)",
    {"w": Q, "t": PER_COLUMN, **ZERO},
)
QDQ_CHIP = (
    "k = Constant <value_ints: ints = [6, 6]> () q = QuantizeLinear (x, s, z) "
    "q0, q1 = Split <axis = 1> (q, k) "
    "d0 = DequantizeLinear (q0, s, z) d1 = DequantizeLinear (q1, s, z) "
    "e00 = DequantizeLinear <axis = 1> (w00, t0) e01 = DequantizeLinear <axis = 1> (w01, t1) "
    "e10 = DequantizeLinear <axis = 1> (w10, t0) e11 = DequantizeLinear <axis = 1> (w11, t1) "
    "a0 = MatMul (d0, e00) c0 = MatMul (d1, e10) y0 = Add (a0, c0) "
    "a1 = MatMul (d0, e01) c1 = MatMul (d1, e11) y1 = Add (a1, c1) y = Concat <axis = 1> (y0, y1)"
)
QDQ_PARTS = {
    "w00": Q[:6, :4], "w01": Q[:6, 4:], "w10": Q[6:, :4], "w11": Q[6:, 4:],
    "t0": PER_COLUMN[:4], "t1": PER_COLUMN[4:], **ZERO,
}  # fmt: skip
BLOCKED = (
    QDQ_ENDS,
    "e = DequantizeLinear <axis = 0, block_size = 3> (w, t) y = MatMul (x, e)",
    {"w": Q, "t": PER_BLOCK},
)
BLOCKED_CHIP = (
    "k = Constant <value_ints: ints = [6, 6]> () x0, x1 = Split <axis = 1> (x, k) "
    "e0 = DequantizeLinear <axis = 0, block_size = 3> (w0, t0) a = MatMul (x0, e0) "
    "e1 = DequantizeLinear <axis = 0, block_size = 3> (w1, t1) b = MatMul (x1, e1) y = Add (a, b)"
)
BLOCKED_PARTS = {"w0": Q[:6], "w1": Q[6:], "t0": PER_BLOCK[:2], "t1": PER_BLOCK[2:]}

HEADS = (
    "(float[2,12] x) => (float[2,2,4] y)",
    "h = MatMul (x, w) g = Add (h, b) n = Constant <value_ints: ints = [2, 2, 4]> () "
    "y = Reshape (g, n)",
    {"w": W, "b": B},
)
HEADS_CHIP = (
    "k = Constant <value_ints: ints = [6, 6]> () x0, x1 = Split <axis = 1> (x, k) "
    "n = Constant <value_ints: ints = [2, 1, 4]> () "
    "a0 = MatMul (x0, w00) c0 = MatMul (x1, w10) h0 = Add (a0, c0) g0 = Add (h0, b00) "
    "y0 = Reshape (g0, n) a1 = MatMul (x0, w01) c1 = MatMul (x1, w11) h1 = Add (a1, c1) "
    "g1 = Add (h1, b01) y1 = Reshape (g1, n) y = Concat <axis = 1> (y0, y1)"
)

K = np.random.default_rng(6).integers(0, 200, (6, 2, 3, 3), np.uint8)
PER_CHANNEL = {"t": np.abs(drawn(6, seed=7)), "z": np.arange(6, dtype=np.uint8) + 90}
ROWS = (
    "l0 = Constant <value_ints: ints = [0]> () h0 = Constant <value_ints: ints = [4]> () "
    "l1 = Constant <value_ints: ints = [2]> () h1 = Constant <value_ints: ints = [6]> () "
    "a = Constant <value_ints: ints = [2]> () "
)
SCALAR = {"s": ONE, "zx": np.uint8(3), "sy": np.float32(9.5), "zy": np.uint8(5)}
Q_CONV = (
    "(uint8[1,2,6,6] x) => (uint8[1,6,6,6] y)",
    "m = MaxPool <kernel_shape = [1, 1]> (x) "
    "y = QLinearConv <pads = [1, 1, 1, 1]> (m, s, zx, w, t, z, sy, zy, b)",
    {"w": K, "b": np.arange(6, dtype=np.int32), **PER_CHANNEL, **SCALAR},
)
Q_CONV_CHIP = (
    ROWS + "m = MaxPool <kernel_shape = [1, 1]> (x) "
    "m0 = Slice (m, l0, h0, a) m1 = Slice (m, l1, h1, a) "
    "c00 = QLinearConv <pads = [1, 1, 0, 1]> (m0, s, zx, w0, t0, z0, sy, zy, b0) "
    "c01 = QLinearConv <pads = [1, 1, 0, 1]> (m0, s, zx, w1, t1, z1, sy, zy, b1) "
    "c10 = QLinearConv <pads = [0, 1, 1, 1]> (m1, s, zx, w0, t0, z0, sy, zy, b0) "
    "c11 = QLinearConv <pads = [0, 1, 1, 1]> (m1, s, zx, w1, t1, z1, sy, zy, b1) "
    "c0 = Concat <axis = 1> (c00, c01) c1 = Concat <axis = 1> (c10, c11) "
    "y = Concat <axis = 2> (c0, c1)"
)
HALVES_OF = {name: whole for name, whole in Q_CONV[2].items() if name in "wbtz"}
Q_CONV_PARTS = SCALAR | {
    f"{name}{i}": whole[3 * i : 3 * i + 3] for name, whole in HALVES_OF.items() for i in (0, 1)
}
INTEGERS = (
    "(uint8[4,12] x) => (int32[4,8] y)",
    "m = Max (x, floor) y = MatMulInteger (m, w, zx, z)",
    {"w": Q, "zx": np.uint8(3), "z": np.arange(8, dtype=np.int8), "floor": np.uint8(1)},
)
INTEGERS_CHIP = (
    "m = Max (x, floor) k = Constant <value_ints: ints = [6, 6]> () p, q = Split <axis = 1> (m, k) "
    "a0 = MatMulInteger (p, w00, zx, z0) c0 = MatMulInteger (q, w10, zx, z0) y0 = Add (a0, c0) "
    "a1 = MatMulInteger (p, w01, zx, z1) c1 = MatMulInteger (q, w11, zx, z1) y1 = Add (a1, c1) "
    "y = Concat <axis = 1> (y0, y1)"
)
INTEGERS_PARTS = {
    **{f"w{i}{j}": Q[6 * i : 6 * i + 6, 4 * j : 4 * j + 4] for i in (0, 1) for j in (0, 1)},
    "zx": np.uint8(3), "floor": np.uint8(1),
    "z0": np.arange(4, dtype=np.int8), "z1": np.arange(4, 8, dtype=np.int8),
}  # fmt: skip
GROWN = (
    "(float[1,4,3,3] x) => (float[1,4,6,6] y)",
    'r = Relu (x) y = Resize <mode = "nearest"> (r, , scales)',
    {"scales": np.array([1, 1, 2, 2], np.float32)},
)
GROWN_CHIP = (
    "r = Relu (x) k = Constant <value_ints: ints = [3, 1]> () p, q = Split <axis = 1> (r, k) "
    'a = Resize <mode = "nearest"> (p, , scales) b = Resize <mode = "nearest"> (q, , scales) '
    "y = Concat <axis = 1> (a, b)"
)

CASES = {
    "quantised-tiles-of-channels": (Q_CONV, Q_CONV_CHIP, Q_CONV_PARTS),
    "integers": (INTEGERS, INTEGERS_CHIP, INTEGERS_PARTS),
    "channels-of-a-larger-image": (GROWN, GROWN_CHIP, GROWN[2]),
    "columns-of-sums": (GEMM, COLUMNS_OF_SUMS, blocks(2, 2)),
    "sums-of-columns": (GEMM, SUMS_OF_COLUMNS, blocks(2, 2)),
    "sums-of-sums": (GEMM, SUMS_OF_SUMS, blocks(4, 1)),
    "rows-of-columns-of-sums": (GEMM, ROWS_OF_COLUMNS_OF_SUMS, blocks(2, 2)),
    "quantised": (QDQ, QDQ_CHIP, QDQ_PARTS),
    "quantised-in-blocks": (BLOCKED, BLOCKED_CHIP, BLOCKED_PARTS),
    "heads": (HEADS, HEADS_CHIP, blocks(2, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_divided_more_than_once_is_proven(case):
    model, chip, parts = CASES[case]
    assert proven(*model, chip, parts)


def exchanged(parts: Arrays, one: str, other: str) -> Arrays:
    return {**parts, one: parts[other], other: parts[one]}


FALSE = {
    "scales-of-channels-exchanged": (Q_CONV, Q_CONV_CHIP, exchanged(Q_CONV_PARTS, "t0", "t1")),
    "zero-points-of-channels": (Q_CONV, Q_CONV_CHIP, exchanged(Q_CONV_PARTS, "z0", "z1")),
    "another-padding": (Q_CONV, Q_CONV_CHIP.replace("[1, 1, 0, 1]", "[1, 1, 1, 1]"), Q_CONV_PARTS),
    "another-halo": (
        Q_CONV, Q_CONV_CHIP.replace("ints = [2]> () h1", "ints = [1]> () h1"), Q_CONV_PARTS
    ),
    "zero-points-of-columns": (INTEGERS, INTEGERS_CHIP, exchanged(INTEGERS_PARTS, "z0", "z1")),
    "another-scale-of-rows": (
        GROWN, GROWN_CHIP, {"scales": np.array([1, 1, 2, 3], np.float32)}
    ),
    "parts-exchanged": (GEMM, COLUMNS_OF_SUMS, exchanged(blocks(2, 2), "w00", "w01")),
    "rows-exchanged": (GEMM, SUMS_OF_COLUMNS, exchanged(blocks(2, 2), "w01", "w11")),
    "biases-exchanged": (GEMM, SUMS_OF_COLUMNS, exchanged(blocks(2, 2), "b00", "b01")),
    "one-number": (GEMM, COLUMNS_OF_SUMS, blocks(2, 2) | {"w11": W[6:, 4:] + CHANGE}),
    "bias-twice": (GEMM, COLUMNS_OF_SUMS.replace("(q, w11)", "(q, w11, b01)"), blocks(2, 2)),
    "no-bias": (GEMM, SUMS_OF_SUMS.replace(", b00", ""), blocks(4, 1)),
    "part-twice": (GEMM, SUMS_OF_SUMS.replace("Add (c0, c1)", "Add (c0, c0)"), blocks(4, 1)),
    "columns-out-of-order": (GEMM, COLUMNS_OF_SUMS.replace("(c0, c1)", "(c1, c0)"), blocks(2, 2)),
    "another-sum": (
        GEMM, SUMS_OF_COLUMNS.replace("Add (a0, c0)", "Add (a0, c1)"), blocks(2, 2)
    ),
    "another-scale": (QDQ, QDQ_CHIP, exchanged(QDQ_PARTS, "t0", "t1")),
    "another-zero-point": (QDQ, QDQ_CHIP, QDQ_PARTS | {"z": np.int8(2)}),
    "blocks-exchanged": (BLOCKED, BLOCKED_CHIP, exchanged(BLOCKED_PARTS, "t0", "t1")),
    "blocks-of-another-size": (
        BLOCKED, BLOCKED_CHIP.replace("block_size = 3", "block_size = 2"),
        BLOCKED_PARTS | {"t0": drawn(3, 8), "t1": drawn(3, 8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FALSE)
def test_what_is_not_quite_that_is_not(case):
    model, chip, parts = FALSE[case]
    assert not proven(*model, chip, parts)


def reordered(shape: tuple[int, ...], axis: int) -> bool:
    """Of a product with a matrix whose result of this shape is cut into halves."""
    *rows, columns = (n // 2 if k == axis else n for k, n in enumerate(shape))
    text = ",".join(map(str, shape[:-1]))
    source = f"(float[{text},4] x) => (float[{text},{shape[-1]}] y)"
    w = drawn(4, shape[-1])
    halves = {"a": w[:, :columns], "b": w[:, -columns:]}
    left, right = ("r", "r") if axis == len(rows) else ("p", "q")
    half = shape[axis] // 2
    split = "" if left == "r" else f"p, q = Split <axis = {axis}> (r, k)"
    chip = (
        f"r = Relu (x) k = Constant <value_ints: ints = [{half}, {half}]> () {split} "
        f"c = MatMul ({left}, a) d = MatMul ({right}, b) y = Concat <axis = {axis}> (c, d)"
    )
    found = prove_one_chip(
        model_text(f"m {source} {{ r = Relu (x) y = MatMul (r, w) }}", {"w": w}),
        model_text(f"c {source} {{ {chip} }}", halves),
    )
    assert found.whole
    return found.reordered


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((128, 8), 0, False),
        ((96, 8), 0, True),
        ((8, 384), 1, False),
        ((8, 256), 1, True),
        ((128, 128), 0, True),
        ((256, 128), 0, False),
        ((128, 256), 0, False),
        ((2, 64, 128), 0, True),
        ((2, 128, 128), 1, False),
    ],
)
def test_products_of_few_rows_or_columns_may_add_in_another_order(shape, axis, expected):
    assert reordered(shape, axis) is expected
    if not expected:  # and so they do not in onnxruntime
        left, right = drawn(*shape[:-1], 1_024), drawn(1_024, shape[-1])
        half = slice(0, shape[axis] // 2)
        whole = product(left, right)
        if axis == len(shape) - 1:
            assert np.array_equal(product(left, right[:, half]), whole[..., half])
        else:
            at = (slice(None),) * axis + (half,)
            assert np.array_equal(product(left[at], right), whole[at])


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    node = onnx.helper.make_node("MatMul", ["a", "b"], ["c"])
    ends = {"a": left.shape, "b": right.shape, "c": None}
    a, b, c = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in ends.items())
    opsets = [onnx.helper.make_opsetid("", 17)]
    graph = onnx.helper.make_graph([node], "m", [a, b], [c])
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return open_session(model).run(None, {"a": left, "b": right})[0]


def test_tiles_of_convolutions_may_add_in_another_order_and_their_channels_may_not():
    ends = "(float[1,2,6,6] x) => (float[1,4,6,4] y)"
    w = drawn(4, 2, 1, 3)
    whole = model_text(f"m {ends} {{ r = Relu (x) y = Conv (r, w) }}", {"w": w})
    head = "r = Relu (x) k = Constant <value_ints: ints = [3, 3]> () "
    rows = f"{head} p, q = Split <axis = 2> (r, k) c = Conv (p, w) d = Conv (q, w) "
    tiles = model_text(f"c {ends} {{ {rows} y = Concat <axis = 2> (c, d) }}", {"w": w})
    text = "r = Relu (x) c = Conv (r, a) d = Conv (r, b) y = Concat <axis = 1> (c, d)"
    channels = model_text(f"c {ends} {{ {text} }}", {"a": w[:2], "b": w[2:]})
    found = [prove_one_chip(whole, chip) for chip in (tiles, channels)]
    assert [(one.whole, one.reordered) for one in found] == [(True, True), (True, False)]
