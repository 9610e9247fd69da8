"""`annotate_cost` asks the target's cost model, and reports what it cannot model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.cost import NODE_COST, NodeCost
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext
from mcm_models.zoo.llama import Llama
from mcm_passes.pipeline.preparing import AnnotateCost
from tools.update_goldens import parse_filled


@dataclass(frozen=True)
class CountingModel:
    """Knows everything but sines."""

    name: str = "counting"

    def node_cost(self, node: ir.Node) -> NodeCost:
        known = node.op_type not in ("Sin", "Foo")
        return NodeCost(1.0, 2, 3, 4, 5.0, "vector", modelled=known)


TEXT = """<ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
m (float[4] x) => (float[4] y) <float[4] w> {
    k = Sqrt (w)  [first] a = Sin (x)  b = Sin (a)  c = acme.Foo (b)  d = Mul (x, k)
    e = Add (b, d)  y = Neg (e)  z = Abs (c) }"""


def annotate(cost_model: type[CountingModel] = CountingModel) -> tuple[ir.Model, list[Diagnostic]]:
    model, _ = import_model(ir.from_proto(parse_filled(TEXT)), "test")
    reports: list[Diagnostic] = []
    target = SimpleNamespace(cost_model=cost_model)
    AnnotateCost().run(model, PassContext(target, None, None, reports.append))  # pyright: ignore
    return model, reports


def test_every_placed_op_gets_a_cost_and_constants_get_none() -> None:
    model, _ = annotate()
    costed = [node.op_type for node in model.graph if NODE_COST.find(node) is not None]
    assert costed == ["Sin", "Sin", "Foo", "Mul", "Add", "Neg", "Abs"]
    assert NODE_COST.get(model.graph[1]).seconds == 5.0


def test_mcm_p010_op_types_without_a_formula_are_reported_once_each() -> None:
    _, reports = annotate()
    assert [r.code for r in reports] == ["MCM-P010", "MCM-P010"]
    assert all(r.severity is Severity.WARNING and r.code in catalog() for r in reports)
    assert "'counting' has no formula for 'Sin': 2 ops" in reports[0].message
    assert reports[0].at == "node 'first'"
    assert "'acme.Foo': 1 op costed" in reports[1].message


@dataclass(frozen=True)
class GraphModel(CountingModel):
    """In a graph of so many ops each takes as many seconds."""

    def of_graph(self, graph: ir.Graph) -> SimpleNamespace:
        cost = replace(self.node_cost(graph[0]), seconds=float(len(graph)))
        return SimpleNamespace(name=self.name, node_cost=lambda _: cost)


def test_costs_are_those_in_the_graph() -> None:
    model, _ = annotate(GraphModel)
    costs = [NODE_COST.find(node) for node in model.graph]
    assert {cost.seconds for cost in costs if cost is not None} == {8.0}


@pytest.mark.parametrize(
    ("style", "said"), [("hf", "costs are those of all"), ("genai", "its tokens choose")]
)
def test_mcm_p085_says_which_experts_are_priced(style: str, said: str) -> None:
    sizes = {"layers": 2, "hidden": 32, "heads": 2, "kv_heads": 1, "intermediate": 32, "vocab": 9}
    model, _ = import_model(Llama(**sizes, style=style, experts=4, past=3).build(), "test")  # pyright: ignore
    reports: list[Diagnostic] = []
    target = SimpleNamespace(cost_model=CountingModel)
    AnnotateCost().run(model, PassContext(target, None, None, reports.append))  # pyright: ignore
    (note,) = (report for report in reports if report.code == "MCM-P085")
    assert "2 routers choose 2 of 4 experts for a token" in note.message
    assert said in note.message
    assert note.severity is Severity.NOTE
