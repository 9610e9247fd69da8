"""One layer of a decoder in spellings of its cache that the zoo lacks, with seeded weights."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

HEAD = '<ir_version: {version}, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n'

GROUPS = "num_heads = 4, kv_num_heads = 2"

QUERIES = """q = MatMul (x, wq) k = MatMul (x, wk) v = MatMul (x, wv)"""
HEADS = f"""{QUERIES}
    q0 = Reshape (q, heads) q4 = Transpose <perm = [0, 2, 1, 3]> (q0)
    k0 = Reshape (k, groups) k4 = Transpose <perm = [0, 2, 1, 3]> (k0)
    v0 = Reshape (v, groups) v4 = Transpose <perm = [0, 2, 1, 3]> (v0)"""
BACK = "o0 = Transpose <perm = [0, 2, 1, 3]> (o4) o = Reshape (o0, back)"
LENGTHS = """sum = ReduceSum <keepdims = 0> (mask, one) less = Sub (sum, one)
    last = Cast <to = 6> (less) sizes = Shape (mask)
    length = Gather (sizes, second) total = Cast <to = 6> (length)"""
REPEAT = """ku = Unsqueeze (kc, two) kx = Expand (ku, twice) kr = Reshape (kx, all)
    vu = Unsqueeze (vc, two) vx = Expand (vu, twice) vr = Reshape (vx, all)
    kt = Transpose <perm = [0, 1, 3, 2]> (kr) s = MatMul (q4, kt) s1 = Mul (s, scale)
    p = Softmax <axis = -1> (s1) o4 = MatMul (p, vr)"""
QUANTISED = """kd = DequantizeLinear (past_0, step) vd = DequantizeLinear (past_1, step)
    kc = Concat <axis = 2> (kd, k4) vc = Concat <axis = 2> (vd, v4)
    kq = QuantizeLinear (k4, step, zero) vq = QuantizeLinear (v4, step, zero)
    present_0 = Concat <axis = 2> (past_0, kq) present_1 = Concat <axis = 2> (past_1, vq)"""


def _grouped(reads: str, more: str = "", behind: str = "") -> str:
    call = f"com.microsoft.GroupQueryAttention <{GROUPS}{more}>"
    given = f"{reads}, past_0, past_1, last, total{behind}"
    return f"{LENGTHS} o, present_0, present_1 = {call} ({given})"


SPELLINGS = {
    "gqa-packed": f"qkv = MatMul (x, wqkv) {_grouped('qkv, , ')}",
    "gqa-packed-rotary": f"qkv = com.microsoft.MatMulNBits <K = 32, N = 128, block_size = 32>"
    f" (x, bits, steps) {_grouped('qkv, , ', ', do_rotary = 1', ', cos, sin')}",
    "gqa-shared": f"{QUERIES} {_grouped('q, k, v')}",
    "gqa-window": f"{QUERIES} {_grouped('q, k, v', ', local_window_size = 8')}",
    "mha": "q = MatMul (x, wq) k = MatMul (x, wq) v = MatMul (x, wq) o, present_0, present_1 ="
    " com.microsoft.MultiHeadAttention <num_heads = 4> (q, k, v, , , , past_0, past_1)",
    "tensor-scatter": f"{HEADS} present_0 = TensorScatter (past_0, k4, at)"
    " present_1 = TensorScatter (past_1, v4, at) until = Add (at, one)"
    f" o4 = Attention (q4, present_0, present_1, , , , until) {BACK}",
    "quantised": f"{HEADS} {QUANTISED} {REPEAT} {BACK}",
}  # fmt: skip
"""Body by spelling: from `x` to `o`, with `past_N` and `present_N`."""


def small_decoder(spelling: str, past: int | None = 15) -> ir.Model:
    """A layer of 4 heads (2 for keys and values) of 8 columns, or 16 that turn; one token a step.

    Args:
        spelling: of `SPELLINGS`.
        past: tokens in the cache before the step, or its size where it is one buffer; None for the
            dimensions `seq`, `past` and `total`.
    """
    fixed = spelling in ("gqa-packed-rotary", "gqa-shared", "tensor-scatter")
    heads, kind = 4 if spelling == "mha" else 2, "int8" if spelling == "quantised" else "float"
    if past is None:
        tokens, old, total, new = "seq", "past", "total", "past" if fixed else "total"
    else:
        tokens, old, total, new = 1, past, past // 2 if fixed else past + 1, past + (not fixed)
    width = 16 if "rotary" in spelling else 8
    old, new = (f"{kind}[1,{heads},{length},{width}]" for length in (old, new))
    reads = [f"int64[1,{tokens}] ids, {old} past_0, {old} past_1"]
    reads += [f"int64[1,{total}] mask"] if spelling.startswith("gqa") else []
    reads += ["int64[1] at"] if spelling == "tensor-scatter" else []
    body = "x = Gather (table, ids) " + SPELLINGS[spelling] + " z = MatMul (o, w) y = Add (z, x)"
    opset = 24 if spelling == "tensor-scatter" else 21
    head = HEAD.format(version=11, opset=opset)
    proto = onnx.parser.parse_model(
        f"{head} m ({', '.join(reads)}) =>"
        f" (float[1,{tokens},32] y, {new} present_0, {new} present_1) {{ {body} }}"
    )
    rng = np.random.default_rng(0)
    weights = {
        "table": rng.standard_normal((20, 32)), "wq": rng.standard_normal((32, 32)),
        "wk": rng.standard_normal((32, 16)), "wv": rng.standard_normal((32, 16)),
        "wqkv": rng.standard_normal((32, 64)), "w": rng.standard_normal((4 * width, 32)),
        "scale": np.array(8**-0.5), "step": np.array(0.05),
        "steps": rng.random((128, 1)), "cos": rng.random((64, 8)), "sin": rng.random((64, 8)),
    }  # fmt: skip
    numbers = {
        "heads": [0, 0, 4, 8], "groups": [0, 0, 2, 8], "back": [0, 0, 32], "one": [1], "two": [2],
        "twice": [1, 1, 2, 1, 1], "all": [0, 4, -1, 8],
    }  # fmt: skip
    constants = {name: (array * 0.2).astype(np.float32) for name, array in weights.items()}
    constants |= {name: np.array(row, np.int64) for name, row in numbers.items()}
    constants |= {"bits": rng.integers(0, 256, (128, 1, 16), np.uint8)}
    constants |= {"second": np.array(1, np.int64), "zero": np.array(0, np.int8)}
    used = {name for node in proto.graph.node for name in node.input}
    for name, array in constants.items():
        if name in used:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for index, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{index}"
    return ir.from_proto(proto)
