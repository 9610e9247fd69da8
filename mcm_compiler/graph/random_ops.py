"""Which outputs of a model differ from run to run."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.constants import RANDOM_OPS, consumed_values, subgraphs


def draws_random(node: ir.Node, model: ir.Model) -> bool:
    """Whether `node`, with its subgraphs and the function it calls, differs from run to run.

    With a `seed` onnxruntime draws the same numbers in each session, in the order of its runs.

    Args:
        node: the node.
        model: holds the functions; they don't call each other in a circle.
    """
    if node.domain in ("", "ai.onnx") and "seed" not in node.attributes.data:
        if node.op_type in RANDOM_OPS:
            return True
        if node.op_type == "Dropout" and _may_train(node):
            return True
    bodies = subgraphs(node)
    functions = model.functions
    if functions and (function := functions.get(node.op_identifier())) is not None:
        bodies.append(function.graph)
    return any(draws_random(inner, model) for body in bodies for inner in body)


def random_outputs(model: ir.Model) -> tuple[list[str], list[ir.Node]]:
    """Graph outputs that depend on random numbers, and the nodes of the graph that draw them."""
    drawn: set[ir.Value] = set()
    nodes: list[ir.Node] = []
    for node in model.graph:
        if draws_random(node, model):
            nodes.append(node)
            drawn.update(node.outputs)
        elif drawn and not drawn.isdisjoint(consumed_values(node)):
            drawn.update(node.outputs)
    names = dict.fromkeys(v.name or "" for v in model.graph.outputs if v in drawn)
    return list(names), nodes


def _may_train(node: ir.Node) -> bool:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    ratio, training = node.inputs[1], node.inputs[2]
    for switch in (training, ratio):
        known = ir.convenience.get_const_tensor(switch) if switch is not None else None
        overridable = switch is not None and switch.is_graph_input()
        if known is not None and not overridable and not known.numpy().any():
            return False
    return True
