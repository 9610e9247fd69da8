"""Placed, legalised and split models, chained in onnxruntime, against the original."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.chips import CHIP_PROPERTY, GROUP_PROPERTY
from mcm_compiler.contracts.cost import NODE_COST, NodeCost
from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.contracts.partition import CHIP, LowerBound, Partition
from mcm_compiler.contracts.target import HOST, PackageLimits
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.rewriting.splitter import split
from mcm_compiler.placements.ring_rules import find_violations
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.partition_problem import CloningLimits, build_problem
from mcm_passes.mapping.solving.legalization import legalize
from tests.oracles.ring_channels import ring_channels


class UnitCost:
    """Every op takes a microsecond, and every value its own bytes."""

    name = "unit"

    def node_cost(self, node):
        return NodeCost(0.0, 0, 0, 0, 1e-6, "none")

    def group_cost(self, nodes):
        return NodeCost(0.0, 0, 0, 0, 1e-6 * len(nodes), "none")

    def storage_bytes(self, value):
        if value.dtype is None or value.shape is None:
            return 0
        return int(np.prod(value.shape.numpy(), dtype=np.int64)) * 4


@dataclass
class FakeTarget:
    num_chips: int = 4
    host_io: str = "any"
    name: str = "fake"
    limits: PackageLimits = field(init=False)

    def __post_init__(self):
        self.limits = PackageLimits(
            self.num_chips, (1 << 20,) * self.num_chips, 1e9, 1e-6, self.host_io, 1e9
        )

    def cost_model(self):
        return UnitCost()


DIAMOND = """
    g (float[2,3] x) => (float[2,3] y)
    <float[2,3] a, float[2,3] b, float[2,3] c, float[3] w = {1.5, -2.0, 0.25}> {
        a = Add(x, w)
        b = Relu(a)
        c = Neg(a)
        y = Mul(b, c)
    }"""
LONG_SKIP = """
    g (float[2,3] x) => (float[2,3] y, float[2,3] a)
    <float[2,3] a, float[2,3] b, float[2,3] c, float[2,3] d> {
        a = Relu(x)
        b = Neg(a)
        c = Exp(b)
        d = Sqrt(c)
        y = Add(d, a)
    }"""
SHARED_MASK = """
    g (float[2,3] x, int64[2,3] mask) => (float[2,3] y)
    <float[2,3] f, float[2,3] m, float[2,3] a, float[2,3] b, float[2,3] c, float[2,3] d,
     float[2,3] e, float one = {1.0}> {
        f = Cast<to = 1>(mask)
        m = Sub(one, f)
        a = Mul(x, m)
        b = Relu(a)
        c = Mul(b, m)
        d = Exp(c)
        e = Mul(d, m)
        y = Add(e, f)
    }"""
TIED_WEIGHTS = """
    g (float[3,3] x) => (float[3,3] y)
    <float[3,3] a, float[3,3] b, float[3,3] c, float[3,3] t,
     float[3,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.5}> {
        a = MatMul(x, w)
        t = Transpose(w)
        b = MatMul(a, t)
        c = MatMul(b, w)
        y = MatMul(c, t)
    }"""
CAPTURING_IF = """
    g (float[2,3] x, bool k) => (float[2,3] y)
    <float[2,3] a, float[2,3] b, float[2,3] c, float[3] w = {1.0, 2.0, 3.0}> {
        a = Relu(x)
        b = Neg(x)
        c = If (k) <
            then_branch = t () => (float[2,3] p) { p = Add(a, w) },
            else_branch = e () => (float[2,3] q) <float[2,3] a2> { a2 = Exp(a) q = Mul(a2, b) }
        >
        y = Add(c, a)
    }"""
STORED_OUTPUTS = """
    g (float[2,3] x) => (float[2,3] y, float[3] w, float[2,3] x, float[3] s)
    <float[2,3] a, float[3] s, float[3] w = {1.0, 2.0, 3.0}> {
        s = Neg(w)
        a = Add(x, w)
        y = Mul(a, s)
    }"""
OPTIONAL_INPUT = """
    g (float[2,3] x) => (float[2,3] y)
    <float[2,3] a, float high = {0.5}> {
        a = Clip(x, , high)
        y = Neg(a)
    }"""
SEVERAL_OUTPUTS = """
    g (float[2,4] x) => (float[2,2] y)
    <float[2,2] a, float[2,2] b, float[2,2] c> {
        a, b = Split<axis = 1, num_outputs = 2>(x)
        c = Relu(b)
        y = Sub(c, a)
    }"""
MODELS = {
    "diamond": DIAMOND,
    "long skip": LONG_SKIP,
    "shared mask": SHARED_MASK,
    "tied weights": TIED_WEIGHTS,
    "capturing if": CAPTURING_IF,
    "stored outputs": STORED_OUTPUTS,
    "optional input": OPTIONAL_INPUT,
    "several outputs": SEVERAL_OUTPUTS,
}
GENEROUS = CloningLimits(work_share=10.0, sram_share=1.0)
NO_CLONES = CloningLimits(work_share=0.0)


def parse(text):
    return onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 18]>' + text)


def load(proto):
    model = ir.from_proto(copy.deepcopy(proto))
    for i, node in enumerate(model.graph):
        node.name = f"{node.op_type}_{i}"
        NODE_COST.set(node, UnitCost().node_cost(node))
    return model


def feeds_of(proto, seed=0):
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in proto.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = np.asarray(rng.random(shape) * 2 - 0.5).astype(kind)
    return feeds


def run_chain(chips, wires, feeds):
    """Runs the chips one after the other; a chip sees only what a wire brings it."""
    sent = {(HOST, name): value for name, value in feeds.items()}
    for chip in chips:
        brought = {w.tensor: sent[w.source, w.tensor] for w in wires if chip.chip in w.destinations}
        assert set(chip.inputs) == set(brought)
        outputs = run_model(ir.to_proto(chip.model), brought)
        assert list(outputs) == list(chip.outputs)
        sent.update({(chip.chip, name): value for name, value in outputs.items()})
    return {w.tensor: sent[w.source, w.tensor] for w in wires if w.destinations == (HOST,)}


def partition_of(problem, chip_of):
    result = evaluate(problem, np.array(chip_of, dtype=np.int32))
    assert result.valid, result.violations
    return Partition(result.chip_of, result.period_s, LowerBound(1e-9, ""), "hand")


def spread(problem, num_chips):
    """Units over all chips, in order."""
    return np.minimum(np.arange(problem.num_units) * num_chips // problem.num_units, num_chips - 1)


def compile_by_hand(proto, target, routing, cloning, plan=None, chip_of=None):
    plan = plan or FusionPlan(())
    model = load(proto)
    problem = build_problem(model, target, routing, plan, cloning=cloning)
    if chip_of is None:
        chip_of = spread(problem, target.num_chips)
        used = np.unique(chip_of[~problem.clonable])
        chip_of = np.searchsorted(used, chip_of).clip(0, len(used) - 1)
    partition = partition_of(problem, chip_of)
    added = legalize(model, problem, partition, plan)
    assert check_invariants(model) == []
    return model, problem, partition, added


@pytest.mark.parametrize("host_io", ["any", "ends"])
@pytest.mark.parametrize("cloning", [GENEROUS, NO_CLONES], ids=["clones", "no clones"])
@pytest.mark.parametrize("num_chips", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_chain_equals_the_original_to_the_bit(name, num_chips, cloning, host_io):
    proto = parse(MODELS[name])
    target = FakeTarget(num_chips, host_io)
    model, _, partition, _ = compile_by_hand(proto, target, "relay", cloning)
    before = ir.to_proto(model)
    chips, wires = split(model, CHIP)
    assert ir.to_proto(model) == before
    assert [c.chip for c in chips] == list(range(partition.num_chips_used))
    for chip in chips:
        onnx.checker.check_model(ir.to_proto(chip.model))

    feeds = feeds_of(proto)
    expected = run_model(proto, feeds)
    found = run_chain(chips, wires, feeds)
    assert found.keys() == expected.keys()
    assert all(same_bits(found[key], expected[key]) for key in expected)

    hops = [(w.source, d) for w in wires for d in w.destinations if HOST not in (w.source, d)]
    assert all(b == a + 1 for a, b in hops)
    ends = np.array(hops, dtype=np.int32).reshape(-1, 2)
    everyone = np.arange(len(chips), dtype=np.int32)
    assert not find_violations(
        everyone, ends[:, 0], ends[:, 1], num_chips=num_chips, routing="strict"
    )


@pytest.mark.parametrize("cloning", [GENEROUS, NO_CLONES], ids=["clones", "no clones"])
@pytest.mark.parametrize("name", MODELS)
def test_the_fast_model_charges_for_what_legalisation_builds(name, cloning):
    # Where the host reaches only the ends, tests/property/test_lowered_figures.py does it.
    target = FakeTarget(3)
    model, problem, partition, _ = compile_by_hand(parse(MODELS[name]), target, "relay", cloning)
    predicted = evaluate(problem, partition.chip_of)
    _, wires = split(model, CHIP)
    cost = UnitCost()
    size = {v.name: cost.storage_bytes(v) for v in model.graph.inputs}
    size.update({v.name: cost.storage_bytes(v) for n in model.graph for v in n.outputs})
    ops, links = np.zeros(3), np.zeros(2)
    for node in model.graph:
        if CHIP.find(node) is not None:
            ops[CHIP.get(node)] += 1e-6
    host_in, host_out = np.zeros(3), np.zeros(3)
    for wire in wires:
        seconds = size.get(wire.tensor, 0) / 1e9
        for d in wire.destinations:
            if wire.source == HOST and d != HOST:
                host_in[d] += seconds
            elif wire.source != HOST and d == HOST:
                host_out[wire.source] += seconds
            elif d != HOST:
                links[wire.source] += seconds
    np.testing.assert_allclose(predicted.chip_busy_s, ops, rtol=1e-12)
    channels = ring_channels(problem, predicted.channel_busy_s)
    np.testing.assert_allclose(channels.links, links, rtol=1e-12)
    np.testing.assert_allclose(channels.host_in, host_in, rtol=1e-12)
    np.testing.assert_allclose(channels.host_out, host_out, rtol=1e-12)


def test_a_strict_partition_needs_no_relay_and_runs():
    proto = parse(DIAMOND)
    model, _, _, added = compile_by_hand(
        proto, FakeTarget(2), "strict", NO_CLONES, chip_of=[0, 0, 1, 1]
    )
    assert added.relays == ()
    chips, wires = split(model, CHIP)
    assert same_bits(
        run_chain(chips, wires, feeds_of(proto))["y"], run_model(proto, feeds_of(proto))["y"]
    )


def test_clones_relays_and_groups_are_named_after_their_originals():
    plan = FusionPlan((FusionGroup("Sub_1", "mask", ("Cast_0", "Sub_1")),))
    text = SHARED_MASK.replace("y = Add(e, f)", "y = Add(e, a)")
    model, problem, _, added = compile_by_hand(
        parse(text),
        FakeTarget(3),
        "relay",
        CloningLimits(work_share=10.0, sram_share=1.0, max_chain=1),
        plan,
        chip_of=[0, 0, 0, 1, 1, 2, 2],
    )
    assert problem.names[0] == "Sub_1"
    assert added.clones == (
        ("Cast_0", "Cast_0/on_chip_1", 1),
        ("Sub_1", "Sub_1/on_chip_1", 1),
        ("Cast_0", "Cast_0/on_chip_2", 2),
        ("Sub_1", "Sub_1/on_chip_2", 2),
    )
    assert added.relays == (("a", "a/relay_1", 1),)
    groups = {n.name: n.metadata_props.get(GROUP_PROPERTY) for n in model.graph}
    assert groups["Cast_0"] == groups["Sub_1"] == "Sub_1"
    assert groups["Cast_0/on_chip_1"] == groups["Sub_1/on_chip_1"] == "Sub_1/on_chip_1"
    chips, _ = split(model, CHIP)
    for chip in chips:
        assert {n.metadata_props[CHIP_PROPERTY] for n in chip.model.graph} == {str(chip.chip)}


def test_new_names_avoid_those_that_are_taken():
    proto = parse(LONG_SKIP)
    for node in proto.graph.node:
        node.input[:] = ["a/relay_1" if v == "b" else v for v in node.input]
        node.output[:] = ["a/relay_1" if v == "b" else v for v in node.output]
    del proto.graph.value_info[:]
    proto = onnx.shape_inference.infer_shapes(proto)
    model, _, _, added = compile_by_hand(
        proto, FakeTarget(4), "relay", NO_CLONES, chip_of=[0, 1, 2, 3, 3]
    )
    assert [name for _, name, _ in added.relays] == ["a/relay_1_2", "a/relay_2"]
    chips, wires = split(model, CHIP)
    feeds = feeds_of(proto)
    assert same_bits(run_chain(chips, wires, feeds)["y"], run_model(proto, feeds)["y"])


def test_a_value_listed_twice_as_output_has_one_wire():
    proto = parse(DIAMOND)
    proto.graph.output.append(proto.graph.output[0])
    model = load(proto)
    where = AnnotationKey("where", on="node")
    for node in model.graph:
        where.set(node, 0)
    chips, wires = split(model, where)
    assert chips[0].outputs == ("y",)
    assert [w for w in wires if w.destinations == (HOST,)] == [wires[-1]]


def test_a_model_of_stored_outputs_alone_is_on_the_first_chip():
    proto = parse("g (float[2] x) => (float[2] w) <float[2] w = {1.0, 2.0}> { }")
    chips, wires = split(load(proto), CHIP)
    assert [c.outputs for c in chips] == [("w",)]
    assert wires[0].source == 0
    assert run_model(ir.to_proto(chips[0].model), {})["w"].tolist() == [1.0, 2.0]


def test_weights_are_shared_and_never_copied():
    model, _, _, _ = compile_by_hand(parse(TIED_WEIGHTS), FakeTarget(4), "relay", NO_CLONES)
    tensor = model.graph.initializers["w"].const_value
    chips, _ = split(model, CHIP)
    held = [c.model.graph.initializers.get("w") for c in chips]
    assert len([v for v in held if v is not None]) == 4
    assert all(v.const_value is tensor for v in held if v is not None)


def test_a_value_without_a_type_at_a_boundary_is_refused_by_name():
    model = load(parse(DIAMOND))
    for node in model.graph:
        CHIP.set(node, 0 if node.op_type == "Add" else 1)
        node.outputs[0].type = None
    with pytest.raises(CompileError) as caught:
        split(model, CHIP)
    assert {d.code for d in caught.value.diagnostics} == {"MCM-P012"}
    assert "'a'" in caught.value.diagnostics[0].message
