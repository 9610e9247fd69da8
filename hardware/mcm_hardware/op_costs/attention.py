"""Attention: projections where the op holds them, scores, softmax, context."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import EXP, SOFTMAX, Gemm, Work, joined, ops, per_input

_MASK_AND_SCALE = 2

_GROUPED, _ANGLES = 3, (7, 8)
"""Inputs of attention with grouped heads: the past, and the tables of angles."""

_NO_PAST = 2**31
"""Input index that no op has: the op holds no keys of earlier tokens."""


def _core(batch_heads: int, queries: int, keys: int, qk_width: int, v_width: int) -> Work:
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1), all keys for all queries."""
    scores = Gemm(batch_heads, queries, keys, qk_width)
    context = Gemm(batch_heads, queries, v_width, keys, inner=True)
    return Work((scores, context), (SOFTMAX + _MASK_AND_SCALE) * batch_heads * queries * keys)


def _standard(node: NodeShapes) -> Work:
    """Default domain: `[batch, heads, length, width]`, or `[batch, length, heads * width]`."""
    flat = len(node.dims(0)) < 4
    heads = max(node.integer("q_num_heads", 1), 1) if flat else node.dim(0, 1)
    kv_heads = max(node.integer("kv_num_heads", 1), 1)
    width = node.dim(0, -1) // heads if flat else node.dim(0, -1)
    v_width = node.dim(2, -1) // kv_heads if flat else node.dim(2, -1)
    keys = node.dim(1, -2) + (node.dim(4, -2) if node.has(4) else 0)
    return _core(node.dim(0, 0) * heads, node.dim(0, -2), keys, width, v_width)


def _projected(weight: int, past: int, matrices: int, node: NodeShapes) -> Work:
    """Attention that projects its input itself: `[batch, length, in] x [in, q + k + v]`."""
    heads = max(node.integer("num_heads", 1), 1)
    rows, width_in = node.size(0) // max(node.dim(0, -1), 1), node.dim(0, -1)
    total = node.dim(weight, -1) * matrices
    sizes = node.integers("qkv_hidden_sizes")
    q_width, v_width = (sizes[0], sizes[2]) if len(sizes) == 3 else (total // 3, total // 3)
    # Packed batches are [tokens, width]: all of them in one sequence is the upper bound.
    length = node.dim(0, -2)
    window = node.integer("window")
    keys = min(2 * window + 1, length) if window else length
    keys += node.dim(past, -2) if node.has(past) else 0
    batch = rows // max(length, 1)
    core = _core(batch * heads, length, keys, q_width // heads, v_width // heads)
    projection = Gemm(1, rows, total, width_in)
    return Work((projection, *core.gemms), core.lane_ops + rows * total)


def _unprojected(past: int, node: NodeShapes) -> Work:
    """Attention over given queries, keys and values, packed or apart, with grouped heads."""
    heads = max(node.integer("num_heads", 1), 1)
    kv_heads = node.integer("kv_num_heads", heads)
    dims = node.dims(0)
    if len(dims) == 5:
        batch, queries, _, _, width = dims
    else:
        queries, batch = node.dim(0, -2), math.prod(dims[:-2])
        parts = heads if node.has(1) else heads + 2 * kv_heads
        width = node.dim(0, -1) // max(parts, 1)
    keys = node.dim(1, -2) if node.has(1) else queries
    present = node.out_dims(1)
    if len(present) == 4:
        keys = present[-2]
    elif node.has(past):
        keys += node.dim(past, -2)
    window = node.integer("local_window_size", -1)
    if window > 0:
        keys = min(keys, window)
    v_width = node.dim(2, -1) // max(kv_heads, 1) if len(node.dims(2)) == 3 else width
    work = _core(batch * heads, queries, keys, width, v_width)
    if past != _GROUPED:
        return work
    # Angles are looked up by position, and a window reads the last tokens.
    reads = [(at, min(node.size(at), batch * queries * node.dim(at, -1))) for at in _ANGLES]
    for at in (past, past + 1):
        length = max(node.dim(at, -2), 1)
        read = min(length, window + queries - 1) if window > 0 else length
        reads.append((at, node.size(at) // length * read))
    return replace(work, reads=tuple(reads))


def _rotary(angles: int, node: NodeShapes) -> Work:
    """A rotation of each pair: two multiplications and an addition per element."""
    tokens = node.dim(0, 0) * node.dim(0, -2)
    tables = range(angles, angles + 2)
    reads = tuple((at, min(node.size(at), tokens * node.dim(at, -1))) for at in tables)
    return Work(lane_ops=3 * node.size(0), reads=reads)


def _decoder(node: NodeShapes) -> Work:
    """Projects queries with one matrix, keys and values with another."""
    heads = max(node.integer("num_heads", 1), 1)
    width = node.dim(0, -1)
    queries, keys = node.dim(0, 0), node.dim(1, 0)
    batch = node.dim(0, 1)
    core = _core(batch * heads, queries, keys, width // heads, width // heads)
    projections = (
        Gemm(1, queries * batch, node.dim(2, -1), width),
        Gemm(1, keys * batch, node.dim(3, -1), node.dim(1, -1)),
    )
    return Work((*projections, *core.gemms), core.lane_ops)


def _linear(node: NodeShapes) -> Work:
    """A state of `[d_k, d_v]` per head, updated and read once per token (Katharopoulos 2020)."""
    kv_heads = max(node.integer("kv_num_heads", 1), 1)
    q_heads = max(node.integer("q_num_heads", kv_heads), 1)
    tokens = node.dim(0, 0) * node.dim(0, 1)
    d_k, d_v = node.dim(1, -1) // kv_heads, node.dim(2, -1) // kv_heads
    updates = 3 if "delta" in node.text("update_rule") else 2
    state = tokens * kv_heads * d_k * d_v
    read = Gemm(tokens * q_heads, 1, d_v, d_k, rounds=node.dim(0, 1))
    return Work((read,), updates * state + EXP * tokens * kv_heads)


FORMULAS = joined(
    ops(_standard, "Attention"),
    ops(_standard, "FlexAttention", domain="ai.onnx.preview"),
    ops(_linear, "LinearAttention", "LinearAttention"),
    ops(partial(_rotary, 1), "RotaryEmbedding"),
    ops(partial(_rotary, 2), "", "RotaryEmbedding"),
    ops(per_input(3), "", "GemmaRotaryEmbedding MRotaryEmbedding"),
    ops(partial(_projected, 1, 4, 1), "", "Attention DecoderMaskedSelfAttention"),
    ops(
        partial(_projected, 1, _NO_PAST, 1),
        "",
        "LongformerAttention PackedAttention QOrderedLongformerAttention",
    ),
    ops(partial(_projected, 1, 8, 1), "", "QAttention"),
    ops(partial(_projected, 5, 18, 3), "", "QOrderedAttention"),
    ops(partial(_unprojected, _GROUPED), "", "GroupQueryAttention SparseAttention"),
    ops(partial(_unprojected, 5), "", "DecoderMaskedMultiHeadAttention"),
    ops(partial(_unprojected, 6), "", "MultiHeadAttention"),
    ops(partial(_unprojected, _NO_PAST), "", "PackedMultiHeadAttention PagedAttention"),
    ops(_decoder, "", "DecoderAttention"),
)
"""Attention."""
