"""Tolerance of sums in another order: what it follows from, and mistakes that it does not hide."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.comparison.stock_options import (
    LAMBDA,
    UNIT_ROUNDOFF,
    sum_length,
    sum_tolerance,
)
from mcm_compiler.cli.main import cli

EXACT = ("--planner", "auto-map")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def model(text, **weights):
    proto = onnx.parser.parse_model(HEAD + text)
    for name, shape in weights.items():
        rng = np.random.default_rng(len(name))
        array = rng.standard_normal(shape).astype(np.float32) / math.sqrt(shape[0])
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return onnx.shape_inference.infer_shapes(proto)


MLP = """m (float[8,256] x) => (float[8,64] y) {
    a = MatMul (x, u)  b = Tanh (a)  y = MatMul (b, v) }"""


def test_lengths_of_sums():
    graph = ir.from_proto(
        model(
            "m (float[1,8,6,6] x) => (float[1,4,1,1] y) {"
            " a = Conv (x, w)  b = Relu (a)  y = GlobalAveragePool (b) }",
            w=(4, 8, 3, 3),
        )
    ).graph
    assert [sum_length(node) for node in graph] == [72, 1, 16]


def test_the_tolerance_grows_with_length_and_depth():
    one = sum_tolerance(ir.from_proto(model(MLP, u=(256, 1024), v=(1024, 64))))
    longer = sum_tolerance(ir.from_proto(model(MLP, u=(256, 4096), v=(4096, 64))))
    by_hand = 2 * LAMBDA * UNIT_ROUNDOFF * (math.sqrt(256) + 1 + math.sqrt(1024))
    assert one == pytest.approx(by_hand)
    assert longer == pytest.approx(by_hand + 2 * LAMBDA * UNIT_ROUNDOFF * 32)


def test_branches_count_once():
    text = """m (float[8,256] x) => (float[8,256] y) {
        a = MatMul (x, u)  b = MatMul (x, v)  c = MatMul (x, u)  d = Add (a, b)  y = Add (d, c) }"""
    found = sum_tolerance(ir.from_proto(model(text, u=(256, 256), v=(256, 256))))
    assert found == pytest.approx(2 * LAMBDA * UNIT_ROUNDOFF * (16 + 2))


def test_a_quantised_sum_may_be_a_step_off():
    text = """m (float[8,256] x, float s, int8 z) => (int8[8,256] y) {
        p = QuantizeLinear (x, s, z)  a = DequantizeLinear (p, s, z)  b = MatMul (a, u)
        q = QuantizeLinear (b, s, z)  c = DequantizeLinear (q, s, z)  d = MatMul (c, u)
        y = QuantizeLinear (d, s, z) }"""
    found = sum_tolerance(ir.from_proto(model(text, u=(256, 256))))
    assert found == pytest.approx(LAMBDA * math.sqrt(2) / 127, rel=1e-3)  # the input has no error


@pytest.mark.parametrize("seed", range(3))
def test_what_rounding_really_does_lies_within(seed):
    """Float32 sums in two orders, through ten layers, against the tolerance."""
    rng = np.random.default_rng(seed)
    size, layers = 512, 10
    x = rng.standard_normal((4, size)).astype(np.float32)
    there, back = x, x
    for _ in range(layers):
        w = (rng.standard_normal((size, size)) / math.sqrt(size)).astype(np.float32)
        there = np.add.accumulate(there[:, :, None] * w[None], axis=1)[:, -1]
        back = np.add.accumulate((back[:, :, None] * w[None])[:, ::-1], axis=1)[:, -1]
    tolerance = 2 * LAMBDA * UNIT_ROUNDOFF * layers * math.sqrt(size)
    apart = np.abs(there - back).max() / np.abs(there).max()
    assert 0 < apart <= tolerance


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """An MLP whose second product is divided along its sum, over four chips."""
    folder = tmp_path_factory.mktemp("planned")
    path, plan, out = folder / "m.onnx", folder / "plan.json", folder / "out"
    onnx.save(model(MLP, u=(256, 1024), v=(1024, 64)), path)

    def mcmc(*arguments):
        result = CliRunner().invoke(cli, list(map(str, arguments)))
        assert result.exit_code == 0, result.output

    asked = ("--target", "mcm4", "--operator", "4", *EXACT, "--shard", "v=0")
    mcmc("parallelize", path, *asked, "-o", plan)
    mcmc("compile", path, "--target", "mcm4", "--plan", plan, "--partitioner", "dp", "-o", out)
    return out


def edited(planned: Path, tmp_path: Path, edit) -> Path:
    """A copy of the folder with one chip changed, and the hashes made right again."""
    import shutil

    out = shutil.copytree(planned, tmp_path / "out")
    for path in sorted(out.glob("chip_*.onnx")):
        proto = onnx.load(path)
        if edit(proto):
            onnx.save(proto, path)
            text = (out / "manifest.json").read_text()
            data = json.loads(text)
            (out / "manifest.json").write_text(_with_hash(data, path))
            return out
    raise AssertionError("no chip has what was to be changed")


def _with_hash(data, path: Path) -> str:
    assert path.name in data["files"]
    data["files"][path.name] = sha256_file(path)
    return json.dumps(data, indent=2) + "\n"


def reversed_slice(proto) -> bool:
    """The rows of one shard in another order: as if it had the wrong ones."""
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.shape == (256, 64):
            tensor.CopyFrom(numpy_helper.from_array(array[::-1].copy(), tensor.name))
            return True
    return False


def dropped_sum(proto) -> bool:
    """One partial sum is not added."""
    for node in proto.graph.node:
        if node.op_type in {"Add", "Sum"} and len(node.input) == 2:
            kept = node.input[1]
            node.CopyFrom(onnx.helper.make_node("Identity", [kept], list(node.output), node.name))
            return True
    return False


def test_the_plan_itself_holds(planned):
    report = check_folder(planned, seeds=(0, 1))
    assert report.holds
    (output,) = report.verification.outputs
    assert 0 < output.tolerance < 1e-3


@pytest.mark.parametrize("edit", [reversed_slice, dropped_sum])
def test_a_wrong_slice_and_a_dropped_partial_sum_are_refused(planned, tmp_path, edit):
    report = check_folder(edited(planned, tmp_path, edit), seeds=(0,))
    assert "MCM-V020" in [d.code for d in report.diagnostics]
