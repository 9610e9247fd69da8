"""The work that bounds a fabric is never more than what is laid out on it."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fabrics.fabric import COMPUTE
from mcm_compiler.contracts.fabrics.target import MapsChips, UnitChoice
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.ir.reading.importer import import_model
from mcm_models.blocks.random_blocks import FAMILIES, random_block
from tests.generators.small_zoo import SMALL

IN_PLACE = """<ir_version: 10, opset_import: ["" : 20]>
moved (float[64,64] x, int64[5] i) => (float[8,160,136] y)
<int64[4] p = {4,4,4,4}, int64[2] t = {1,2}, int64[3] s = {8,136,160}, int64[2] two = {0,3},
 int64[1] axis = {0}, int64[1] last = {2}, int64[1] zero = {0}, int64[1] end = {136}> {
 a = Concat<axis=1>(x, x) b = Transpose(a) c = Pad(b, p) d = Tile(c, t) e = Expand(d, s)
 f = Slice(e, zero, end, last) g = Gather<axis=0>(x, two) h = Gather<axis=0>(x, i)
 k = Dropout(f) l = Identity(k) m = Squeeze(zero, axis) n = Cast<to=1>(m) y = Add(l, n) }"""


def _work_and_laid_out(model: ir.Model) -> tuple[float, int]:
    """Cycles of all compute units: by the cost model, and as laid out."""
    target = load_target("fabric-20")
    assert isinstance(target, MapsChips)
    costs, fabric = target.cost_model(), target.fabric
    seconds = sum(costs.node_cost(node).seconds for node in placeable_nodes(model.graph))
    problem = target.mapping_problem(model, UnitChoice())
    computes = problem.kind == COMPUTE
    laid_out = int((problem.firings * problem.cycles)[computes].sum())
    return seconds * fabric.clock_hz * len(fabric.of_kind(COMPUTE)), laid_out


@pytest.mark.parametrize("seed", range(12))
def test_of_blocks(seed: int) -> None:
    block = random_block(FAMILIES[seed % 4], np.random.default_rng(seed), 60)
    work, laid_out = _work_and_laid_out(block.model)
    assert 0 < work <= laid_out * (1 + 1e-9)


@pytest.mark.parametrize(
    "name", ["residual-cnn", "dense-cnn", "unet-cnn", "stacked-rnn", "encoder-decoder-rnn", "bert"]
)
def test_of_networks(name: str) -> None:
    builder, options = SMALL[name]
    model, _ = import_model(builder(**options, shape_only=True).build(), name)
    work, laid_out = _work_and_laid_out(model)
    assert 0 < work <= laid_out * (1 + 1e-9)


def test_of_ops_whose_results_lie_where_their_operands_are() -> None:
    model, _ = import_model(ir.from_proto(onnx.parser.parse_model(IN_PLACE)), "moved")
    work, laid_out = _work_and_laid_out(model)
    assert work <= laid_out * (1 + 1e-9)
