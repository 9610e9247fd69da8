"""Match measured times with the model's ops, and find how much of it they cover."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.components.cost_files import coverage, measured_costs
from mcm_compiler.contracts.cost import ModelNames
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.target import Target, kind_names_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.text.units import count_text, percent_text


def measured_note(model: ir.Model, plan: FusionPlan, target: Target) -> Diagnostic | None:
    """How much of a model was measured (MCM-C007); None where all times are computed.

    Args:
        model: the graph that is placed; ops of the model as it was given may be gone.
        plan: which of its ops run as one kernel.
        target: gives the cost model; where chips are of several kinds, the note is about the first.

    Raises:
        CompileError: one diagnostic per measured time of an op or kernel that is not there.
    """
    costs, kinds = target.cost_model(), kind_names_of(target)
    measured = measured_costs(costs)
    if measured is None:
        return None
    ops = frozenset(node.name or "" for node in model.graph)
    source = SOURCE.find(model)
    given = source.original.graph if source is not None else ()
    names = ModelNames(
        ops=ops,
        removed=frozenset(node.name or "" for node in given) - ops,
        kernels={group.name: group.nodes for group in plan.groups},
    )
    CompileError.raise_any(measured.name_faults(names))
    found = coverage((costs, nodes) for nodes in planned_kernels(model.graph, plan))
    where = f" on chips of the kind {quote(kinds[0])}" if kinds else ""
    return Diagnostic(
        "MCM-C007",
        f"cost model {quote(costs.name)}: {found.measured_ops} of {count_text(found.ops, 'op')} "
        f"and {percent_text(found.share)} of the seconds are measured{where}, the rest is "
        "computed",
        hint=found.hint or (None if found.measured_ops else "no row is about an op of this model"),
        severity=found.severity,
    )


def planned_kernels(graph: ir.Graph, plan: FusionPlan | None) -> list[list[ir.Node]]:
    """The ops of each kernel of a graph; where there is no plan each op is one."""
    return kernels_of(placeable_nodes(graph), plan)


def kernels_of(nodes: Sequence[ir.Node], plan: FusionPlan | None) -> list[list[ir.Node]]:
    """The kernels of some ops, in the order of the first op of each."""
    kernels: dict[str, list[ir.Node]] = {}
    for node in nodes:
        kernels.setdefault(kernel_key(node, plan), []).append(node)
    return list(kernels.values())


def kernel_key(node: ir.Node, plan: FusionPlan | None) -> str:
    """The same text for all ops of one kernel."""
    group = None if plan is None else plan.group_of.get(node.name or "")
    return f"node {node.name}" if group is None else f"group {group.name}"
