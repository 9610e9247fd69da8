"""Running statistics of normalisations in training, over which onnxruntime writes.

A `BatchNormalization` in training puts its new running mean and variance where the old ones are,
unless the new ones are outputs of the graph: ONNX has it make new values. Other readers of the
old ones see them or the new ones, depending on the order of the run. Old ones that outlast a run
(weights, and arrays that a caller gives) change from run to run. Chips run in another order.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.graph.constants import add_initializer, graphs_of
from mcm_compiler.ir.rewriting.naming import UnusedNames, is_training_normalisation

_STATISTICS = ((3, 1, "mean"), (4, 2, "variance"))
"""Input with the old statistic, output with the new one, and its name."""

_VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Ops whose result onnxruntime keeps where their first input is."""


def separate_running_statistics(model: ir.Model) -> list[Diagnostic]:
    """Gives normalisations in training weights of their own for what others read too, in place.

    Args:
        model: with functions inlined and nodes named.

    Returns:
        A note MCM-I054 for each statistic that became a weight of its own.

    Raises:
        CompileError: MCM-I054 where results would depend on the order of the run, or change from
            run to run, and no weight of its own helps.
    """
    layers = [
        node for graph in graphs_of(model) for node in graph if is_training_normalisation(node)
    ]
    if not layers:
        return []
    found: list[Diagnostic] = []
    names = UnusedNames(model.graph)
    for node in layers:
        for old_index, new_index, kind in _STATISTICS:
            old = node.inputs[old_index] if old_index < len(node.inputs) else None
            new = node.outputs[new_index] if new_index < len(node.outputs) else None
            if old is None or new is None or not new.name or new.is_graph_output():
                continue
            root = _root(old)
            outlasts = root.is_initializer() or root.is_graph_input() or _is_constant(root)
            if outlasts and new.uses():
                found.append(_changing(node, kind, old, new))
                continue
            other = _other_reader(root, node, old_index)
            if other is None:
                continue
            tensor = ir.convenience.get_const_tensor(root)
            if tensor is None:
                found.append(_unordered(node, kind, old, new, other))
                continue
            name = names.take(f"{old.name}_of_{node.name}")
            copy = ir.tensor(tensor.numpy().reshape(-1).copy(), name=name)
            node.replace_input_with(old_index, add_initializer(model.graph, copy))
            found.append(_separated(node, kind, old, other))
    if any(fault.severity is Severity.ERROR for fault in found):
        raise CompileError(found)
    return found


def _is_constant(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def _is_view(node: ir.Node) -> bool:
    return node.op_type in _VIEWS and node.domain in ("", "ai.onnx")


def _root(value: ir.Value) -> ir.Value:
    """The value in whose memory `value` is."""
    while (node := value.producer()) is not None and _is_view(node):
        source = node.inputs[0] if node.inputs else None
        if source is None:
            break
        value = source
    return value


def _other_reader(root: ir.Value, layer: ir.Node, index: int) -> str | None:
    """Reader of `root`'s memory other than input `index` of `layer`, as text."""
    pending = [root]
    while pending:
        value = pending.pop()
        if value.is_graph_output():
            return f"the output {quote(value.name or '')}"
        for use in value.uses():
            if use.node is layer and use.idx == index:
                continue
            if _is_view(use.node) and use.idx == 0:
                pending += use.node.outputs
                continue
            return f"{quote(use.node.name or '')} ({use.node.op_type})"
    return None


def _place(node: ir.Node) -> str:
    return f"node {quote(node.name or '')} (BatchNormalization)"


def _separated(node: ir.Node, kind: str, old: ir.Value, other: str) -> Diagnostic:
    return Diagnostic(
        "MCM-I054",
        f"onnxruntime writes the new running {kind} over {quote(old.name or '')}, which {other} "
        "reads too; this op got a copy of its own, so that all others read what the file holds",
        at=_place(node),
        severity=Severity.NOTE,
    )


def _unordered(node: ir.Node, kind: str, old: ir.Value, new: ir.Value, other: str) -> Diagnostic:
    return Diagnostic(
        "MCM-I054",
        f"onnxruntime writes the new running {kind} over {quote(old.name or '')}, which {other} "
        "reads too: what it reads depends on the order of the run",
        at=_place(node),
        hint=f"make {quote(new.name or '')} an output of the graph, which keeps the old one",
    )


def _changing(node: ir.Node, kind: str, old: ir.Value, new: ir.Value) -> Diagnostic:
    return Diagnostic(
        "MCM-I054",
        f"onnxruntime writes the new running {kind} {quote(new.name or '')}, which other ops "
        f"read, over {quote(old.name or '')}: results change from run to run",
        at=_place(node),
        hint=f"make {quote(new.name or '')} an output of the graph, which keeps the old one",
    )
