"""Ops whose activations exceed a chip are divided along rows, bit for bit."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.graph.invariants import check_invariants
from mcm_passes.parallelism.row_tiles.row_tiling import plan_of_tiles
from mcm_passes.pipeline.shard_oversized import ShardOversized
from tests.unit.passes.pipeline.test_shard_oversized import (
    context,
    imported,
    randomised,
    same_outputs,
)

ATTENTION = """m (float[1,4,128,32] q, float[1,4,32,128] k, float[1,4,128,32] v)
    => (float[1,4,128,32] y) {
    [qk] s = MatMul (q, k)  [soft] t = Softmax <axis = -1> (s)  [av] y = MatMul (t, v) }"""

HEAD = """m (float[256,64] x) => (float[256,512] y) <float[64,512] w> {
    [mul] s = MatMul (x, w)  [tanh] t = Tanh (s)  [soft] y = Softmax <axis = -1> (t) }"""


def tiled(text, sram_bytes, **options):
    """The model after the pass, checked against the one before, and what was told."""
    before, after = randomised(imported(text)), randomised(imported(text))
    scope, reports = context(sram_bytes)
    ShardOversized(**options).run(after, scope)
    assert check_invariants(after) == []
    same_outputs(before, after)
    return after, reports


def test_heads_of_attention_chain_from_tile_to_tile():
    model, reports = tiled(ATTENTION, 300_000)
    assert [r.code for r in reports] == ["MCM-P057"]
    assert "3 ops divided along 4 rows into 4 tiles" in reports[0].message
    names = [node.name for node in model.graph]
    assert [n for n in names if "soft" in n] == [f"soft/tile_{k}" for k in range(4)]
    # Nothing is put together between the ops: parts of inputs at the start, a Concat at the end.
    ops = [node.op_type for node in model.graph]
    assert (ops.count("Split"), ops.count("Concat")) == (3, 1)
    assert names.index("soft/tile_0") < names.index("qk/tile_1")


def test_a_large_output_leaves_in_the_tiles_that_make_it():
    model, reports = tiled(HEAD, 600_000)
    assert [r.code for r in reports] == ["MCM-P057", "MCM-P056"]
    parts = OUTPUT_PARTS.get(model)
    assert [(p.axis, p.start, p.stop) for p in parts.values()] == [
        (0, 0, 64),
        (0, 64, 128),
        (0, 128, 192),
        (0, 192, 256),
    ]
    assert not any(part.strided for part in parts.values())
    assert "Concat" not in {node.op_type for node in model.graph}
    assert "a stretch of its memory each" in reports[1].message


def test_constants_with_the_rows_are_sliced_and_shapes_become_those_of_the_tile():
    text = """m (float[8,32,64] x) => (float[8,32,256] y)
        <float[64,256] w, float[8,1,1] scale, int64[2] flat = {256, 64},
         int64[3] back = {8, 32, 256}> {
        a = Reshape (x, flat)  b = MatMul (a, w)  c = Reshape (b, back)
        d = Mul (c, scale)  y = Relu (d) }"""
    model, reports = tiled(text, 400_000)
    assert reports[0].code == "MCM-P057"
    named = [(n.name or "", n) for n in model.graph]
    backs = [
        n.inputs[1].const_value.numpy()
        for name, n in named
        if "Reshape" in name and n.inputs[0].shape.numpy()[-1] == 256
    ]
    assert {tuple(shape[1:]) for shape in backs} == {(32, 256)}
    assert sum(shape[0] for shape in backs) == 8
    scales = [n.inputs[1].shape[0] for _, n in named if n.op_type == "Mul"]
    assert sum(scales) == 8


def test_nothing_is_divided_where_everything_fits():
    for text in (ATTENTION, HEAD):
        model, reports = tiled(text, 2_000_000)
        assert reports == []
        assert len(model.graph) == 3
        assert OUTPUT_PARTS.get(model) == {}


def test_an_option_asks_for_tiles_where_everything_fits():
    model, reports = tiled(HEAD, 4_000_000, tile_rows=100)
    assert [r.code for r in reports] == ["MCM-P057"]
    assert [n.outputs[0].shape[0] for n in model.graph if n.op_type == "Tanh"] == [128, 64, 64]


def test_option_out_of_range():
    with pytest.raises(ValueError, match="tile_rows is -1, not at least 0"):
        ShardOversized(tile_rows=-1)


@pytest.mark.parametrize(
    ("text", "sram", "why"),
    [
        # Normalised along its only large axis, and the input is too large to be taken apart.
        (
            "m (float[2,400000] x) => (float[2,400000] y) { y = Softmax <axis = -1> (x) }",
            4_000_000,
            "over 2 rows, taking 'x' apart takes 9.2 MiB",
        ),
        (
            "m (float[400000] x) => (float[400000] y) { y = Softmax <axis = 0> (x) }",
            2_000_000,
            "no axis of its result is divided",
        ),
        # 1024 products to a sum and 64 columns: tiles below 64 rows would sum otherwise.
        (
            "m (float[128,8] x) => (float[128,64] y) <float[8,1024] u, float[1024,64] w>"
            " { v = MatMul (x, u) y = MatMul (v, w) }",
            800_000,
            "would sum in another order",
        ),
    ],
)
def test_mcm_p052_what_is_not_divided_and_why(text, sram, why):
    _, reports = tiled(text, sram)
    told = [r.message for r in reports if r.code == "MCM-P058"]
    assert any(why in message for message in told), told
    assert {"MCM-P056", "MCM-P057", "MCM-P058"} <= catalog().keys()


def test_tiles_are_fused_as_the_whole_was():
    def node(name):
        return ir.Node("", "Relu", [None], name=name)

    plan = FusionPlan(
        (
            FusionGroup("b", "chain", ("a", "b")),
            FusionGroup("d", "chain", ("c", "d")),
            FusionGroup("f", "chain", ("e", "f")),
        )
    )
    tiles = {name: [node(f"{name}/tile_{k}") for k in range(2)] for name in ("a", "b", "c")}
    assert [(g.name, g.nodes) for g in plan_of_tiles(plan, tiles).groups] == [
        ("b/tile_0", ("a/tile_0", "b/tile_0")),
        ("b/tile_1", ("a/tile_1", "b/tile_1")),
        ("f", ("e", "f")),
    ]


@pytest.mark.parametrize(("rows", "tile"), [(300, 64), (256, 128), (130, 100)])
def test_products_of_few_columns_keep_their_bits_in_tiles_of_many_rows(rows, tile):
    text = f"""m (float[{rows},1024] x) => (float[{rows},64] y) <float[1024,64] w> {{
        y = MatMul (x, w) }}"""
    model, _ = tiled(text, 8_000_000, tile_rows=tile)
    extents = [n.outputs[0].shape[0] for n in model.graph if n.op_type == "MatMul"]
    assert sum(extents) == rows
    assert len(extents) == 1 or min(extents) >= 64


def test_the_order_of_ops_stays_topological_where_the_rest_reads_in_between():
    text = """m (float[256,64] x, float[64,256] z) => (float[256,64] y, float[256,64] u) {
        a = Relu (x)  b = Tanh (a)  m = Transpose (b)  n = MatMul (m, b)
        c = MatMul (b, n)  y = Sigmoid (c)  u = Neg (b) }"""
    model, reports = tiled(text, 8_000_000, tile_rows=64)
    assert {r.code for r in reports} == {"MCM-P057"}
    assert np.prod(model.graph.outputs[0].shape.numpy()) == 256 * 64


def test_a_value_that_some_op_reads_whole_is_not_divided():
    """Rows of a sequence make its queries as well as its values."""
    text = """m (float[128,128] m, float[128,32] x, float[32,32] w) => (float[128,32] y) {
        [soft] s = Softmax <axis = -1> (m)  [rows] r = Relu (x)  [values] v = MatMul (r, w)
        [av] a = MatMul (s, v)  [add] b = Add (a, r)  [exp] y = Exp (b) }"""
    tiled(text, 10**7, tile_rows=64)
