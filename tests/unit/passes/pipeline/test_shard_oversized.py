"""`shard_oversized` splits what does not fit a chip, bit for bit, without reading the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.artifact.chain import put_together
from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.contracts.cost import NODE_COST, NodeCost
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionGroup, FusionPlan
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS, SHARDING_PLAN, ShardingPlan
from mcm_compiler.contracts.target import HOST, PackageLimits, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_passes.parallelism.oversized.model_division import plan_without
from mcm_passes.parallelism.oversized.output_pieces import piece_bounds
from mcm_passes.parallelism.oversized.weight_slices import Slice, slice_tensor
from mcm_passes.pipeline.parallelize import Parallelize
from mcm_passes.pipeline.preparing import AnnotateCost, Fuse
from mcm_passes.pipeline.shard_oversized import ShardOversized
from tests.generators.one_chip import model_text
from tools.update_goldens import parse_filled

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


@dataclass(frozen=True)
class ByteModel:
    """Stores every tensor at its ONNX width."""

    name: str = "bytes"

    def storage_bytes(self, value: ir.Value) -> int:
        return math.prod(value.shape.numpy()) * value.dtype.itemsize

    def node_cost(self, node: ir.Node) -> NodeCost:
        return NodeCost(0.0, 0, 0, 0, 1.0, "memory")

    def group_cost(self, nodes: list[ir.Node]) -> NodeCost:
        """As much for tiles together as for the whole."""
        made = sum(self.storage_bytes(value) for node in nodes for value in node.outputs)
        return NodeCost(0.0, 0, 0, 0, made * 1e-9, "memory")


def context(sram_bytes: int, num_chips: int = 8) -> tuple[PassContext, list[Diagnostic]]:
    limits = PackageLimits(num_chips, (sram_bytes,) * num_chips, 1e9, 1e-6, "any", 1e9)
    target = SimpleNamespace(name="tiny", limits=limits, cost_model=ByteModel)
    reports: list[Diagnostic] = []
    return PassContext(target, None, None, reports.append), reports  # pyright: ignore


def imported(source: str | ir.Model) -> ir.Model:
    given = ir.from_proto(parse_filled(HEAD + source)) if isinstance(source, str) else source
    return import_model(given, "test")[0]


def randomised(model: ir.Model) -> ir.Model:
    """Eighths add up exactly in any order, so equality needs weights that do not."""
    rng = np.random.default_rng(1)
    for value in model.graph.initializers.values():
        if value.dtype is ir.DataType.FLOAT:
            array = rng.standard_normal(value.shape.numpy()).astype(np.float32)
            value.const_value = ir.Tensor(array, name=value.name)
    return model


def same_outputs(before: ir.Model, after: ir.Model) -> None:
    """Checks that two models give equal bits; the outputs of one may leave in pieces."""
    expected, actual = outputs_of(before), outputs_of(after)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        assert same_bits(array, actual[name]), name


def outputs_of(model: ir.Model) -> dict[str, np.ndarray]:
    """The outputs on seeded inputs, pieces put together."""
    rng = np.random.default_rng(2)
    feeds = {
        value.name: rng.standard_normal(value.shape.numpy()).astype(np.float32)
        if value.dtype is ir.DataType.FLOAT
        else rng.integers(0, 300, value.shape.numpy())
        for value in model.graph.inputs
    }
    found = run_model(ir.to_proto(model), feeds)
    parts = OUTPUT_PARTS.find(model) or {}
    put_together(found, [Wire(name, 0, (HOST,), part) for name, part in parts.items()])
    return {name: array for name, array in found.items() if name not in parts}


def sharded(text: str, sram_bytes: int, num_chips: int = 8) -> ir.Model:
    """The model after the pass; checks its outputs against those before."""
    before, after = randomised(imported(text)), randomised(imported(text))
    ShardOversized().run(after, context(sram_bytes, num_chips)[0])
    assert check_invariants(after) == []
    same_outputs(before, after)
    return after


def pieces(model: ir.Model) -> int:
    (operator,) = SHARDING_PLAN.get(model).operators
    # A piece may be divided once more, along rows.
    names = {(node.name or "").partition("/tile_")[0] for node in model.graph}
    assert set(operator.pieces) <= names
    assert operator.node not in names
    return len(operator.pieces)


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("MatMul (x, w)", "300,1111"),
        ("Gemm (x, w, b)", "300,1111"),
        ("Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, w, b)", "1111,300"),
        ("Gemm <transB = 1> (x, w)", "1111,300"),
    ],
)
def test_products_split_by_columns(rows: int, op: str, shape: str) -> None:
    text = f"""m (float[{rows},300] x) => (float[{rows},1111] y)
        <float[{shape}] w, float[1111] b> {{ y = {op} }}"""
    assert pieces(sharded(text, 700_000)) == 3


@pytest.mark.parametrize("rows", [1, 3])
def test_packed_products_split_with_scales_and_zero_points(rows: int) -> None:
    text = f"""m (float[{rows},256] x, float[{rows},64] v) =>
        (float[{rows},1024] y, float[{rows},1024] u) {{
        y = com.microsoft.MatMulNBits <K: int = 256, N: int = 1024, bits: int = 4,
            block_size: int = 32> (x, q, s, z, , b)
        d = DequantizeLinear <axis = 1, block_size = 32> (p, t) e = Transpose (d)
        u = MatMul (v, e) }}"""
    rng = np.random.default_rng(0)
    floats, bytes_ = {"s": 8192, "b": 1024, "t": (1024, 2)}, {"q": (1024, 8, 16), "z": (1024, 4)}
    weights = {name: rng.standard_normal(shape, np.float32) for name, shape in floats.items()}
    weights |= {name: rng.integers(0, 256, shape, np.uint8) for name, shape in bytes_.items()}
    proto = model_text(text, weights | {"p": rng.integers(0, 256, (1024, 64), np.uint8)})
    before, after = (imported(ir.from_proto(proto)) for _ in "ab")
    ShardOversized().run(after, context(1 << 17)[0])
    assert check_invariants(after) == []
    same_outputs(before, after)
    products = [node for node in after.graph if node.op_type in ("MatMul", "MatMulNBits")]
    assert {node.op_type for node in products} == {"MatMul", "MatMulNBits"}
    for node in products:
        columns = node.outputs[0].shape.numpy()[-1]
        assert columns < 1024
        assert node.attributes.get_int("N", columns) == columns


@pytest.mark.parametrize("zero_points", [False, True])
def test_packed_tables_split_between_blocks(zero_points: bool) -> None:
    z = ", z" if zero_points else ""
    text = f"""m (int64[3] i) => (float[3,256] y, float[3,256] u) {{
        y = com.microsoft.GatherBlockQuantized <bits: int = 4, block_size: int = 32> (q, i, s{z})
        d = DequantizeLinear <axis = -1, block_size = 32> (p, t) u = Gather (d, i) }}"""
    rng = np.random.default_rng(0)
    bytes_ = {"q": (900, 128), "p": (900, 256)} | ({"z": (900, 4)} if zero_points else {})
    weights = {name: rng.integers(0, 256, shape, np.uint8) for name, shape in bytes_.items()}
    weights |= {name: rng.standard_normal((900, 8), np.float32) for name in "st"}
    proto = model_text(text, weights)
    before, after = (imported(ir.from_proto(proto)) for _ in "ab")
    ShardOversized().run(after, context(1 << 17, 64)[0])
    assert check_invariants(after) == []
    same_outputs(before, after)
    tables = [node for node in after.graph if node.op_type.startswith("Gather")]
    assert {node.op_type for node in tables} == {"Gather", "GatherBlockQuantized"}
    assert all(node.outputs[0].shape.numpy()[-1] < 256 for node in tables)


@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(1, 2509, 4096), (2, 768, 5025), (128, 768, 3000)]
)
def test_heads_and_first_layers_of_real_models_in_small(
    rows: int, inner: int, columns: int
) -> None:
    # VGG-19's first linear layer and GPT-2's head, at a tenth of the long side.
    sram = inner * columns * 4 * 2 // 3
    for weight, op in (
        (f"{columns},{inner}", "Gemm <transB = 1>"),
        (f"{inner},{columns}", "MatMul"),
    ):
        text = f"""m (float[{rows},{inner}] x) => (float[{rows},{columns}] y)
            <float[{weight}] w> {{ y = {op} (x, w) }}"""
        assert pieces(sharded(text, sram)) >= 2


def test_a_product_of_three_axes_and_a_bias_that_is_not_cut() -> None:
    text = """m (float[2,5,300] x) => (float[2,5,1111] y, float[5,1111] z)
        <float[300,1111] w, float[5,1] b> {
        y = MatMul (x, w)  i = Constant <value = int64 {0}> ()
        r = Gather <axis = 0> (x, i)  z = Gemm (r, w, b) }"""
    after = sharded(text, 700_000)
    assert len(SHARDING_PLAN.get(after).operators) == 2
    # Both read the same slices.
    assert sum(name.startswith("w/") for name in after.graph.initializers) == 3
    assert "w" not in after.graph.initializers


def test_a_tied_table_is_cut_by_columns_for_gather_and_by_rows_for_the_head() -> None:
    text = """m (int64[2,3] ids) => (float[2,3,1000] y) <float[1000,256] table> {
        e = Gather (table, ids)  t = Transpose <perm = [1,0]> (table)  y = MatMul (e, t) }"""
    after = sharded(text, 600_000)
    gather, head = SHARDING_PLAN.get(after).operators
    assert (gather.axis, head.axis) == (1, 1)
    ops = [node.op_type for node in after.graph]
    assert ops.count("Transpose") == len(head.pieces)
    shapes = [
        v.shape.numpy() for name, v in after.graph.initializers.items() if name.startswith("table/")
    ]
    assert (1000, 128) in shapes
    assert any(shape[1] == 256 for shape in shapes)
    assert "table" not in after.graph.initializers


def test_convolution_splits_by_output_channels() -> None:
    text = """m (float[1,64,7,7] x) => (float[1,1000,7,7] y) <float[1000,64,3,3] w, float[1000] b> {
        y = Conv <pads = [1,1,1,1]> (x, w, b) }"""
    after = sharded(text, 1_700_000)
    assert pieces(after) == 3
    assert SHARDING_PLAN.get(after).operators[0].axis == 0


def test_shape_only_weights_become_smaller_fills() -> None:
    text = """m (float[2,300] x) => (float[2,1111] y) {
        e = Constant <value = int64[2] {300, 1111}> ()
        w = ConstantOfShape <value = float[1] {0.5}> (e)  y = MatMul (x, w) }"""
    after = sharded(text, 700_000)
    assert pieces(after) == 3
    fills = [node for node in after.graph if node.op_type == "ConstantOfShape"]
    assert [n.outputs[0].shape.numpy() for n in fills] == [(300, 384), (300, 384), (300, 343)]


def test_names_origins_and_costs_of_the_pieces() -> None:
    text = (
        "m (float[2,300] x) => (float[2,1111] y) <float[300,1111] w> { [head] y = MatMul (x, w) }"
    )
    model = imported(text)
    scope, reports = context(700_000)
    AnnotateCost().run(model, scope)
    ShardOversized().run(model, scope)
    names = [node.name for node in model.graph]
    assert names == ["head/shard_0", "head/shard_1", "head/shard_2", "head/concat"]
    assert {node.metadata_props[ORIGIN_PROPERTY] for node in model.graph} == {"head"}
    assert all(NODE_COST.find(node) is not None for node in model.graph)
    assert model.graph.outputs[0].producer().name == "head/concat"
    assert [r.code for r in reports] == ["MCM-P011"]
    assert "split into 3 pieces along axis 1 of 'w'" in reports[0].message


def test_names_that_the_model_uses_already_are_avoided() -> None:
    text = """m (float[2,300] x) => (float[2,1111] y) <float[300,1111] w> {
        ["head/shard_0"] a = Abs (x)  [head] y = MatMul (a, w) }"""
    model = imported(text)
    ShardOversized().run(model, context(700_000)[0])
    assert check_invariants(model) == []
    assert "head/shard_0_2" in {node.name for node in model.graph}


def test_nothing_is_split_where_everything_fits() -> None:
    model = imported(
        "m (float[2,300] x) => (float[2,1111] y) <float[300,1111] w> { y = MatMul (x, w) }"
    )
    scope, reports = context(2_000_000)
    ShardOversized().run(model, scope)
    assert SHARDING_PLAN.get(model) == ShardingPlan(())
    assert [node.op_type for node in model.graph] == ["MatMul"]
    assert reports == []


def test_weights_are_not_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    array = rng.standard_normal((1111, 300)).astype(np.float32)
    (tmp_path / "w.data").write_bytes(b"\0" * 64 + array.tobytes())
    model = imported(
        "m (float[2,300] x) => (float[2,1111] y) <float[1111,300] w> { y = Gemm <transB=1> (x, w) }"
    )
    external = ir.ExternalTensor(
        "w.data", 64, array.nbytes, ir.DataType.FLOAT, shape=ir.Shape(array.shape), name="w",
        base_dir=tmp_path,
    )  # fmt: skip
    model.graph.initializers["w"].const_value = external
    ShardOversized().run(model, context(700_000)[0])
    assert external.raw is None
    parts = [value.const_value for value in model.graph.initializers.values()]
    assert all(isinstance(part, ir.ExternalTensor) for part in parts)
    assert np.array_equal(np.concatenate([part.numpy() for part in parts]), array)


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_of_lazy_and_external_tensors(tmp_path: Path, axis: int) -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)
    (tmp_path / "w.data").write_bytes(array.tobytes())
    external = ir.ExternalTensor(
        "w.data", None, None, ir.DataType.INT16, shape=ir.Shape([4, 6]), name="w",
        base_dir=tmp_path,
    )  # fmt: skip
    reads: list[int] = []

    def read() -> ir.Tensor:
        reads.append(1)
        return ir.Tensor(array)

    lazy = ir.LazyTensor(read, ir.DataType.INT16, ir.Shape([4, 6]), name="w")
    for tensor in (external, lazy, ir.Tensor(array)):
        part = slice_tensor(tensor, Slice(axis, 1, 3), "part")
        assert not reads or tensor is not lazy
        expected = array[1:3] if axis == 0 else array[:, 1:3]
        assert part.shape == expected.shape
        assert part.nbytes == expected.nbytes
        assert np.array_equal(part.numpy(), expected)
        assert part.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("extent", "count", "expected"),
    [
        (256, 2, [128, 128]),
        (1000, 3, [384, 320, 296]),
        (10, 3, [4, 3, 3]),
        (50257, 4, [12608, 12608, 12544, 12497]),
    ],
)
def test_piece_bounds(extent: int, count: int, expected: list[int]) -> None:
    bounds = piece_bounds(extent, count)
    assert [stop - start for start, stop in bounds] == expected
    assert bounds[0][0] == 0
    assert bounds[-1][1] == extent
    assert all(a[1] == b[0] for a, b in pairwise(bounds))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("m (float[300,300] x) => (float[300,300] y) <float[300,300] w> { y = Add (x, w) }", "Add"),
        # Pieces under 192 columns would sum in another order.
        (
            "m (float[2,900] x) => (float[2,100] y) <float[900,100] w> { y = MatMul (x, w) }",
            "MatMul",
        ),
        (
            "m (float[1,100,3,3] x) => (float[1,100,1,1] y) <float[100,50,3,3] w>"
            " { y = Conv <group = 2> (x, w) }",
            "Conv",
        ),
        (
            "m (float[2,300] x, float[1111] b) => (float[2,1111] y) <float[300,1111] w>"
            " { y = Gemm (x, w, b) }",
            "Gemm",
        ),
    ],
)
def test_mcm_p003_an_operator_that_fits_no_chip(text: str, at: str) -> None:
    with pytest.raises(CompileError) as raised:
        ShardOversized().run(imported(text), context(150_000, num_chips=64)[0])
    (fault,) = raised.value.diagnostics
    assert fault.code == "MCM-P003"
    assert fault.code in catalog()
    assert fault.severity is Severity.ERROR
    assert "iB of weights, a chip of 'tiny' has 146.5 KiB" in fault.message
    assert f"'{at}'" in (fault.at or "")
    assert fault.hint


@pytest.mark.parametrize("sram_mib", [float("inf"), float("nan"), -1.0, 2.0**21])
def test_sizes_of_chips_that_cannot_be_are_refused(sram_mib: float) -> None:
    for made in (ShardOversized, Parallelize):
        with pytest.raises(ValueError, match="sram_mib"):
            made(sram_mib=sram_mib)


def test_notes_and_faults_name_the_chips_that_ops_are_divided_for() -> None:
    given, notes = context(2**20, num_chips=64)
    text = "m (float[2,300] x) => (float[2,1000] y) <float[300,1000] w> { y = MatMul (x, w) }"
    ShardOversized(sram_mib=0.5).run(imported(text), given)
    assert "do not fit a chip of 512.0 KiB" in notes[0].message
    text = "m (float[400,400] x) => (float[400,400] y) <float[400,400] w> { y = Add (x, w) }"
    with pytest.raises(CompileError) as raised:
        ShardOversized(sram_mib=0.5).run(imported(text), given)
    (fault,) = raised.value.diagnostics
    assert "a chip of 'tiny' has 512.0 KiB by `sram_mib`" in fault.message


def test_mcm_p004_weights_beyond_the_package_come_with_all_other_faults() -> None:
    text = "m (float[300,300] x) => (float[300,300] y) <float[300,300] w> { y = Add (x, w) }"
    with pytest.raises(CompileError) as raised:
        ShardOversized().run(imported(text), context(150_000, num_chips=2)[0])
    assert [d.code for d in raised.value.diagnostics] == ["MCM-P003", "MCM-P004"]
    assert "the 2 chips of 'tiny' have 293.0 KiB" in raised.value.diagnostics[1].message
    assert "MCM-P004" in catalog()


def test_mcm_p011_is_in_the_catalogue() -> None:
    assert "MCM-P011" in catalog()


def test_an_operator_that_just_fits_alone_is_left_to_the_memory_plan() -> None:
    model = imported(
        "m (float[300,300] x) => (float[300,300] y) <float[300,300] w> { y = Add (x, w) }"
    )
    ShardOversized().run(model, context(360_000)[0])
    assert SHARDING_PLAN.get(model).operators == ()


def test_weights_that_nearly_fill_the_package_are_cut_so_that_they_fit() -> None:
    chain = [f"v{i + 1} = MatMul (v{i}, w{i})" for i in range(12)]
    weights = ", ".join(f"float[512,512] w{i}" for i in range(12))
    text = f"m (float[1,512] v0) => (float[1,512] v12) <{weights}> {{ {' '.join(chain)} }}"
    # A chip holds one of 1 MiB with room to spare, and 8 chips hold 12 of them in pieces alone.
    sram, model = 1_800_000, imported(text)
    done, reports = context(sram)
    assert ShardOversized().run(model, done)
    held, chip, one = 0, 1, ByteModel()
    for node in model.graph:
        size = sum(one.storage_bytes(v) for v in node.inputs if v and v.is_initializer())
        chip, held = (chip + 1, size) if held + size > sram else (chip, held + size)
    assert chip <= 8
    assert len(SHARDING_PLAN.get(model).operators) == 12
    assert "in a package that is filled to 87.4 % by weights" in reports[0].message
    roomy = imported(text)
    assert not ShardOversized().run(roomy, context(sram, 10)[0])  # 70 %


def test_the_operator_leaves_its_fusion_group() -> None:
    text = """m (float[2,300] x) => (float[2,1111] y) <float[300,1111] w, float[1111] b> {
        [mm] p = MatMul (x, w)  [bias] a = Add (p, b)  [act] y = Relu (a) }"""
    model = imported(text)
    scope, _ = context(700_000)
    Fuse().run(model, scope)
    assert FUSION_PLAN.get(model).groups[0].nodes == ("mm", "bias", "act")
    ShardOversized().run(model, scope)
    assert FUSION_PLAN.get(model).groups == (
        FusionGroup("act", "matmul_bias_activation", ("bias", "act")),
    )


@pytest.mark.parametrize(("gone", "left"), [("a", 2), ("b", 0), ("c", 0)])
def test_a_group_that_would_fall_apart_is_given_up(gone: str, left: int) -> None:
    model = imported(
        "m (float[2] x) => (float[2] y) { [a] p = Sin (x) [b] q = Cos (p) [c] y = Neg (q) }"
    )
    plan = FusionPlan((FusionGroup("c", "elementwise", ("a", "b", "c")),))
    nodes = [node for node in model.graph if node.name == gone]
    assert sum(len(group.nodes) for group in plan_without(plan, nodes).groups) == left


def test_a_second_run_keeps_the_record() -> None:
    model = imported(
        "m (float[2,300] x) => (float[2,1111] y) <float[300,1111] w> { y = MatMul (x, w) }"
    )
    scope, _ = context(700_000)
    ShardOversized().run(model, scope)
    first = SHARDING_PLAN.get(model)
    ShardOversized().run(model, scope)
    assert SHARDING_PLAN.get(model) == first
    assert len(first.operators) == 1


def test_options() -> None:
    (step,) = parse_pipeline("shard_oversized{fraction=0.5}")
    assert step == ShardOversized(fraction=0.5)
    for bad in ("0.005", "1.5", "nan"):
        with pytest.raises(CompileError, match="MCM-U002"):
            parse_pipeline(f"shard_oversized{{fraction={bad}}}")


def test_pieces_leave_room_for_the_relays_of_those_before() -> None:
    text = """m (float[128,1000] x) => (float[128,4000] y) <float[1000,4000] w> {
        y = MatMul (x, w) }"""
    inputs, weights, outputs = 128 * 1000 * 4, 1000 * 4000 * 4, 128 * 4000 * 4
    sram = 6 * outputs
    count = pieces(sharded(text, sram, num_chips=16))
    # Two slots on arrival and two on departure of what is handed on; the piece's own output leaves.
    relayed = inputs + (1 - 1 / count) * outputs
    assert weights / count + 4 * relayed + 2 * outputs / count <= sram
    assert count > weights // sram + 1


@pytest.mark.parametrize(
    ("stated", "chips", "mib", "wanted"),
    [
        ("parallelize{chips=4,sram_mib=2}", 8, 8, "parallelize{sram_mib=2,chips=4}"),
        ("parallelize{chips=4,sram_mib=2}", 2, 1, "parallelize{sram_mib=1,chips=2}"),
        ("parallelize{chips=4}", 0, 8, "parallelize{sram_mib=8,chips=4}"),
        ("shard_oversized{sram_mib=2}", 2, 8, "shard_oversized{sram_mib=2}"),
    ],
)
def test_stated_limits_are_not_raised_for_other_chips(
    stated: str, chips: int, mib: int, wanted: str
) -> None:
    (one,) = parse_pipeline(stated)
    assert (one.for_chips_of(chips, mib << 20),) == parse_pipeline(wanted)
