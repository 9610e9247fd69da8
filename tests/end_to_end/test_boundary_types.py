"""Values of every kind between chips: each op on a chip of its own, equal to the bit."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.contracts.partition import Outcome
from mcm_compiler.options import CompileOptions
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp

# Without simplify and with single ops, so that every boundary of the text is one in the package.
PASSES = "fuse{max_group=1},annotate_cost,partition,legalize,split,lower,simulate,emit,verify"


def spread(self, problem, evaluate, rng, budget):
    placed = np.nonzero(~problem.clonable)[0]
    chip_of = np.zeros(len(problem.names), dtype=np.int32)
    chips = min(problem.num_chips, len(placed))
    chip_of[placed] = np.arange(len(placed)) * chips // len(placed)
    return Outcome(chip_of, 1)


MODELS = {
    "sequence": "m (float[4] x) => (float[8] y, int64 n) { a = Neg (x) s = SequenceConstruct (a, x)"
    " t = SequenceInsert (s, a) n = SequenceLength (t) y = ConcatFromSequence <axis = 0> (s) }",
    "optional": "m (float[4] x) => (float[4] y, bool h) { o = Optional (x)"
    " y = OptionalGetElement (o) h = OptionalHasElement (o) }",
    "string": "m (string[3] x) => (string[3] y) { a = Identity (x) b = Identity (a)"
    " y = Identity (b) }",
    "bfloat16": "m (bfloat16[4] x) => (float[4] y) { a = Cast <to = 1> (x) b = Cast <to = 16> (a)"
    " y = Cast <to = 1> (b) }",
    "float8": "m (float[4] x) => (float8e5m2[4] z, float[4] y) { a = Cast <to = 17> (x)"
    " y = Cast <to = 1> (a) z = Cast <to = 19> (y) }",
    "int4": "m (float[5] x) => (float[5] y) <float s = {0.5}, int4 z = {1}> {"
    " q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
    "scalar and bool": "m (float[4] x) => (bool y) { a = ReduceMax <keepdims = 0> (x)"
    " b = Neg (a) y = Less (a, b) }",
    "no elements": "m (float[0,3] x) => (float[0,3] y) { a = Neg (x) b = Abs (a) y = Relu (b) }",
    "found by data": "m (float[4,6] x) => (float[N] y) { i = NonZero (x) t = Transpose (i)"
    " g = GatherND (x, t) y = Neg (g) }",
    "captured": "m (float[4] x, bool c) => (float[4] y) { a = Neg (x) b = Abs (x)"
    " d = If (c) <then_branch = t () => (float[4] r) { r = Add (a, b) },"
    " else_branch = e () => (float[4] r) { r = Mul (a, x) }> y = Relu (d) }",
    "input as output": "m (float[4] x) => (float[4] x, float[4] y) { a = Neg (x) y = Relu (a) }",
    "no boundary types": "m (float[4] x) => (float[4] y) { a = com.microsoft.Gelu (x)"
    " b = com.microsoft.Gelu (a) y = Relu (b) }",
}


@pytest.mark.parametrize("name", MODELS)
def test_every_op_on_a_chip_of_its_own(name, tmp_path, monkeypatch):
    monkeypatch.setattr(ContiguousDp, "solve", spread)
    head = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
    proto = onnx.parser.parse_model(head + MODELS[name])
    result = compile_model(
        ir.from_proto(proto), "mcm4", CompileOptions(passes=PASSES), output=tmp_path / "out"
    )
    assert len(result.chips) >= 2
    report = check_folder(tmp_path / "out")
    assert report.holds, report.diagnostics
    assert report.verification.outputs
    assert all(output.bit_equal for output in report.verification.outputs)
