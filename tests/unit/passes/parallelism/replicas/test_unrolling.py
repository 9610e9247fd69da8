"""Graphs of a round: shared constants, facts of every class, and what cannot be."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.api import run_passes
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS, OutputPart
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.graph.rounds import class_of
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.options import CompileOptions
from mcm_passes.parallelism.replicas.unrolling import unroll
from tools.update_goldens import parse_filled

HEAD = '<ir_version: 10, opset_import: ["" : 17]>\n'
MODEL = """
m (float[4] x, bool c) => (float[4] y, float[4] z)
<float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    [root] r = Sqrt (w)
    [first] y = Mul (x, r)
    [branch] z = If (c) <
        then_branch = one () => (float[4] t) { t = Add (y, r) },
        else_branch = two () => (float[4] o) { o = Sub (y, x) }
    >
}
"""


def imported(text: str) -> ir.Model:
    return import_model(ir.from_proto(parse_filled(HEAD + text)), "test")[0]


def test_classes_share_constants_and_compute_the_same_alone() -> None:
    model = imported(MODEL)
    before = ir.to_proto(model)
    unroll(model, 3, CompileOptions())
    check_invariants(model)
    assert [node.op_type for node in model.graph].count("Sqrt") == 1
    assert list(model.graph.initializers) == ["w"]
    assert [v.name for v in model.graph.inputs] == [f"{n}@{k}" for k in range(3) for n in "xc"]
    assert [v.name for v in model.graph.outputs] == [f"{n}@{k}" for k in range(3) for n in "yz"]
    rng = np.random.default_rng(0)
    feeds = {f"x@{k}": rng.random(4, np.float32) for k in range(3)}
    feeds |= {f"c@{k}": np.array(k != 1) for k in range(3)}
    made = run_model(ir.to_proto(model), feeds)
    for k in range(3):
        alone = run_model(before, {n: feeds[f"{n}@{k}"] for n in "xc"})
        assert all(np.array_equal(made[f"{n}@{k}"], alone[n]) for n in "yz")


def test_every_class_has_the_facts_of_the_graph() -> None:
    asked = CompileOptions(passes="simplify,fuse,annotate_cost")
    model, _, _ = run_passes("zoo:bert-tiny{shape_only=true}", "mcm4", asked)
    nodes, plan = placeable_nodes(model.graph), FUSION_PLAN.get(model)
    costs = {node.name: NODE_COST.get(node) for node in nodes}
    part = OutputPart("o", 0, 0, 1, (2,), within=OutputPart("z", 0, 0, 1, (4,)))
    OUTPUT_PARTS.set(model, {"piece": part})
    unroll(model, 2, CompileOptions())
    found = placeable_nodes(model.graph)
    assert len(found) == 2 * len(nodes)
    for node in found:
        base = class_of(node.name or "")
        assert base is not None
        assert NODE_COST.get(node) == costs[base[0]]
    names = {node.name for node in found}
    groups = FUSION_PLAN.get(model).groups
    assert len(groups) == 2 * len(plan.groups)
    assert all(names.issuperset(group.nodes) and group.name in names for group in groups)
    other = OUTPUT_PARTS.get(model)["piece@1"]
    assert (other.output, other.graph_output) == ("o@1", "z@1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m (float[2] x) => (float[2] y, float[1] k) <float[1] w = {1.0}> "
         "{ y = Relu (x) k = Sqrt (w) }", "depends on no input"),
        ('m (float[2] x) => (float[2] y) <float[2] "x@1" = {1.0, 2.0}> '
         '{ y = Add (x, "x@1") }', "has the name of a copy"),
    ],
)  # fmt: skip
def test_mcm_p065_graphs_that_cannot_be_unrolled(text: str, words: str) -> None:
    model = imported(text.replace('"x@1"', "other"))
    if (weight := model.graph.initializers.get("other")) is not None:
        weight.name = "x@1"
    with pytest.raises(CompileError, match=rf"MCM-P065.*{words}"):
        unroll(model, 2, CompileOptions())


def test_mcm_p065_states_on_chips() -> None:
    zoo = "zoo:gpt2-tiny{cache=true,past=8,seq=1,shape_only=true}"
    with pytest.raises(CompileError, match=r"MCM-P065.*stays on its chip"):
        run_passes(zoo, "mcm4", CompileOptions(passes="fuse,annotate_cost,parallelize", round=2))


def test_unrolling_takes_time_in_proportion_to_the_ops() -> None:
    asked = CompileOptions(passes="simplify,fuse,annotate_cost")
    model, _, _ = run_passes("zoo:bert-tiny{shape_only=true}", "mcm4", asked)
    ops, start = len(placeable_nodes(model.graph)), time.process_time()
    unroll(model, 100, CompileOptions())
    assert time.process_time() - start < 4e-4 * 100 * ops


def test_mcm_p065_passes_that_unroll_nothing() -> None:
    passes = "simplify,fuse,annotate_cost,partition"
    with pytest.raises(CompileError, match=r"MCM-P065.*no pass `parallelize` runs"):
        run_passes("zoo:gpt2-tiny", "mcm4", CompileOptions(passes=passes, round=2, level=0))
