"""What the proof makes of ops that a plan divided, and of those that are not quite that."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper, parser

from mcm_compiler.checking.structure_step import left_to_runs, structure_faults
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.equivalence.parts.value_views import (
    View,
    chosen,
    joined,
    part_of,
    places,
    whole_piece,
)
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.ir.shapes.inference import infer_shapes

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'

Weights = dict[str, np.ndarray]


def model_of(text: str, weights: Weights) -> ir.Model:
    proto = parser.parse_model(f"{HEAD} {text}")
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(array, order="C"), name))
    for number, node in enumerate(proto.graph.node):
        node.name = f"op_{number}"
    return ir.from_proto(proto)


def prove(ends: str, source: str, weights: Weights, chip: str, parts: Weights):
    """One chip that a plan made of a model."""
    whole = model_of(f"m {ends} {{ {source} }}", weights)
    one = model_of(f"c {ends} {{ {chip} }}", parts)
    names = [[v.name or "" for v in values] for values in (one.graph.inputs, one.graph.outputs)]
    wires = [Wire(n, HOST, (0,)) for n in names[0]] + [Wire(n, 0, (HOST,)) for n in names[1]]
    infer_shapes(whole)
    chips = [ChipModel(0, one, tuple(names[0]), tuple(names[1]))]
    return prove_chips(whole, chips, wires, placeholders=False, unfollowed_passes=("apply_plan",))


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


GROUPED = "com.microsoft.GroupQueryAttention"
IN_A_ROW = (
    "(float[1,1,32] x, float[1,2,3,4] p, float[1,2,3,4] r)"
    " => (float[1,1,16] y, float[1,2,4,4] k, float[1,2,4,4] v)"
)
IN_A_ROW_CHIP = (
    "q0, q1, k0, k1, v0, v1 = Split <axis = 2> (x, sizes)"
    " p0, p1 = Split <axis = 1, num_outputs = 2> (p) r0, r1 = Split <axis = 1, num_outputs = 2> (r)"
    f" y0, a0, b0 = {GROUPED} <num_heads = 2, kv_num_heads = 1> (q0, k0, v0, p0, r0, l, t)"
    f" y1, a1, b1 = {GROUPED} <num_heads = 2, kv_num_heads = 1> (q1, k1, v1, p1, r1, l, t)"
    " y = Concat <axis = 2> (y0, y1) k = Concat <axis = 1> (a0, a1)"
    " v = Concat <axis = 1> (b0, b1)"
)
LENGTHS = {"l": np.array([[3]], np.int32), "t": np.array(4, np.int32)}

W, B, V = array(6, 8), array(8, seed=1), array(8, 4, seed=2)
PRODUCTS = "(float[2,6] x) => (float[2,4] y)"
PRODUCTS_SOURCE = "h = Gemm (x, w, b) r = Relu (h) y = Gemm (r, v, c)"
PRODUCTS_WEIGHTS = {"w": W, "b": B, "v": V, "c": B[:4]}
PRODUCTS_CHIP = (
    "h0 = Gemm (x, w0, b0) r0 = Relu (h0) y0 = Gemm (r0, v0, c) "
    "h1 = Gemm (x, w1, b1) r1 = Relu (h1) y1 = Gemm (r1, v1) y = Add (y0, y1)"
)
PRODUCTS_PARTS = {
    "w0": W[:, :3], "w1": W[:, 3:], "b0": B[:3], "b1": B[3:], "v0": V[:3], "v1": V[3:], "c": B[:4]
}  # fmt: skip

CONV_W = array(8, 3, 3, 3)
GROUP_W = array(8, 1, 3, 3, seed=3)
SCALES = {f"s{k}": array(8, seed=k) for k in range(4)}
CONV = "(float[1,3,6,6] x) => (float[1,8] y)"
CONV_SOURCE = (
    "a = Conv (x, w) b = Conv <group = 8> (a, g) n = BatchNormalization (b, s0, s1, s2, s3)"
    " p = GlobalAveragePool (n) y = Flatten (p)"
)
CONV_CHIP = "".join(
    f"a{i} = Conv (x, w{i}) b{i} = Conv <group = {n}> (a{i}, g{i}) "
    f"n{i} = BatchNormalization (b{i}, s0{i}, s1{i}, s2{i}, s3{i}) "
    f"p{i} = GlobalAveragePool (n{i}) y{i} = Flatten (p{i}) "
    for i, n in ((0, 5), (1, 3))
)
CONV_PARTS = {f"{name}{i}": whole[cut] for name, whole in
              {"w": CONV_W, "g": GROUP_W, **SCALES}.items()
              for i, cut in enumerate((slice(0, 5), slice(5, 8)))}  # fmt: skip

QKV = array(8, 24, seed=4)
HEADS = "(float[2,3,8] x) => (float[2,4,3,3] y)"
HEADS_SOURCE = (
    "a = MatMul (x, w) q, k, v = Split <axis = -1> (a, t) q4 = Reshape (q, s) k4 = Reshape (k, s)"
    " qt = Transpose <perm = [0, 2, 1, 3]> (q4) kt = Transpose <perm = [0, 2, 3, 1]> (k4)"
    " m = MatMul (qt, kt) y = Softmax (m)"
)
HEADS_WEIGHTS = {"w": QKV, "t": np.array([8, 8, 8]), "s": np.array([2, 3, 4, 2])}
HEADS_CHIP = "".join(
    f"a{i} = MatMul (x, w{i}) q{i}, k{i}, v{i} = Split <axis = -1> (a{i}, t) "
    f"q4{i} = Reshape (q{i}, s) k4{i} = Reshape (k{i}, s) "
    f"qt{i} = Transpose <perm = [0, 2, 1, 3]> (q4{i}) "
    f"kt{i} = Transpose <perm = [0, 2, 3, 1]> (k4{i}) "
    f"m{i} = MatMul (qt{i}, kt{i}) y{i} = Softmax (m{i}) "
    for i in range(2)
)
HEADS_PARTS = {
    "w0": QKV.reshape(8, 3, 8)[:, :, :4].reshape(8, 12),
    "w1": QKV.reshape(8, 3, 8)[:, :, 4:].reshape(8, 12),
    "t": np.array([4, 4, 4]),
    "s": np.array([2, 3, 2, 2]),
}

TABLE = array(7, 4, seed=5)
ROWS = "(int64[3] i) => (float[3,4] y)"


def rows_of(index: int) -> str:
    """As in Megatron-LM: rows of others give zeros."""
    return (
        f"l{index} = Less (i, zero) f{index} = Add (i, rows) n{index} = Where (l{index}, f{index},"
        f" i) o{index} = Sub (n{index}, start{index}) h{index} = Less (o{index}, count{index})"
        f" w{index} = Less (o{index}, zero) t{index} = Not (w{index})"
        f" m{index} = And (h{index}, t{index}) e{index} = Where (m{index}, o{index}, zero)"
        f" g{index} = Gather (table{index}, e{index}) r{index} = Reshape (m{index}, spread)"
        f" y{index} = Where (r{index}, g{index}, nothing) "
    )


ROWS_CHIP = rows_of(0) + rows_of(1) + "y = Add (y0, y1)"
ROWS_PARTS = {
    "table0": TABLE[:3], "table1": TABLE[3:], "zero": np.array(0), "rows": np.array(7),
    "start0": np.array(0), "start1": np.array(3), "count0": np.array(3), "count1": np.array(4),
    "spread": np.array([3, 1]), "nothing": np.array(0, np.float32),
}  # fmt: skip


def rows_of_tile(index: int, tile: str) -> str:
    """Of some of the indices."""
    text = rows_of(index).replace("spread", f"spread{tile}")
    constants = {"zero", "rows", "nothing", f"spread{tile}"}
    kept = constants | {f"{name}{index}" for name in ("table", "start", "count")}

    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        return name if name in kept or name[0].isupper() else tile if name == "i" else name + tile

    return re.sub(r"[A-Za-z]\w*", renamed, text)


TILES_CHIP = (
    "k = Constant <value_ints: ints = [2, 1]> () p, q = Split (i, k) "
    + "".join(rows_of_tile(index, tile) for tile in "pq" for index in (0, 1))
    + "a = Add (y0p, y1p) b = Add (y0q, y1q) y = Concat <axis = 0> (a, b)"
)
TILES_PARTS = ROWS_PARTS | {"spreadp": np.array([2, 1]), "spreadq": np.array([1, 1])}

STACK = "(float[1,3,6,6] x) => (float[1,4,4,4] y)"
STACK_SOURCE = "a = Conv (x, w) b = Conv (x, u) c = Concat <axis = 1> (a, b) y = Conv (c, z)"
STACK_CHIP = (
    "a0 = Conv (x, w0) b0 = Conv (x, u0) c0 = Concat <axis = 1> (a0, b0) y0 = Conv (c0, z0)"
    " a1 = Conv (x, w1) b1 = Conv (x, u1) c1 = Concat <axis = 1> (a1, b1) y1 = Conv (c1, z1)"
    " y = Add (y0, y1)"
)
OTHER_W = array(6, 3, 3, 3, seed=7)
MIX = array(4, 14, 1, 1, seed=6)
STACK_PARTS = {
    "w0": CONV_W[:4], "w1": CONV_W[4:], "u0": OTHER_W[:3], "u1": OTHER_W[3:],
    "z0": MIX[:, [0, 1, 2, 3, 8, 9, 10]], "z1": MIX[:, [4, 5, 6, 7, 11, 12, 13]],
}  # fmt: skip

GROW = "(float[1,6,4,4] x) => (float[1,2,6,6] y)"
GROW_SOURCE = "a = ConvTranspose (x, w) y = ConvTranspose <pads = [1, 1, 1, 1]> (a, v, b)"
GROW_CHIP = (
    "a0 = ConvTranspose (x, w0) y0 = ConvTranspose <pads = [1, 1, 1, 1]> (a0, v0, b)"
    " a1 = ConvTranspose (x, w1) y1 = ConvTranspose <pads = [1, 1, 1, 1]> (a1, v1) y = Add (y0, y1)"
)
GROW_W, GROW_V = array(6, 8, 3, 3), array(8, 2, 3, 3, seed=8)
GROW_PARTS = {
    "w0": GROW_W[:, :3], "w1": GROW_W[:, 3:], "v0": GROW_V[:3], "v1": GROW_V[3:], "b": B[:2]
}  # fmt: skip

PACKED = "(float[2,64] x) => (float[2,8] y)"
PACKED_OP = (
    "com.microsoft.MatMulNBits <K: int = 64, N: int = {}, bits: int = 4, block_size: int = 32>"
)
PACKED_SOURCE = (
    f"a = {PACKED_OP.format(8)} (x, q, s, z, , b) d = DequantizeLinear <axis = 1, block_size = 32>"
    " (p, t) e = Transpose (d) m = MatMul (x, e) y = Add (a, m)"
)
PACKED_CHIP = "".join(
    f"a{i} = {PACKED_OP.format(n)} (x, q{i}, s{i}, z{i}, , b{i})"
    f" d{i} = DequantizeLinear <axis = 1, block_size = 32> (p{i}, t{i}) e{i} = Transpose (d{i})"
    f" m{i} = MatMul (x, e{i}) y{i} = Add (a{i}, m{i}) "
    for i, n in ((0, 5), (1, 3))
)
NIBBLES = np.random.default_rng(9).integers(0, 256, (8, 2, 16), np.uint8)
PACKED_WEIGHTS = {
    "q": NIBBLES, "s": array(16), "z": NIBBLES[:, 0, :1], "b": B, "t": array(8, 2, seed=1),
    "p": np.random.default_rng(3).integers(-8, 8, (8, 64)).astype(ml_dtypes.int4),
}  # fmt: skip
PACKED_PARTS = {
    f"{name}{i}": whole[slice(start * len(whole) // 8, stop * len(whole) // 8)]
    for name, whole in PACKED_WEIGHTS.items()
    for i, (start, stop) in enumerate(((0, 5), (5, 8)))
}

BLOCKS = "(int64[3] i) => (float[3,128] y)"
BLOCKS_OP = "com.microsoft.GatherBlockQuantized <bits: int = 4, block_size: int = 32>"
BLOCKS_SOURCE = f"y = {BLOCKS_OP} (q, i, s, z)"
BLOCKS_CHIP = "".join(f"y{n} = {BLOCKS_OP} (q{n}, i, s{n}, z{n}) " for n in (0, 1))
BYTES = np.random.default_rng(4).integers(0, 256, (6, 64), np.uint8)
BLOCKS_WEIGHTS = {"q": BYTES, "s": array(6, 4), "z": BYTES[:, 7:9]}
BLOCKS_PARTS = {
    f"{name}{n}": whole[:, half * n : half * (n + 1)]
    for name, whole in BLOCKS_WEIGHTS.items()
    for half in (whole.shape[1] // 2,)
    for n in (0, 1)
}

REPEATED = "(float[2,6] x) => (float[2,4,3,2] y)"
REPEATED_CHIP = "".join(
    f"a{i} = MatMul (x, w{i}) u{i} = Reshape (a{i}, s) e{i} = Expand (u{i}, t) y{i} = Relu (e{i}) "
    for i in (0, 1)
)
REPEATED_PARTS = {
    "w0": W[:, :4], "w1": W[:, 4:], "s": np.array([2, 2, 1, 2]), "t": np.array([2, 1, 3, 1])
}  # fmt: skip

CASES = {
    "repeated heads": (
        REPEATED, "a = MatMul (x, w) u = Reshape (a, s) e = Expand (u, t) y = Relu (e)",
        {"w": W, "s": np.array([2, 4, 1, 2]), "t": np.array([2, 4, 3, 2])},
        REPEATED_CHIP + "y = Concat <axis = 1> (y0, y1)", REPEATED_PARTS,
    ),
    "packed rows": (
        BLOCKS, BLOCKS_SOURCE, BLOCKS_WEIGHTS,
        BLOCKS_CHIP + " a = Identity (y0) b = Identity (y1) y = Concat <axis = 1> (a, b)",
        BLOCKS_PARTS,
    ),
    "packed blocks": (
        PACKED, PACKED_SOURCE, PACKED_WEIGHTS,
        PACKED_CHIP + "y = Concat <axis = 1> (y0, y1)", PACKED_PARTS,
    ),
    "heads in a row": (
        IN_A_ROW, f"y, k, v = {GROUPED} <num_heads = 4, kv_num_heads = 2> (x, , , p, r, l, t)",
        LENGTHS, IN_A_ROW_CHIP, {**LENGTHS, "sizes": np.array([8, 8, 4, 4, 4, 4])},
    ),
    "transposed": (
        GROW, GROW_SOURCE, {"w": GROW_W, "v": GROW_V, "b": B[:2]}, GROW_CHIP, GROW_PARTS
    ),
    "side by side": (
        STACK, STACK_SOURCE, {"w": CONV_W, "u": OTHER_W, "z": MIX}, STACK_CHIP, STACK_PARTS,
    ),
    "products": (PRODUCTS, PRODUCTS_SOURCE, PRODUCTS_WEIGHTS, PRODUCTS_CHIP, PRODUCTS_PARTS),
    "convolutions": (
        CONV, CONV_SOURCE, {"w": CONV_W, "g": GROUP_W, **SCALES},
        CONV_CHIP + "y = Concat <axis = 1> (y0, y1)", CONV_PARTS,
    ),
    "heads": (
        HEADS, HEADS_SOURCE, HEADS_WEIGHTS,
        HEADS_CHIP + "y = Concat <axis = 1> (y0, y1)", HEADS_PARTS,
    ),
    "rows": (ROWS, "y = Gather (table, i)", {"table": TABLE}, ROWS_CHIP, ROWS_PARTS),
    "tiles of rows": (ROWS, "y = Gather (table, i)", {"table": TABLE}, TILES_CHIP, TILES_PARTS),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parts_that_make_up_the_model_are_proven(name):
    proof = prove(*CASES[name])
    assert proof.whole, proof
    assert not proof.unfollowed_passes
    assert proof.ops >= 5


def one_off(values: np.ndarray) -> np.ndarray:
    found = np.array(values)
    found.reshape(-1)[-1] += np.float32(1)
    return found


WRONG = {
    "values of other heads": ("heads in a row", {"k1, v1, p1": "k1, v0, p1"}, {}),
    "values for keys": ("heads in a row", {"k1, v1, p1": "v1, k1, p1"}, {}),
    "queries of other heads": ("heads in a row", {}, {"sizes": np.array([4, 12, 4, 4, 4, 4])}),
    "exchanged repeated heads": ("repeated heads", {"(y0, y1)": "(y1, y0)"}, {}),
    "heads of the other part": ("repeated heads", {"Expand (u1, t)": "Expand (u0, t)"}, {}),
    "scales of other blocks": ("packed rows", {}, {"s1": BLOCKS_PARTS["s0"]}),
    "bytes of other blocks": ("packed rows", {}, {"q1": BYTES[:, 31:63]}),
    "scales of other columns": ("packed blocks", {}, {"s1": array(16)[8:14]}),
    "zero points of other columns": ("packed blocks", {}, {"z1": NIBBLES[4:7, 0, :1]}),
    "blocks of other columns": ("packed blocks", {}, {"q1": NIBBLES[4:7]}),
    "another number of columns": ("packed blocks", {"N: int = 3": "N: int = 8"}, {}),
    "one element of four bits": (
        "packed blocks", {}, {"p1": -PACKED_PARTS["p1"]},
    ),
    "wrong slice of a weight": ("products", {}, {"w1": W[:, 2:7]}),
    "changed element of a slice": ("products", {}, {"w1": one_off(W[:, 3:])}),
    "bias of the other part": ("products", {}, {"b1": B[2:7]}),
    "rows of the other part": ("products", {}, {"v0": V[5:], "v1": V[:5]}),
    "dropped contribution": ("products", {"y = Add (y0, y1)": "y = Identity (y0)"}, {}),
    "contribution that is added twice": ("products", {"Add (y0, y1)": "Add (y0, y0)"}, {}),
    "bias that is added twice": ("products", {"Gemm (r1, v1)": "Gemm (r1, v1, c)"}, {}),
    "bias that nobody adds": ("products", {"Gemm (r0, v0, c)": "Gemm (r0, v0)"}, {}),
    "contributions that are multiplied": ("products", {"Add (y0, y1)": "Mul (y0, y1)"}, {}),
    "contribution that is read alone": ("products", {"Add (y0, y1)": "Relu (y0)"}, {}),
    "exchanged parts": ("convolutions", {"(y0, y1)": "(y1, y0)"}, {}),
    "missing part": ("convolutions", {"(y0, y1)": "(y0, y0)"}, {}),
    "exchanged wires": ("convolutions", {"Conv <group = 5> (a0": "Conv <group = 5> (a1"}, {}),
    "other number of groups": ("convolutions", {"<group = 5>": "<group = 1>"}, {}),
    "other attribute": ("convolutions", {"Conv (x, w0)": "Conv <strides = [2, 2]> (x, w0)"}, {}),
    "exchanged operands": ("side by side", {"(a1, b1)": "(b1, a1)"}, {}),
    "operand of the other part": ("side by side", {"(a1, b1)": "(a1, b0)"}, {}),
    "channels in another order": ("side by side", {}, {"z0": MIX[:, [8, 9, 10, 0, 1, 2, 3]]}),
    "channels of another part": ("transposed", {}, {"v1": GROW_V[2:7]}),
    "other op": ("heads", {"Softmax (m1)": "LogSoftmax (m1)"}, {}),
    "other axis": ("heads", {"Concat <axis = 1>": "Concat <axis = 0>"}, {}),
    "other permutation": ("heads", {"[0, 2, 1, 3]> (q40)": "[0, 2, 3, 1]> (q40)"}, {}),
    "queries for keys": ("heads", {"Reshape (k1, s)": "Reshape (q1, s)"}, {}),
    "head of the other part": ("heads", {"MatMul (qt1, kt1)": "MatMul (qt1, kt0)"}, {}),
    "columns that are no whole heads": (
        "heads", {}, {"w0": QKV.reshape(8, 3, 8)[:, :, 1:5].reshape(8, 12)},
    ),
    "run of rows that is hidden": ("rows", {}, {"count1": np.array(3)}),
    "rows from another place": ("rows", {}, {"start1": np.array(2)}),
    "row that two parts show": (
        "rows", {}, {"table0": TABLE[:4], "count0": np.array(4)},
    ),
    "something for rows of others": ("rows", {}, {"nothing": np.array(1, np.float32)}),
    "no rows from the end": ("rows", {"Where (l1, f1, i)": "Where (l1, i, i)"}, {}),
    "mask along the other axis": ("rows", {}, {"spread": np.array([1, 3])}),
    "table of the other part": ("rows", {}, {"table1": TABLE[:4]}),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_parts_that_do_not_are_refused(what):
    name, replaced, weights = WRONG[what]
    ends, source, whole, chip, parts = CASES[name]
    for old, new in replaced.items():
        assert old in chip
        chip = chip.replace(old, new)
    proof = prove(ends, source, whole, chip, parts | weights)
    assert not proof.whole
    assert not proof.unfollowed_passes
    assert structure_faults(proof)
    assert left_to_runs(proof) is None


def test_op_without_a_law_is_left_to_runs_and_others_are_not():
    ends = "(float[4,6] x) => (float[4,8] y)"
    source = "a = MatMul (x, w) b = CumSum (a, n) y = Relu (b)"
    chip = (
        "a0 = MatMul (x, w0) b0 = CumSum (a0, n) a1 = MatMul (x, w1) b1 = CumSum (a1, n)"
        " b = Concat <axis = 1> (b0, b1) y = Relu (b)"
    )
    weights, parts = {"w": W, "n": np.array(0)}, {"w0": W[:, :4], "w1": W[:, 4:], "n": np.array(0)}
    proof = prove(ends, source, weights, chip, parts)
    assert [op.op_type for op in proof.unproven][:2] == ["CumSum", "CumSum"]
    assert proof.unfollowed_passes == ("apply_plan",)
    assert not structure_faults(proof)
    assert left_to_runs(proof) is not None
    wrong = prove(ends, source, weights, chip, parts | {"w0": one_off(W[:, :4])})
    assert not wrong.unfollowed_passes
    assert [fault.code for fault in structure_faults(wrong)][:1] == ["MCM-V060"]
    assert wrong.unproven[0].op_type == "MatMul"


def test_a_part_that_is_repeated_another_number_of_times_is_not_proven():
    ends, source, whole, chip, parts = CASES["repeated heads"]
    for sizes in ([2, 2, 2, 2], [1, 2, 2, 3, 2]):
        proof = prove(ends, source, whole, chip, parts | {"t": np.array(sizes)})
        assert {op.node for op in proof.unproven} >= {"op_2", "op_6"}


def selected(values: np.ndarray, view: View) -> np.ndarray:
    columns = np.concatenate([np.arange(a, b) for a, b in view.intervals])
    return values.reshape(view.pre, view.extent)[:, columns].reshape(-1)


def test_views_hold_what_numpy_says():
    """Random cuts, reshapes and concatenations against the elements themselves."""
    rng = np.random.default_rng(0)
    followed = several = 0
    for _ in range(300):
        shape = tuple(rng.integers(1, 5, 3).tolist())
        values = np.arange(np.prod(shape)).reshape(shape)
        piece = whole_piece(0, shape)
        assert piece is not None
        held = values
        for _ in range(4):
            axis = int(rng.integers(held.ndim))
            start, stop = sorted(rng.integers(0, held.shape[axis] + 1, 2).tolist())
            made = piece
            if rng.integers(3) == 0:
                dims = [held.shape[0] * held.shape[1], *held.shape[2:]]
                dims.insert(int(rng.integers(len(dims) + 1)), 1)
                made, held_next = piece.reshaped(tuple(dims)), held.reshape(dims)
            elif rng.integers(2) and start < stop < held.shape[axis]:
                low = piece.taken(axis, ((0, start),)) if start else None
                high = piece.taken(axis, ((stop, held.shape[axis]),))
                both = [p for p in (low, high) if p is not None]
                made = joined(both, axis) if len(both) == 1 + (start > 0) else None
                taken = [*range(start), *range(stop, held.shape[axis])]
                held_next = np.take(held, taken, axis)
            elif start < stop:
                made = piece.taken(axis, ((start, stop),))
                held_next = np.take(held, range(start, stop), axis)
            else:
                continue
            if made is None:
                break
            piece, held = made, held_next
            followed += 1
            assert piece.shape == held.shape
            assert np.array_equal(selected(values, piece.view), held.reshape(-1))
            found, whole = None, whole_piece(0, shape)
            if held.ndim == 3 and whole is not None:
                found = part_of(piece, whole)
            if found is not None:
                several += len(found) > 1
                expected = values
                for at, cut in found.items():
                    expected = np.take(expected, [k for a, b in cut for k in range(a, b)], at)
                assert np.array_equal(expected, held)
    assert followed > 400
    assert several > 40


def test_parts_out_of_order_are_not_joined():
    whole = whole_piece(0, (2, 6))
    assert whole is not None
    parts = [whole.taken(1, ((k, k + 3),)) for k in (0, 3)]
    assert joined([p for p in parts if p], 1) == whole.taken(1, ((0, 6),))
    assert joined([p for p in reversed(parts) if p], 1) is None
    assert joined([p for p in parts if p], 0) is None


def test_columns_of_columns():
    assert chosen(((2, 5), (7, 9)), [(1, 4)]) == ((3, 5), (7, 8))
    assert places(((3, 5), (7, 8)), ((2, 5), (7, 9))) == ((1, 4),)
    assert places(((3, 6),), ((2, 5), (7, 9))) is None


@pytest.mark.parametrize(
    "chip",
    [
        TILES_CHIP.replace("(a, b)", "(b, a)"),
        TILES_CHIP.replace("Add (y0q, y1q)", "Add (y0q, y0q)"),
        TILES_CHIP.replace("Less (q, zero)", "Less (p, zero)"),
    ],
)
def test_tiles_of_other_rows_are_not(chip):
    source = {"table": TABLE}
    proof = prove(ROWS, "y = Gather (table, i)", source, chip, TILES_PARTS)
    assert not proof.whole or proof.outputs
