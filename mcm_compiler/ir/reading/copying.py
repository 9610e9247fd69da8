"""A copy of a model that is in memory, whatever a caller built."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.cloning import clone
from mcm_compiler.graph.constants import graphs_of, subgraphs
from mcm_compiler.graph.structure import MAX_SUBGRAPH_DEPTH, check_structure
from mcm_compiler.ir.rewriting.writer import DataLocation, proto_with_references


def copied(model: ir.Model) -> ir.Model:
    """A copy that shares its weights with `model`, which is as it was afterwards.

    Its nodes are in the order of `model`, or sorted where that is not topological: `onnx_ir` copies
    node by node, and fails at one that reads what no node before it makes.

    Raises:
        CompileError: MCM-I014 for graphs that are nested too deep; where the model cannot be
            copied what `check_structure` finds, such as MCM-I011 for values that nothing makes, or
            MCM-I003 for values of other models.
    """
    _check_depth(model)
    try:
        return clone(model)
    except Exception:  # the cloner wraps whatever it meets
        proto = proto_with_references(model, lambda tensor: DataLocation("w", 0, tensor.nbytes))
        if faults := check_structure(proto.graph):
            raise CompileError(faults) from None
        orders = {graph: list(graph) for graph in graphs_of(model)}
        try:
            for graph in orders:
                graph.sort()
            return clone(model)
        except Exception as error:
            raise CompileError(_foreign(model, error)) from error
        finally:
            for graph, nodes in orders.items():
                graph.remove(nodes)
                graph.extend(nodes)


def _foreign(model: ir.Model, error: Exception) -> Diagnostic:
    """Diagnostic of a model whose names are right and which cannot be copied all the same."""
    cause = error
    while isinstance(cause.__cause__, Exception):
        cause = cause.__cause__
    return Diagnostic(
        "MCM-I003",
        f"the graph cannot be copied: {' '.join(str(cause).split())[:300]}",
        at=f"graph {quote(model.graph.name or '')}",
        hint="every value that a node reads must be the one that an input, a weight or a node of "
        "the same model gives, not another one of its name",
    )


def _check_depth(model: ir.Model) -> None:
    """Raises MCM-I014 before anything that calls itself for each level walks through the graphs."""
    pending = [(model.graph, 0), *((function.graph, 0) for function in model.functions.values())]
    while pending:
        graph, depth = pending.pop()
        if depth > MAX_SUBGRAPH_DEPTH:
            raise CompileError.of(
                "MCM-I014",
                f"subgraphs are nested more than {MAX_SUBGRAPH_DEPTH} deep",
                at=f"graph {quote(graph.name or '')}",
            )
        for node in graph:
            if node.attributes.data:
                pending += ((inner, depth + 1) for inner in subgraphs(node))
