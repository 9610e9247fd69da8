"""The passes `partition`, `legalize` and `split` under the pass manager."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target, package_from_text
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.cost import NODE_COST, NodeCost
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionPlan
from mcm_compiler.contracts.partition import CHIP, LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline, print_pipeline
from mcm_compiler.processes.staging import staging
from mcm_passes.families.ring.ring_mapping import RingMapping

TEXT = """
    <ir_version: 10, opset_import: ["" : 18]>
    g (float[2] x) => (float[2] y) <float[2] a, float[2] b, float[2] c> {
        a = Relu(x)
        b = Neg(a)
        c = Exp(b)
        y = Add(c, a)
    }"""


class Cost:
    name = "one microsecond"

    def node_cost(self, node):
        seconds = 1e-7 if node.op_type == "Identity" else 1e-6
        return NodeCost(0.0, 0, 0, 0, seconds, "none")

    def group_cost(self, nodes):
        return self.node_cost(nodes[0])

    def storage_bytes(self, value):
        return int(np.prod(value.shape.numpy())) * 4


@dataclass
class Target:
    name: str = "fake"
    limits: PackageLimits = field(
        default_factory=lambda: PackageLimits(4, (4096,) * 4, 1e9, 1e-6, "any", 1e9)
    )

    def cost_model(self):
        return Cost()


@pytest.fixture
def model():
    model = ir.from_proto(onnx.parser.parse_model(TEXT))
    for i, node in enumerate(model.graph):
        node.name = f"{node.op_type}_{i}"
        NODE_COST.set(node, Cost().node_cost(node))
    FUSION_PLAN.set(model, FusionPlan(()))
    return model


def run(model, passes, **options):
    with staging(None, False) as folder:
        context = PassContext(Target(), CompileOptions(**options), folder, print)
        manager = PassManager(parse_pipeline(passes))
        for step in manager.passes:
            step.run(model, context)


def test_the_pipeline_prints_and_parses():
    text = 'partition{strategy="dp{orders=2}"},legalize,split'
    assert print_pipeline(parse_pipeline(text)) == text


def test_the_three_passes_place_legalise_and_split(model):
    run(model, "partition,legalize,split", partitioner="dp")
    partition = PARTITION.get(model)
    assert partition.strategy == "dp"
    assert PARTITION_PROBLEM.get(model).names == ("Relu_0", "Neg_1", "Exp_2", "Add_3")
    # One op a chip, and 'a' passed on twice.
    assert partition.period_s == pytest.approx(1.1e-6)
    assert LEGALIZATION.get(model).relays == (("a", "a/relay_1", 1), ("a", "a/relay_2", 2))
    assert [CHIP.get(node) for node in model.graph] == [0, 1, 1, 2, 2, 3]
    assert all(NODE_COST.find(node) for node in model.graph)
    assert [c.chip for c in CHIP_MODELS.get(model)] == [0, 1, 2, 3]
    assert {(w.tensor, w.source, w.destinations) for w in WIRES.get(model)} >= {
        ("a", 0, (1,)),
        ("a/relay_1", 1, (2,)),
        ("a/relay_2", 2, (3,)),
    }


def test_the_strategy_comes_from_the_pass_or_the_options(model):
    run(model, "partition", partitioner="local_search")
    assert PARTITION.get(model).strategy == "local_search"
    run(model, 'partition{strategy="dp{orders=1}"}', partitioner="local_search")
    assert PARTITION.get(model).strategy == "dp{orders=1}"


@pytest.mark.parametrize(("level", "strategy"), [(0, "dp{orders=1}"), (1, "dp"), (2, "portfolio")])
def test_a_level_stands_for_a_strategy_unless_one_is_named(model, level, strategy):
    run(model, "partition", level=level)
    assert PARTITION.get(model).strategy == strategy
    run(model, "partition", level=level, partitioner="local_search", samples=50)
    assert PARTITION.get(model).strategy == "local_search"


def test_the_routing_comes_from_the_options(model):
    run(model, "partition", routing="strict")
    assert PARTITION_PROBLEM.get(model).routing == "strict"
    assert PARTITION.get(model).num_chips_used == 2


@pytest.mark.parametrize(
    ("text", "code"), [("dq", "MCM-U003"), ("dp{orders=x}", "MCM-U002"), ("dp{", "MCM-U001")]
)
def test_a_bad_strategy_is_a_diagnostic(model, text, code):
    with pytest.raises(CompileError) as caught:
        run(model, "partition", partitioner=text)
    assert caught.value.diagnostics[0].code == code


class Nothing(Cost):
    """Ops of empty tensors, where a launch takes no time."""

    def node_cost(self, node):
        return NodeCost(0.0, 0, 0, 0, 0.0, "none")

    def storage_bytes(self, value):
        return 0


@pytest.mark.parametrize("level", [0, 2])
def test_a_model_that_takes_no_time_is_refused(model, level, monkeypatch):
    monkeypatch.setattr(Target, "cost_model", lambda self: Nothing())
    for node in model.graph:
        NODE_COST.set(node, Nothing().node_cost(node))
    with pytest.raises(CompileError) as caught:
        run(model, "partition", level=level)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-P002"]
    assert "take no time" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(("target", "launches"), [("fabric-12", False), ("mcm4", True)])
def test_launches_are_proposed_only_where_a_description_has_them(target, launches):
    head = '<ir_version: 10, opset_import: ["" : 20]>'
    text = f"{head} g (float[0,4] x) => (float[0,4] y) {{ y = Exp(x) }}"
    empty = ir.from_proto(onnx.parser.parse_model(text))
    told = load_target(target).source_text
    timeless = package_from_text(target, told.replace("_overhead_ns = 150", "_overhead_ns = 0"))
    options = CompileOptions(passes="fuse,annotate_cost,partition", level=0)
    with pytest.raises(CompileError) as caught:
        run_passes(empty, timeless, options)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-P002"
    assert ("launch_overhead_ns" in fault.hint) == launches


def test_a_strategy_that_the_mapping_of_a_family_does_not_support_is_refused(model, monkeypatch):
    monkeypatch.setattr(RingMapping, "adapted", lambda *_: None)
    with pytest.raises(CompileError) as caught:
        run(model, "partition", partitioner="dp")
    assert [d.code for d in caught.value.diagnostics] == ["MCM-P040"]
