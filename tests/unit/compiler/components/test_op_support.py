from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import pytest

from mcm_compiler.components.op_support import fallback_of, host_ops, runs_on_host, unsupported_ops
from mcm_compiler.contracts.cost import NodeCost
from mcm_compiler.contracts.target import SupportsOps, Unsupported
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.options import CompileOptions


@dataclass
class Costs:
    """Prices every op at a second; knows no host."""

    name: str = "seconds"

    def node_cost(self, node: ir.Node) -> NodeCost:
        return NodeCost(0.0, 0, 0, 0, 0.0 if node.op_type == "Reshape" else 1.0, "vector")


@dataclass
class HostCosts(Costs):
    lacking: frozenset[str] = frozenset()

    def on_host(self, node: ir.Node) -> bool:
        return node.op_type in self.lacking


@dataclass
class Plain:
    """A target of a family that says nothing of ops."""

    name: str = "plain"

    def cost_model(self) -> Any:
        return Costs()


@dataclass
class Lacking(Plain):
    """One whose chips lack some ops, and all tensors of a type."""

    ops: frozenset[str] = frozenset({"Erf"})
    fallback: str = "host"
    host: bool = True
    types: dict[str, str] = field(default_factory=dict)

    def cost_model(self) -> Any:
        return HostCosts(lacking=self.ops) if self.host else Costs()

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        if node.op_type in self.ops:
            return Unsupported("op", node.op_type, inside=node.name == "n3")
        if node.op_type in self.types:
            return Unsupported("type", self.types[node.op_type])
        return None


def nodes(*ops: str) -> list[ir.Node]:
    return [ir.Node("", op, [], name=f"n{i}") for i, op in enumerate(ops)]


def test_families_that_say_nothing_run_everything():
    assert not isinstance(Plain(), SupportsOps)
    assert isinstance(Lacking(), SupportsOps)
    assert unsupported_ops(Plain(), nodes("Erf")) == {}
    assert host_ops(Plain(), nodes("Erf"), CompileOptions(fallback="error")) == ({}, [])
    assert not runs_on_host(Costs(), nodes("Erf"))


def test_the_option_wins_over_the_target():
    strict = Lacking(fallback="error")
    assert fallback_of(strict, CompileOptions()) == "error"
    assert fallback_of(strict, CompileOptions(fallback="host")) == "host"
    assert fallback_of(Plain(), CompileOptions()) == "host"


def test_one_warning_for_each_op_and_each_type():
    ops = nodes("Erf", "Relu", "Erf", "Erf", "Erf", "Mul", "Cast", "Mul", "Add", "Sub")
    types = dict.fromkeys(("Mul", "Cast", "Add", "Sub"), "FLOAT16")
    found, (erf, half) = host_ops(Lacking(types=types), ops, CompileOptions())
    assert [node.name for node in found] == ["n0", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"]
    assert (erf.code, erf.severity) == ("MCM-T033", Severity.WARNING)
    assert erf.message == "target 'plain' leaves to the host 'Erf': 4 ops, 1 with it in a subgraph"
    assert erf.at == "node 'n0', 'n2', 'n3' and 1 more"
    assert "tensors of type FLOAT16: 5 ops, 2 Mul, 1 Cast, 1 Add, others" in half.message


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (Lacking(fallback="error"), "MCM-T030"),
        (Lacking(host=False), "MCM-T031"),
        (Lacking(ops=frozenset({"Erf", "Relu"})), "MCM-T032"),
    ],
)
def test_refusals(target: Lacking, code: str):
    with pytest.raises(CompileError) as caught:
        host_ops(target, nodes("Erf", "Relu", "Reshape"), CompileOptions())
    assert {d.code for d in caught.value.diagnostics} == {code}
    assert all(d.hint for d in caught.value.diagnostics)


def test_a_kernel_with_one_such_op_is_the_hosts():
    model = HostCosts(lacking=frozenset({"Erf"}))
    assert runs_on_host(model, nodes("Reshape", "Erf"))
    assert not runs_on_host(model, nodes("Reshape", "Relu"))
