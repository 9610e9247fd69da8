"""Ops that the chips of a target cannot run, and their fate: the host runs them, or nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeGuard

import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel, KnowsHostOps
from mcm_compiler.contracts.described import Described
from mcm_compiler.contracts.target import Fallback, SupportsOps, Unsupported
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.units import count_text

PLACES = 3
"""Ops that a diagnostic names."""

Found = Mapping[ir.Node, Unsupported]
"""Ops that chips cannot run, in graph order, and why."""


def runs_on_host(model: CostModel, nodes: Sequence[ir.Node]) -> bool:
    """Return whether the host runs a kernel of `nodes`, so that no chip holds its weights."""
    return _knows_host_ops(model) and any(model.on_host(node) for node in nodes)


def _knows_host_ops(model: CostModel) -> TypeGuard[KnowsHostOps]:
    return _kind_knows_host_ops(type(model))


@cache
def _kind_knows_host_ops(kind: type[CostModel]) -> bool:
    """The answer for all models of a class: asking a protocol takes longer than costing an op."""
    return issubclass(kind, KnowsHostOps)


def unsupported_ops(target: Described, nodes: Sequence[ir.Node]) -> dict[ir.Node, Unsupported]:
    """The ops that the chips of `target` cannot run, and why."""
    if not isinstance(target, SupportsOps):
        return {}
    found = ((node, target.unsupported(node)) for node in nodes)
    return {node: why for node, why in found if why is not None}


def fallback_of(target: Described, options: CompileOptions) -> Fallback:
    """Fate of ops that chips cannot run; where the user leaves it open, the target decides."""
    if options.fallback is not None:
        return options.fallback
    return target.fallback if isinstance(target, SupportsOps) else "host"


def host_ops(
    target: Described, nodes: Sequence[ir.Node], options: CompileOptions
) -> tuple[dict[ir.Node, Unsupported], list[Diagnostic]]:
    """The ops of a model that the host will run, and a warning for each kind that chips lack.

    Args:
        target: the package.
        nodes: all ops that are to be placed.
        options: say what is to become of such ops.

    Raises:
        CompileError: MCM-T030 with one diagnostic per op type or element type where the model is
            to be refused, MCM-T031 where the target has no way to the host, MCM-T032 where chips
            would run nothing.
    """
    found = unsupported_ops(target, nodes)
    if not found:
        return {}, []
    lacking = {node: why for node, why in found.items() if why.because != "table"}
    if lacking and fallback_of(target, options) == "error":
        raise CompileError(_by_reason(target, lacking, "MCM-T030", "cannot run"))
    model = target.cost_model()
    if not isinstance(model, KnowsHostOps):
        raise CompileError(_by_reason(target, found, "MCM-T031", "has no way to the host for"))
    left = [node for node in nodes if node not in found and model.node_cost(node).seconds > 0]
    if not left:
        raise CompileError.of(
            "MCM-T032",
            f"target {quote(target.name)} runs none of the "
            f"{count_text(len(found), 'op')} of this model",
            at=f"target {quote(target.name)}",
        )
    return found, _by_reason(target, lacking, "MCM-T033", "leaves to the host")


def _by_reason(target: Described, found: Found, code: str, what: str) -> list[Diagnostic]:
    """One diagnostic for each op type and element type that chips lack."""
    groups: dict[tuple[str, str], list[ir.Node]] = {}
    for node, why in found.items():
        groups.setdefault((why.because, why.what), []).append(node)
    return [
        Diagnostic(
            code,
            f"target {quote(target.name)} {what} "
            f"{f'tensors of type {name}' if because == 'type' else quote(name)}: "
            f"{_ops(because, name, nodes, found)}",
            at=_places(nodes),
        )
        for (because, name), nodes in groups.items()
    ]


def _ops(because: str, name: str, nodes: Sequence[ir.Node], found: Found) -> str:
    count = count_text(len(nodes), "op")
    if because == "type":
        kinds = Counter(node.op_type for node in nodes)
        shown = [f"{number} {op_type}" for op_type, number in kinds.most_common(PLACES)]
        rest = ["others"] if len(kinds) > PLACES else []
        return f"{count}, {', '.join([*shown, *rest])}"
    inside = sum(found[node].inside for node in nodes)
    return f"{count}, {inside} with it in a subgraph" if inside else count


def _places(nodes: Sequence[ir.Node]) -> str:
    names = ", ".join(quote(node.name or "") for node in nodes[:PLACES])
    rest = len(nodes) - PLACES
    return f"node {names}" + (f" and {rest} more" if rest > 0 else "")
