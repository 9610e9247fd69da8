"""Small problems written as ONNX text, priced by a cost model of round numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.cost import NODE_COST, NodeCost
from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.mapping.problem.partition_problem import CloningLimits, build_problem


@dataclass
class PricedOps:
    """Microseconds by op type; 1 for all others. A group costs what its ops cost."""

    microseconds: dict[str, float] = field(default_factory=dict)
    name: str = "priced"

    def node_cost(self, node):
        return self.group_cost([node])

    def group_cost(self, nodes):
        seconds = sum(self.microseconds.get(n.op_type, 1.0) for n in nodes) * 1e-6
        return NodeCost(0.0, 0, 0, 0, seconds, "none")

    def storage_bytes(self, value):
        if value.shape is None:
            return 0
        return int(np.prod(value.shape.numpy(), dtype=np.int64)) * 4


@dataclass
class FakeTarget:
    limits: PackageLimits
    costs: PricedOps
    name: str = "fake"

    def cost_model(self):
        return self.costs


@pytest.fixture
def make_target():
    def make(
        chips=3, sram=1 << 20, host_io="any", link=1e9, microseconds=None, speeds=(), stream=0.0
    ):
        srams = sram if isinstance(sram, tuple) else (sram,) * chips
        limits = PackageLimits(
            chips, srams, link, 1e-6, host_io, 1e9, chip_speed=speeds, stream_bytes_per_s=stream
        )
        return FakeTarget(limits, PricedOps(microseconds or {}))

    return make


@pytest.fixture
def make_model():
    """A model with its nodes named `<op>_<index>` and priced."""

    def make(text, costs=None):
        proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 18]>' + text)
        model = ir.from_proto(proto)
        for i, node in enumerate(model.graph):
            node.name = f"{node.op_type}_{i}"
            NODE_COST.set(node, (costs or PricedOps()).node_cost(node))
        return model

    return make


@pytest.fixture
def make_problem(make_target, make_model):
    """A problem from ONNX text; `groups` are tuples of node names, `clones` allows any cloning."""

    def make(text, *, routing="relay", groups=(), pins=None, clones=False, **target_options):
        target = make_target(**target_options)
        plan = FusionPlan(tuple(FusionGroup(g[-1], "test", g) for g in groups))
        cloning = CloningLimits(10.0, 1.0, 1) if clones else CloningLimits(work_share=0.0)
        model = make_model(text, target.costs)
        return build_problem(model, target, routing, plan, pins=pins, cloning=cloning)

    return make
