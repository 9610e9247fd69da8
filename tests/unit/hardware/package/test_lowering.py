from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from mcm_compiler.checking.memory_check import overlapping_buffers
from mcm_compiler.contracts.chips import GROUP_PROPERTY
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.text.json_text import record_of
from mcm_hardware.chip.chip_dataflow import order_kernels
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36


def chip_model(index: int, model: ir.Model) -> ChipModel:
    graph = model.graph
    return ChipModel(
        index, model, tuple(v.name for v in graph.inputs), tuple(v.name for v in graph.outputs)
    )


def grouped(model: ir.Model, **groups: str) -> ir.Model:
    """Puts the node that makes value `key` into group `groups[key]`."""
    for node in model.graph:
        name = groups.get(node.outputs[0].name)
        if name is not None:
            node.metadata_props[GROUP_PROPERTY] = name
    return model


def lower_one(model: ir.Model, target: RingTarget | None = None) -> LoweredProgram:
    graph = model.graph
    wires = [Wire(v.name, HOST, (0,)) for v in graph.inputs]
    wires += [Wire(v.name, 0, (HOST,)) for v in graph.outputs]
    return (target or mcm36()).lower([chip_model(0, model)], wires)


def buffers(program: LoweredProgram, kind: str) -> list[tuple[str, int, int, int]]:
    return [
        (b.name, b.size_bytes, b.first, b.last) for b in program.chips[0].buffers if b.kind == kind
    ]


def test_one_chip(model):
    program = lower_one(
        model(
            "g (float[16,32] x, float[32] w) => (float[16,32] y) {"
            " a = Relu(x) b = Add(a, w) c = Mul(a, b) y = Neg(c) }"
        )
    )
    (chip,) = program.chips
    assert [kernel.nodes for kernel in chip.kernels] == [
        ("Relu_0",), ("Add_1",), ("Mul_2",), ("Neg_3",)
    ]  # fmt: skip
    assert [(k.reads, k.writes) for k in chip.kernels] == [
        ((0,), ()), ((1,), ()), ((), ()), ((), (2,))
    ]  # fmt: skip
    assert [(t.tensor, t.source, t.destination, t.size_bytes) for t in program.transfers] == [
        ("x", HOST, 0, 1024), ("w", HOST, 0, 64), ("y", 0, HOST, 1024)
    ]  # fmt: skip
    assert buffers(program, "receive") == [
        ("x[0]", 1024, 0, 3), ("x[1]", 1024, 0, 3), ("w[0]", 64, 0, 3), ("w[1]", 64, 0, 3)
    ]  # fmt: skip
    assert buffers(program, "send") == [("y[0]", 1024, 0, 3), ("y[1]", 1024, 0, 3)]
    assert buffers(program, "activation") == [
        ("a", 1024, 0, 2), ("b", 1024, 1, 2), ("c", 1024, 2, 3)
    ]  # fmt: skip
    assert chip.high_water_bytes == 2 * 1024 + 2 * 64 + 2 * 1024 + 3 * 1024
    assert overlapping_buffers(chip.buffers) == []
    assert record_of(program.to_dict(), LoweredProgram) == program


def test_weights_are_held_once_and_constant_ops_do_not_run(model):
    program = lower_one(
        model(
            "g (float[1,4] x) => (float[1,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>"
            "{ t = Transpose(w) a = MatMul(x, t) b = MatMul(a, t) y = Add(b, a) }"
        )
    )
    (chip,) = program.chips
    assert [kernel.nodes[0] for kernel in chip.kernels] == ["MatMul_1", "MatMul_2", "Add_3"]
    assert buffers(program, "weight") == [("t", 64, 0, 2)]
    assert chip.weight_bytes == 64
    assert chip.buffers[0].address == 0


def test_views_share_memory(model):
    program = lower_one(
        model(
            "g (float[4,64] x) => (float[4,64] y) <int64[1] s = {256}> {"
            " a = Relu(x) v = Reshape(a, s) b = Exp(v) c = Flatten(a) d = Neg(b)"
            " y = Mul(c, c) }"
        )
    )
    kernels = program.chips[0].kernels
    # What reads `a` runs before `d` takes memory beside it.
    assert [k.nodes[0] for k in kernels] == [
        "Relu_0", "Reshape_1", "Flatten_3", "Mul_5", "Exp_2", "Neg_4"
    ]  # fmt: skip
    assert [k.duration_s == 0 for k in kernels] == [False, True, True, False, False, False]
    assert buffers(program, "activation") == [("a", 512, 0, 4), ("b", 512, 4, 5), ("d", 512, 5, 5)]
    assert buffers(program, "weight") == []


def test_a_received_tensor_is_read_through_its_view(model):
    program = lower_one(
        model("g (float[4,64] x) => (float[256] y) <int64[1] s = {256}>"
              "{ v = Reshape(x, s) y = Relu(v) }")
    )  # fmt: skip
    assert [(k.reads, k.writes) for k in program.chips[0].kernels] == [((), ()), ((0,), (1,))]


def test_a_view_of_an_input_that_leaves_is_copied(model):
    program = lower_one(
        model("g (float[4,64] x) => (float[256] y) <int64[1] s = {256}> { y = Reshape(x, s) }")
    )
    (kernel,) = program.chips[0].kernels
    assert (kernel.reads, kernel.writes) == ((0,), (1,))
    assert kernel.duration_s == pytest.approx(150e-9 + 2 * 512 / 256e9)
    assert [name for name, *_ in buffers(program, "send")] == ["y[0]", "y[1]"]


def test_a_view_of_a_computed_tensor_leaves_from_its_buffer(model):
    program = lower_one(
        model("g (float[4,64] x) => (float[256] y) <int64[1] s = {256}>"
              "{ a = Relu(x) y = Reshape(a, s) }")
    )  # fmt: skip
    assert [k.writes for k in program.chips[0].kernels] == [(1,), ()]
    assert [name for name, *_ in buffers(program, "send")] == ["a[0]", "a[1]"]


def test_a_group_is_one_kernel_and_holds_nothing_inside(model, roofline):
    source = grouped(
        model("g (float[64,64] x) => (float[64,64] y) { a = Relu(x) b = Neg(a) y = Exp(b) }"),
        a="ew", b="ew",
    )  # fmt: skip
    program = lower_one(source)
    (chip,) = program.chips
    assert [(k.name, k.nodes) for k in chip.kernels] == [
        ("ew", ("Relu_0", "Neg_1")), ("Exp_2", ("Exp_2",))
    ]  # fmt: skip
    assert buffers(program, "activation") == [("b", 8192, 0, 1)]
    assert chip.kernels[0].duration_s == roofline.group_cost(list(source.graph)[:2]).seconds


def test_groups_are_made_contiguous_where_that_is_legal(model):
    source = grouped(
        model("g (float[4] x) => (float[4] y)"
              "{ a = Relu(x) b = Exp(x) c = Neg(a) d = Abs(b) y = Add(c, d) }"),
        a="g1", c="g1", b="g2", d="g2",
    )  # fmt: skip
    kernels = order_kernels(list(source.graph))
    assert [[n.op_type for n in k.nodes] for k in kernels] == [
        ["Relu", "Neg"], ["Exp", "Abs"], ["Add"]
    ]  # fmt: skip


def test_a_group_that_depends_on_itself_is_split_into_runs(model):
    source = grouped(
        model("g (float[4] x) => (float[4] y)"
              "{ a = Relu(x) b = Neg(a) c = Exp(b) d = Abs(c) y = Add(d, a) }"),
        a="g", b="g", d="g", y="g",
    )  # fmt: skip
    kernels = order_kernels(list(source.graph))
    assert [[n.op_type for n in k.nodes] for k in kernels] == [
        ["Relu", "Neg"], ["Exp"], ["Abs", "Add"]
    ]  # fmt: skip


def test_captured_values_stay_alive(model):
    program = lower_one(
        model(
            "g (bool c, float[64] x) => (float[64] y) { a = Relu(x) b = Neg(x) d = Exp(b)"
            " y = If (c) <then_branch = t () => (float[64] p) { p = Add(a, d) },"
            " else_branch = e () => (float[64] q) { q = Identity(d) }> }"
        )
    )
    # Only the If reads `a`, inside a branch, so that it is made right before.
    assert [k.nodes[0] for k in program.chips[0].kernels] == ["Neg_1", "Exp_2", "Relu_0", "If_3"]
    assert buffers(program, "activation") == [("a", 128, 2, 3), ("b", 128, 0, 1), ("d", 128, 1, 3)]


def test_kernels_tell_what_sets_their_pace(model):
    program = lower_one(
        model(
            "g (float[256,256] x, float[256,256] w) => (float[256,256] y, float[65536] v)"
            " <int64[1] s = {65536}> { a = MatMul(x, w) b = Relu(a) y = Transpose(b)"
            " v = Reshape(x, s) }"
        )
    )
    engines = {k.nodes[0].partition("_")[0]: k.engine for k in program.chips[0].kernels}
    assert engines == {
        "MatMul": "array", "Relu": "vector", "Transpose": "memory", "Reshape": "memory"
    }  # fmt: skip
    assert [k.launch_s for k in program.chips[0].kernels] == pytest.approx([150e-9] * 4)


def test_a_view_launches_nothing(model):
    program = lower_one(
        model("g (float[4,64] x) => (float[256] y) <int64[1] s = {256}>"
              "{ v = Reshape(x, s) y = Relu(v) }")
    )  # fmt: skip
    view = program.chips[0].kernels[0]
    assert (view.engine, view.launch_s, view.duration_s) == ("none", 0.0, 0.0)


def test_each_chip_has_its_own_speed_and_memory(model):
    chips = list(mcm36().spec.chips)
    chips[1] = replace(chips[1], speed=0.5, sram_bytes=16384)
    mixed = RingTarget("mixed", replace(mcm36().spec, chips=tuple(chips)), "")
    first = model("g (float[64,64] x) => (float[64,64] a) { a = Relu(x) }")
    second = model("g (float[64,64] a) => (float[64,64] b) { b = Relu(a) }")
    program = mixed.lower(
        [chip_model(0, first), chip_model(1, second)],
        [Wire("x", HOST, (0,)), Wire("a", 0, (1,)), Wire("b", 1, (HOST,))],
    )
    fast, half = (chip.kernels[0] for chip in program.chips)
    assert (half.duration_s, half.launch_s) == (2 * fast.duration_s, 2 * fast.launch_s)
    (overflow,) = program.overflows
    assert (overflow.chip, overflow.limit_bytes, overflow.demand_bytes) == (1, 16384, 4 * 8192)


def test_several_destinations_share_the_hops(model):
    first = model("g (float[8] x) => (float[8] a) { a = Relu(x) }")
    second = model("g (float[8] a) => (float[8] b) { b = Neg(a) }")
    third = model("g (float[8] a, float[8] b) => (float[8] y) { y = Add(a, b) }")
    program = mcm36().lower(
        [chip_model(0, first), chip_model(1, second), chip_model(2, third)],
        [Wire("x", HOST, (0,)), Wire("a", 0, (1, 2)), Wire("b", 1, (2,)), Wire("y", 2, (HOST,))],
    )
    assert [(t.tensor, t.source, t.destination, t.after) for t in program.transfers] == [
        ("x", HOST, 0, -1),
        ("a", 0, 1, -1),
        ("a", 1, 2, 1),
        ("b", 1, 2, -1),
        ("y", 2, HOST, -1),
    ]
    assert [k.writes for c in program.chips for k in c.kernels] == [(1,), (3,), (4,)]
    result = mcm36().simulator().run(program)
    assert len(result.links) == 4


def test_an_input_that_is_an_output_is_passed_on(model):
    source = model("g (float[8] x) => (float[8] x, float[8] y) { y = Relu(x) }")
    program = lower_one(source)
    assert [(t.tensor, t.destination, t.after) for t in program.transfers] == [
        ("x", 0, -1), ("x", HOST, 0), ("y", HOST, -1)
    ]  # fmt: skip
    assert mcm36().simulator().run(program).latency_s > 0


def test_a_constant_output_is_made_by_its_kernel(model):
    source = model(
        "g (float[8] x) => (float[8] y, float[2] z) <float[2] w = {1, 2}>{ y = Relu(x) z = Neg(w) }"
    )
    program = lower_one(source)
    assert [k.writes for k in program.chips[0].kernels] == [(1,), (2,)]
    assert [name for name, *_ in buffers(program, "weight")] == ["w"]


def test_contradicting_wires_are_our_own_mistakes(model):
    source = model("g (float[8] x) => (float[8] y) { y = Relu(x) }")
    with pytest.raises(ValueError, match="over no wire"):
        mcm36().lower([chip_model(0, source)], [Wire("y", 0, (HOST,))])
    with pytest.raises(ValueError, match="no route leads wire 'x' from chip 1 to chip 0"):
        mcm36().lower([chip_model(0, source)], [Wire("x", 1, (0,))])
    with pytest.raises(ValueError, match="twice"):
        mcm36().lower([chip_model(0, source)], [Wire("x", HOST, (0,)), Wire("x", HOST, (0,))])
