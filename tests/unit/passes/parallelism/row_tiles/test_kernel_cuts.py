"""Kernels that take long are cut along the loop that costs least."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_passes.parallelism.row_tiles import kernel_cuts
from mcm_passes.parallelism.row_tiles.kernel_cuts import even_bounds
from mcm_passes.parallelism.rules.graph_rules import RuleTable
from mcm_passes.pipeline.preparing import plan_fusion
from mcm_passes.pipeline.shard_oversized import ShardOversized
from tools.update_goldens import parse_filled

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
SCALES = "float s = {0.05}, uint8 z = {128}, float t = {0.2}"

QDQ = f"""m (float[1,8,24,24] x) => (float[1,32,12,12] y)
    <int8[32,8,3,3] w, float[32] ws, int8[32] wz, {SCALES}> {{
    q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
    v = DequantizeLinear <axis = 0> (w, ws, wz) c = Conv <pads = [1,1,1,1]> (d, v) r = Relu (c)
    q2 = QuantizeLinear (r, t, z) d2 = DequantizeLinear (q2, t, z)
    y = MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (d2) }}"""
QLINEAR = f"""m (uint8[1,8,24,24] x) => (uint8[1,32,24,24] y)
    <int8[32,8,3,3] w, float[32] ws, int8[32] wz, int32[32] b, {SCALES}> {{
    c = QLinearConv <pads = [1,1,1,1]> (x, s, z, w, ws, wz, t, z, b)
    y = MaxPool <kernel_shape = [3,3], pads = [1,1,1,1]> (c) }}"""
INTEGER = f"""m (uint8[1,8,24,24] x) => (float[1,32,24,24] y) <int8[32,8,3,3] w, {SCALES}> {{
    c = ConvInteger <pads = [1,1,1,1]> (x, w, z) f = Cast <to = 1> (c) y = Relu (f) }}"""
PRODUCT = f"""m (uint8[64,256] x) => (float[64,512] y) <int8[256,512] w, {SCALES}> {{
    c = MatMulInteger (x, w, z) f = Cast <to = 1> (c) y = Relu (f) }}"""
DEEP = """m (float[1,512,7,7] x) => (float[1,512,7,7] y)
    <float[512,512,3,3] w, float[512,512,3,3] v> {
    c = Conv <pads = [1,1,1,1]> (x, w) r = Relu (c) y = Conv <pads = [1,1,1,1]> (r, v) }"""
WIDE = """m (float[1,3,128,128] x) => (float[1,64,128,128] y)
    <float[64,3,3,3] w, float[64,64,3,3] v> {
    c = Conv <pads = [1,1,1,1]> (x, w) r = Relu (c) y = Conv <pads = [1,1,1,1]> (r, v) }"""


def model_of(text):
    model = ir.from_proto(parse_filled(HEAD + text))
    rng = np.random.default_rng(0)
    for name, kind in (("w", np.int8), ("wz", np.int8), ("b", np.int32)):
        value = model.graph.initializers.get(name)
        if value is not None and "int8" in text:
            array = rng.integers(-99, 99, value.shape.numpy()) * (name != "wz")
            value.const_value = ir.Tensor(array.astype(kind), name=name)
            value.dtype = ir.DataType.from_numpy(np.dtype(kind))
    if (scales := model.graph.initializers.get("ws")) is not None:
        array = rng.uniform(0.001, 0.01, 32).astype(np.float32)
        scales.const_value = ir.Tensor(array, name="ws")
    return import_model(model, "test")[0]


def cut(text, target="mcm4", **options):
    model, reports = model_of(text), []
    FUSION_PLAN.set(model, plan_fusion(model.graph))
    scope = PassContext(load_target(target), None, None, reports.append)
    ShardOversized(**options).run(model, scope)
    assert check_invariants(model) == []
    return model, reports


def outputs(model):
    rng = np.random.default_rng(4)
    feeds = {
        value.name: rng.standard_normal(value.shape.numpy()).astype(np.float32)
        if value.dtype is ir.DataType.FLOAT
        else rng.integers(0, 255, value.shape.numpy()).astype(np.uint8)
        for value in model.graph.inputs
    }
    return list(run_model(ir.to_proto(model), feeds).values())


def tiles(model, op_type):
    return [node for node in model.graph if node.op_type == op_type and "/tile_" in node.name]


def test_tiles_of_a_packed_weight_are_priced_as_packed_and_leave_no_trace():
    text = """m (float[1,512] x) => (float[1,4096] y) <int8[4096,512] w, float[4096,16] t> {
        d = DequantizeLinear <axis = 1, block_size = 32> (w, t) e = Transpose (d)
        y = MatMul (x, e) }"""
    given = ir.from_proto(parse_filled(HEAD.replace("17", "21") + text))
    weight = given.graph.initializers["w"]
    weight.const_value = ir.Tensor(np.ones((4096, 512), np.int8), name="w")
    weight.dtype = ir.DataType.INT8
    model, costs = import_model(given, "test")[0], load_target("mcm4").cost_model()
    cuts = kernel_cuts.KernelCuts(model, costs, plan_fusion(model.graph))
    seconds = cuts.seconds[-1]
    (found,) = cuts.cut_above(seconds / 4, seconds)
    assert len(found.cut.bounds) >= 4
    assert found.total_s < seconds + len(found.cut.bounds) * 2e-7
    assert check_invariants(model) == []
    assert len(model.graph.initializers["t"].uses()) == 1


@pytest.mark.parametrize("options", [{"tile_rows": 9}, {"grain": 0.9}])
@pytest.mark.parametrize("text", [QDQ, QLINEAR, INTEGER, PRODUCT])
def test_quantised_ops_give_the_bits_of_the_whole(text, options):
    model, reports = cut(text, **options)
    assert {"MCM-P068", "MCM-P057"} & {report.code for report in reports}
    for expected, actual in zip(outputs(model_of(text)), outputs(model), strict=True):
        np.testing.assert_array_equal(expected, actual)


def test_deep_images_are_cut_by_channels_and_wide_ones_by_rows():
    deep, wide = cut(DEEP, grain=0.5)[0], cut(WIDE, grain=0.5)[0]
    assert {tuple(node.outputs[0].shape) for node in tiles(deep, "Conv")} == {(1, 128, 7, 7)}
    assert {tuple(node.outputs[0].shape) for node in tiles(wide, "Conv")} == {(1, 64, 16, 128)}
    for model in (deep, wide):
        groups = FUSION_PLAN.get(model).group_of
        # The ops of a kernel stay together, and with them the ranges that they read and give.
        for node in tiles(model, "Relu"):
            assert groups[node.name] is groups[node.inputs[0].producer().name]
        for node in model.graph:
            assert (
                node.op_type not in ("Slice", "Concat")
                or node.name in groups
                or (node.outputs[0].is_graph_output())
            )


def test_a_rule_that_forbids_a_cut_is_kept_and_the_kernel_is_named(monkeypatch):
    monkeypatch.setattr(kernel_cuts, "installed_rules", lambda: RuleTable({}))
    model, reports = cut(DEEP, grain=0.5)
    assert not tiles(model, "Conv")
    assert [report.code for report in reports] == ["MCM-P069"]
    assert "2 kernels of more than the grain not cut" in reports[0].message


def test_tiles_smaller_than_an_array_row_are_made_with_a_warning():
    model, reports = cut(DEEP, tile_rows=1)
    # Two rows of 7 columns take an array of 64 rows no longer than one.
    assert len(tiles(model, "Conv")) == 8
    assert [report.code for report in reports] == ["MCM-P068", "MCM-P070"]


@pytest.mark.parametrize("bad", ["grain=-0.5", "grain=nan", "tile_rows=-1"])
def test_options_that_make_no_sense_are_refused(bad):
    with pytest.raises(CompileError, match="MCM-U002"):
        parse_pipeline(f"parallelize{{{bad}}}")


def test_bounds_are_nearly_equal_multiples():
    assert even_bounds(28, 3, 8) == ((0, 8), (8, 16), (16, 28))
    assert even_bounds(7, 3, 1) == ((0, 2), (2, 4), (4, 7))
    assert even_bounds(5, 8, 2) == ((0, 2), (2, 4), (4, 5))


def test_a_grain_that_no_tile_can_have_is_answered_at_once():
    numbers = kernel_cuts._tile_counts(1e9, 50_000)
    assert len(numbers) < 256
    assert {2, 50_000} <= set(numbers)
    assert kernel_cuts._tile_counts(7.5, 64) == [8, 9, 10, 11, 4, 5, 6, 2, 3]


BEHIND = """m (float[1,512,7,7] x) => (float[1,512,7,7] y)
    <float[512,512,3,3] w, float[512] s, float[512] b, float[512] m, float[512] d> {
    c = Conv <pads = [1,1,1,1]> (x, w) n = BatchNormalization (c, s, b, m, d) y = Relu (n) }"""


def test_heavy_kernels_are_cut_by_channels_with_all_that_is_fused():
    model, reports = cut(BEHIND, tile_rows=4, fraction=0.05)
    groups = FUSION_PLAN.get(model).group_of
    assert {report.code for report in reports} == {"MCM-P068"}
    for relu in tiles(model, "Relu"):
        assert relu.outputs[0].shape[1] < 512
        assert relu.inputs[0].producer().inputs[0].producer().name in groups[relu.name].nodes


@pytest.mark.parametrize(("columns", "extents"), [(56, {4}), (28, {8, 4})])
def test_tiles_have_twice_the_rows_where_that_fills_the_array(columns, extents):
    text = f"""m (float[1,64,{columns},{columns}] x) => (float[1,64,{columns},{columns}] y)
        <float[64,64,3,3] w> {{ y = Conv <pads = [1,1,1,1]> (x, w) }}"""
    model, _ = cut(text, target="simba36", tile_rows=4)
    assert {node.outputs[0].shape[2] for node in tiles(model, "Conv")} == extents


def test_streamed_tiles_end_where_those_that_read_them_do():
    """Each tile reads one tile of the image before that no earlier one has read."""
    text = """m (float[1,256,28,28] x) => (float[1,512,14,14] y) <float[512,256,3,3] w,
        float[512,512,3,3] v> { c = Conv <pads = [1,1,1,1]> (x, w) r = Relu (c)
        d = Conv <pads = [1,1,1,1]> (r, v) s = Relu (d)
        y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (s) }"""
    model, reports = cut(text, target="tests/data/targets/set36.toml", tile_rows=8)
    rows = {stem: [] for stem in "rsy"}
    for node in model.graph:
        for value in node.outputs:
            if made := re.fullmatch(r"([rsy])/tile_\d(/tile_0)?", value.name):
                rows[made[1]].append(value.shape[2])
    assert rows == {"r": [9, 8, 8, 3], "s": [8, 8, 8, 4], "y": [4, 4, 4, 2]}
    assert "MCM-P070" not in {note.code for note in reports}


def test_pieces_of_streamed_weights_run_with_what_follows_them():
    """No kernel puts the pieces of a result together, but for those that read it."""
    whole = model_of(DEEP)
    model, reports = cut(DEEP, target="tests/data/targets/set36.toml", tile_rows=8, fraction=0.145)
    groups = [[n.partition("_")[0] for n in g.nodes] for g in FUSION_PLAN.get(model).groups]
    assert groups.count(["Conv", "Relu"]) == 16
    assert not any(node.op_type == "Relu" and "/tile_" not in node.name for node in model.graph)
    assert [note.code for note in reports].count("MCM-P011") == 2
    for one, other in zip(outputs(whole), outputs(model), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
