"""Subgraphs on fabrics: whatever is laid out is legal, and what does not fit says what would."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    IO,
    MEMORY,
    OP_KINDS,
    Fabric,
    MappingProblem,
)
from mcm_compiler.contracts.fabrics.legality import faults_of_problem
from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.ir.reading.importer import import_model
from mcm_hardware.families.fabric.fabric_package import (
    chip_of,
    fabric_12,
    fabric_16,
    fabric_20,
    fabric_costs,
)
from mcm_hardware.families.fabric.layout.subgraph_layout import mapping_problem
from mcm_hardware.tensors.storage_widths import StorageWidths
from mcm_models.blocks.random_blocks import FAMILIES, ffn_block, mlp_block, random_block
from mcm_models.zoo.bert import Bert
from mcm_models.zoo.gpt2 import Gpt2
from tests.generators.small_fabric import small_fabric
from tests.generators.small_zoo import SMALL

WHOLE = UnitChoice()
WEIGHTS, BUFFER = OP_KINDS.index("weights"), OP_KINDS.index("buffer")


def _lowered(model: ir.Model, fabric: Fabric, choice: UnitChoice = WHOLE) -> MappingProblem:
    problem = mapping_problem(model, fabric, choice)
    assert faults_of_problem(problem, fabric) == []
    return problem


def _fault(model: ir.Model, fabric: Fabric, choice: UnitChoice = WHOLE) -> Diagnostic:
    with pytest.raises(CompileError) as caught:
        mapping_problem(model, fabric, choice)
    return caught.value.diagnostics[0]


def _parsed(body: str) -> ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : 20, "my.ops" : 1]> {body}'
    return ir.serde.deserialize_model(onnx.parser.parse_model(text))


@pytest.mark.parametrize("family", FAMILIES)
def test_random_blocks_are_legal_and_deterministic(family: str) -> None:
    rng = np.random.default_rng(7)
    fabric = fabric_12().fabric
    for _ in range(25):
        block = random_block(family, rng, 40)
        for seed in (None, 3):
            choice = UnitChoice(block.compute_units, seed)
            problem = _lowered(block.model, fabric, choice)
            assert np.sum(problem.kind == COMPUTE) <= block.compute_units
            again = mapping_problem(block.model, fabric, choice)
            for name, value in vars(problem).items():
                assert np.array_equal(value, getattr(again, name)), name


def test_seeds_draw_other_shares() -> None:
    model = ffn_block("f", 128, 128, 256)
    drawn = {
        tuple(np.bincount(_lowered(model, fabric_12().fabric, UnitChoice(24, seed)).stage))
        for seed in range(8)
    }
    assert len(drawn) > 4


@pytest.mark.parametrize("name", SMALL)
def test_the_zoo_is_legal_or_says_what_would_do(name: str) -> None:
    builder, options = SMALL[name]
    model, _ = import_model(builder(**options, shape_only=True).build(), name)
    for fabric in (fabric_12().fabric, fabric_20().fabric):
        try:
            _lowered(model, fabric)
        except CompileError as error:
            (fault,) = error.diagnostics
            assert fault.code in ("MCM-M001", "MCM-M002")
            hint = fault.hint or ""
            side = re.search(r"(\d+) x \1 switches", hint)
            assert side is not None, hint
            assert int(side[1]) > fabric.rows


def _one_layer(layer: Bert | Gpt2) -> ir.Model:
    return import_model(layer.build(), "layer")[0]


@pytest.mark.parametrize("seq", [128, 384])
def test_a_layer_of_bert_large_fits_with_its_weights(seq: int) -> None:
    model = _one_layer(
        Bert(layers=1, hidden=1024, heads=16, intermediate=4096, vocab=64, seq=seq, shape_only=True)
    )
    problem = _lowered(model, fabric_16().fabric)
    assert problem.memory_bytes[problem.op == WEIGHTS].sum() > 24 * 2**20
    assert np.sum(problem.kind == COMPUTE) > 100
    # Heads are folded in time: the scores have one stage, not sixteen.
    assert problem.num_stages < 20
    # The attention's part of the work is as the layer has it.
    macs = (problem.firings * problem.cycles)[problem.op == OP_KINDS.index("product")].sum() * 256
    assert macs == pytest.approx(seq * 12 * 1024**2, rel=0.1)


def test_a_layer_of_gpt2_xl_fits_with_its_weights() -> None:
    model = _one_layer(
        Gpt2(
            layers=1,
            hidden=1600,
            heads=25,
            intermediate=6400,
            vocab=64,
            seq=128,
            positions=128,
            shape_only=True,
        )
    )
    problem = _lowered(model, fabric_20().fabric)
    assert problem.memory_bytes[problem.op == WEIGHTS].sum() > 58 * 2**20


def test_weights_that_do_not_fit_are_streamed() -> None:
    small = replace(fabric_12().fabric, memory_bytes=1 << 16)
    model = mlp_block("m", 64, [512, 2048, 2048, 512])
    problem = _lowered(model, small)
    resident = problem.memory_bytes[problem.op == WEIGHTS].sum()
    assert resident < 12 * 2**20
    inputs = np.flatnonzero(problem.op == OP_KINDS.index("input"))
    streamed = problem.flits[np.isin(problem.source, inputs)].sum()
    assert streamed * 32 > 4 * 2**20 / 2


def test_work_is_that_of_the_ops() -> None:
    rows, widths = 96, [160, 224, 128]
    problem = _lowered(mlp_block("m", rows, widths), fabric_12().fabric, UnitChoice(20))
    work = (problem.firings * problem.cycles).sum()
    macs = rows * (160 * 224 + 224 * 128)
    lane_ops = rows * (2 * 224 + 128)
    assert 0 <= work / (macs / 256 + lane_ops / 32) - 1 < 0.15
    assert problem.num_stages == 3


def test_residual_values_are_held_for_as_many_samples_as_stages_lie_between() -> None:
    problem = _lowered(ffn_block("f", 96, 160, 224), fabric_12().fabric, UnitChoice(20))
    depth = {
        problem.stages[g]: set(
            problem.depth[(problem.stage == g) & (problem.op == BUFFER)].tolist()
        )
        for g in range(problem.num_stages)
    }
    assert depth["in"] == {3}
    assert all(found <= {2} for name, found in depth.items() if name != "in")


def test_a_stream_goes_to_all_units_that_share_what_it_carries() -> None:
    problem = _lowered(mlp_block("m", 16, [256, 256, 256]), fabric_12().fabric, UnitChoice(16))
    leaves = np.diff(problem.leaf_ptr)
    buffers = problem.op[problem.source] == BUFFER
    to_compute = problem.kind[problem.leaf[problem.leaf_ptr[:-1]]] == COMPUTE
    assert leaves[buffers & to_compute].min() > 1
    assert leaves[~buffers].max() == 1


def test_ops_that_nobody_knows_are_work_on_their_results() -> None:
    model = _parsed(
        """g (float[64,64] x) => (float[64,64] y)
        { a = my.ops.Strange(x)  b = my.ops.Other(a, x)  y = MatMul(b, a) }"""
    )
    for node in model.graph:
        for value in node.outputs:
            value.shape, value.type = ir.Shape([64, 64]), ir.TensorType(ir.DataType.FLOAT)
    problem = _lowered(model, fabric_12().fabric)
    assert OP_KINDS.index("elementwise") in problem.op
    assert OP_KINDS.index("attention") in problem.op


@pytest.mark.parametrize(
    "body",
    [
        "g (float[8,8] x) => (float[8,8] y) { y = Relu(x) }",
        "g (float[8,8] x) => (float[8,8] y) { y = Identity(x) }",
        "g (float[8,8] x) => (float[64] y) <int64[1] s = {64}> { y = Reshape(x, s) }",
        "g (float[0,8] x) => (float[0,8] y) { y = Relu(x) }",
        "g (float x) => (float y) { y = Exp(x) }",
        "g (float[256,256] x, float[256,256] z) => (float[256,512] y) { y = Concat<axis=1>(x, z) }",
        "g (float[8,8] x) => (float[8,8] y, float[8,8] z) { y = Relu(x) z = Exp(y) }",
        "g (float[8,8] x) => (float[8,8] y) { r = RandomNormal<shape=[8,8]>() y = Add(x, r) }",
        "g (float[4,4] x) => (float[9,4] y) <float[9,4] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
        "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> { y = MatMul(w, x) }",
        "g (float[100000] x) => (float y) { y = ReduceSum(x) }",
        "g (float[8,8] x) => (float[8,8] y) { a = Relu(x) b = Exp(x) c = Log(x) "
        "d = MatMul(a, b) e = MatMul(d, c) y = MatMul(e, a) }",
    ],
)
def test_odd_graphs(body: str) -> None:
    model, _ = import_model(_parsed(body), "odd")
    for fabric in (fabric_12().fabric, small_fabric(4, 4)):
        _lowered(model, fabric)


def test_control_flow_is_work_of_its_bodies() -> None:
    body = """g (float[64,64] x, bool c) => (float[64,64] y)
    { y = If (c) <then_branch = t () => (float[64,64] u) { u = MatMul(x, x) },
                  else_branch = e () => (float[64,64] v) { v = Relu(x) }> }"""
    model, _ = import_model(_parsed(body), "branches")
    problem = _lowered(model, fabric_12().fabric, UnitChoice(1))
    assert (problem.firings * problem.cycles).max() >= 64**3 / 256


def _work(problem: MappingProblem) -> int:
    """Cycles of all compute units together, per sample."""
    return int((problem.firings * problem.cycles).sum())


def test_of_two_branches_the_slower_one_counts() -> None:
    # The first has more products, the other takes longer: 300 exponentials of each element.
    steps = "".join(f"e{k + 1} = Exp(e{k}) " for k in range(300))
    for taken in ("then", "else"):
        other = "else" if taken == "then" else "then"
        body = f"""g (float[64,64] x, bool c) => (float[64,64] y)
        {{ y = If (c) <{other}_branch = t () => (float[64,64] u) {{ u = MatMul(x, x) }},
                       {taken}_branch = e () => (float[64,64] e300)
                       {{ e0 = Relu(x) {steps} }}> }}"""
        model, _ = import_model(_parsed(body), "branches")
        fabric = fabric_12().fabric
        costs = fabric_costs(chip_of(fabric, StorageWidths({}))).searched
        priced = sum(costs.node_cost(node).seconds for node in model.graph)
        cycles = priced * fabric.clock_hz * len(fabric.of_kind(COMPUTE))
        assert _work(_lowered(model, fabric)) >= cycles * (1 - 1e-9)


@pytest.mark.parametrize("trips", [1, 10**7])
def test_no_loop_is_too_long_to_be_counted(trips: int) -> None:
    body = f"""g (float[256,256] x) => (float[256,256] y) <int64 n = {{{trips}}}>
    {{ y = Loop (n, , x) <body = b (int64 i, bool k, float[256,256] s) => (bool m, float[256,256] r)
      {{ m = Identity(k) r = MatMul(s, s) }}> }}"""
    fabric = fabric_12().fabric
    assert _work(_lowered(_parsed(body), fabric)) >= trips * 256**3 / fabric.macs_per_cycle


def test_everything_ends_on_a_site() -> None:
    fabric = small_fabric(1, 4)
    problem = _lowered(mlp_block("m", 4, [8, 8]), fabric)
    assert np.bincount(problem.kind, minlength=3).tolist() <= [2, 2, 2]
    assert np.sum(problem.kind == IO) == 2


def test_too_many_stages() -> None:
    model = mlp_block("m", 8, [8] * 20)
    fault = _fault(model, fabric_12().fabric, UnitChoice(9))
    assert fault.code == "MCM-M001"
    assert "19 stages" in fault.message
    assert "9 compute units" in fault.message
    assert "3 chips" in (fault.hint or "")


def test_the_fabric_that_is_named_does() -> None:
    fabric = small_fabric(4, 4)
    model = mlp_block("m", 8, [8] * 20)
    hint = _fault(model, fabric).hint or ""
    side = int(re.findall(r"(\d+) x", hint)[0])
    _lowered(model, small_fabric(side, side))


def test_too_little_memory() -> None:
    fault = _fault(
        _parsed("g (float[4096,8192] x) => (float[4096,8192] y) { a = Relu(x) y = MatMul(a, x) }"),
        fabric_12().fabric,
    )
    assert fault.code == "MCM-M003"
    model, _ = import_model(
        _parsed("g (float[8192,8192] x) => (float[8192,8192] y) { y = MatMul(x, x) }"), "large"
    )
    fault = _fault(model, fabric_12().fabric)
    assert fault.code == "MCM-M002"
    assert "1024 memory units of 256 KiB" in fault.message
    assert "15 chips" in (fault.hint or "")


def test_values_of_unknown_size() -> None:
    many = " ".join(f"a{k} = Relu(x)" for k in range(30))
    outs = ", ".join(f"float[n] a{k}" for k in range(30))
    with pytest.raises(CompileError) as caught:
        mapping_problem(
            _parsed(f"g (float[n] x) => ({outs}) {{ {many} }}"), fabric_12().fabric, WHOLE
        )
    faults = caught.value.diagnostics
    assert {fault.code for fault in faults} == {"MCM-M003"}
    assert "'x'" in faults[0].message
    assert "11 more" in faults[-1].message


def test_nothing_to_lay_out() -> None:
    model = _parsed("g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }")
    assert _fault(model, fabric_12().fabric).code == "MCM-M004"


@pytest.mark.parametrize("units", [0, -1, 73])
def test_units_that_there_are_not(units: int) -> None:
    fault = _fault(mlp_block("m", 8, [8, 8]), fabric_12().fabric, UnitChoice(units))
    assert fault.code == "MCM-M005"
    assert "72" in (fault.hint or "")


def test_memory_units_hold_no_more_than_they_have() -> None:
    fabric = replace(fabric_12().fabric, memory_bytes=1 << 13)
    problem = _lowered(mlp_block("m", 64, [64, 64, 64]), fabric)
    held = problem.memory_bytes[problem.kind == MEMORY]
    assert held.max() <= 1 << 13
    assert held.sum() >= 2 * 64 * 64 * 2 + 2 * 2 * 64 * 64 * 2


def test_weights_that_several_stages_have_are_held_once() -> None:
    model = _parsed(
        """g (float[64,256] x) => (float[64,256] y) <int64[2] s = {256, 256}>
        { w = ConstantOfShape(s)  a = MatMul(x, w)  b = Relu(a)  c = MatMul(b, w)  d = Relu(c)
          y = MatMul(d, w) }"""
    )
    model, _ = import_model(model, "steps")
    problem = _lowered(model, fabric_12().fabric, UnitChoice(12))
    held = problem.memory_bytes[problem.op == WEIGHTS].sum()
    assert 0 <= held - 256 * 256 * 2 < 64
    weights = np.flatnonzero(problem.op == WEIGHTS)
    streams = np.isin(problem.source, weights)
    reached = problem.stage[problem.leaf[np.repeat(streams, np.diff(problem.leaf_ptr))]]
    assert len(set(reached.tolist())) == 3
    # Each stage reads all of them once per tile of rows, of which there is one.
    assert problem.flits[streams].sum() == pytest.approx(3 * 256 * 256 // 32, abs=50)
