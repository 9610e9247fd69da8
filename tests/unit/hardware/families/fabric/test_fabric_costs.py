"""The work that bounds a fabric is never more than what is laid out on it."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.cost import costs_in
from mcm_compiler.contracts.fabrics.fabric import COMPUTE
from mcm_compiler.contracts.fabrics.target import MapsChips, UnitChoice
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.ir.reading.importer import import_model
from mcm_models.blocks.random_blocks import FAMILIES, random_block
from tests.generators.small_zoo import SMALL
from tools.update_goldens import parse_filled

IN_PLACE = """<ir_version: 10, opset_import: ["" : 20]>
moved (float[64,64] x, int64[5] i) => (float[8,136,136] y)
<int64[4] p = {4,4,4,4}, int64[2] t = {1,2}, int64[3] s = {8,136,144}, int64[2] two = {0,3},
 int64[1] axis = {0}, int64[1] last = {2}, int64[1] zero = {0}, int64[1] end = {136}> {
 a = Concat<axis=1>(x, x) b = Transpose(a) c = Pad(b, p) d = Tile(c, t) e = Expand(d, s)
 f = Slice(e, zero, end, last) g = Gather<axis=0>(x, two) h = Gather<axis=0>(x, i)
 k = Dropout(f) l = Identity(k) m = Squeeze(zero, axis) n = Cast<to=1>(m) y = Add(l, n) }"""


def _work_and_laid_out(model: ir.Model) -> tuple[float, int]:
    """Cycles of all compute units: by the cost model, and as laid out."""
    target = load_target("fabric-20")
    assert isinstance(target, MapsChips)
    costs, fabric = costs_in(model.graph, target.cost_model()), target.fabric
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


IDLE = """<ir_version: 10, opset_import: ["" : 20]>
idle (float[64,64] x) => (float[64,64] y, float[64,64] z) <float[64,64] w> {
 y = MatMul(x, x) a = MatMul(x, w) b = Exp(a) c = MatMul(b, b)
 s = Shape(x) f = Cast<to=1>(s) n = ReduceSum<keepdims=0>(f) k = Mul(n, w) l = Exp(k) z = Add(x, l)
}"""


def test_ops_that_are_not_laid_out_take_no_time() -> None:
    model, _ = import_model(ir.from_proto(parse_filled(IDLE)), "idle")
    costs = costs_in(model.graph, load_target("fabric-20").cost_model())
    timed = [n.outputs[0].name for n in model.graph if costs.node_cost(n).seconds > 0]
    assert timed == ["y", "z"]
    work, laid_out = _work_and_laid_out(model)
    assert 0 < work <= laid_out * (1 + 1e-9)
    nodes = list(model.graph)
    of_group = costs.group_cost(nodes).seconds
    assert of_group == pytest.approx(sum(costs.node_cost(node).seconds for node in nodes))
    dead = costs.group_cost([node for node in nodes if node.outputs[0].name in ("a", "b", "c")])
    assert (dead.seconds, dead.bound_by) == (0.0, "none")
    assert dead.flops > 0


def test_costs_of_a_graph_are_those_of_its_ops_where_all_are_laid_out() -> None:
    model, _ = import_model(ir.from_proto(onnx.parser.parse_model(IN_PLACE)), "moved")
    own = load_target("fabric-20").cost_model()
    costs, last = costs_in(model.graph, own), model.graph[-1]
    assert costs.node_cost(last) == own.node_cost(last)
    pair = [model.graph[-4], last]
    assert costs.group_cost(pair) == own.group_cost(pair)
    relay = ir.Node("", "Cast", [ir.Value(name="v", shape=last.outputs[0].shape)])
    relay.outputs[0].shape = last.outputs[0].shape
    assert costs.node_cost(relay) == own.node_cost(relay)
    assert costs.node_cost(relay).seconds > 0


LOOP = """<ir_version: 10, opset_import: ["" : 20]>
long (float[{side},{side}] x) => (float[{side},{side}] y)
<int64 n = {{{trips}}}, float[{side},{side}] e, float[{side},{side}] l, float[{side},{side}] o>
{{ e = Exp(x) l = Loop (n, , e) <body = b (int64 i, bool k, float[{side},{side}] s) =>
   (bool m, float[{side},{side}] r) {{ m = Identity(k) r = {op} }}>
   o = Loop (n, , l) <body = b (int64 i, bool k, float[{side},{side}] s) =>
   (bool m, float[{side},{side}] r) {{ m = Identity(k) r = {op} }}> y = Neg(o) }}"""


@pytest.mark.parametrize("op", ["MatMul(s, s)", "Exp(s)"])
@pytest.mark.parametrize("trips", [2**20, 2**31 - 1, 2**45])
def test_no_loop_is_priced_above_what_counts(trips: int, op: str) -> None:
    # Not imported, as importing runs loops to learn of shapes.
    model = ir.from_proto(onnx.parser.parse_model(LOOP.format(side=256, trips=trips, op=op)))
    work, laid_out = _work_and_laid_out(model)
    assert 0 < work <= laid_out * (1 + 1e-9)
    costs = costs_in(model.graph, load_target("fabric-20").cost_model())
    small, first, second, last = [costs.node_cost(node).seconds for node in model.graph]
    assert 0 < last <= small < first == second
    assert costs.group_cost(list(model.graph)).seconds == pytest.approx(
        small + first + second + last
    )
